"""RLlib's connectors between environment and module: what the learner and pi see, and how pi acts.

`Walk` behind connectors, with statistics that are a function of the stream alone.
"""

import numpy as np
import pytest
from connector_pieces import (
    Counting,
    DoubledRewards,
    LongAgo,
    Pixels,
    Standstill,
    StructuredWalk,
)
from harness import Walk, built, digests, learner_of, stream_of, tiny_config, train
from ray.rllib.connectors.env_to_module import (
    AddObservationsFromEpisodesToBatch,
    BatchIndividualItems,
    EnvToModulePipeline,
    FlattenObservations,
    MeanStdFilter,
)
from ray.rllib.connectors.env_to_module.frame_stacking import FrameStackingEnvToModule
from ray.rllib.connectors.learner import GeneralAdvantageEstimation, NumpyToTensor
from ray.rllib.connectors.learner.frame_stacking import FrameStackingLearner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_geoffpac import DDPGConfig, GeoffPAC

BOOTSTRAP = {"truncation": "bootstrap"}  # so that final observations matter


def connected(*pieces, kernel="torch", runners=0, length=20, **more):
    """The tiny config with env-to-module pieces, made anew for everyone who needs them."""
    config = tiny_config(kernel=kernel, **more).env_runners(
        num_env_runners=runners,
        rollout_fragment_length=length,
        env_to_module_connector=lambda env, spaces, device: [piece() for piece in pieces],
    )
    return config.evaluation(evaluation_interval=2, evaluation_duration=3)


@pytest.fixture(scope="module")
def filtered(ray):
    """The digests with a mean-std filter, nothing in parallel."""
    return digests(connected(MeanStdFilter, **BOOTSTRAP), 4)


@pytest.mark.slow
def test_a_pipeline_that_changes_nothing_changes_no_weight(ray, kernel):
    flattened = connected(FlattenObservations, kernel=kernel)
    assert digests(flattened) == digests(tiny_config(kernel=kernel))


@pytest.mark.slow
@pytest.mark.parametrize(("runners", "length"), [(3, 20), (0, 7)])
def test_statistics_don_t_depend_on_env_runners_and_fragments(ray, filtered, runners, length):
    config = connected(MeanStdFilter, runners=runners, length=length, **BOOTSTRAP)
    assert digests(config, 4) == filtered


@pytest.mark.slow
def test_a_filter_s_statistics_are_those_of_the_stream(ray):
    with built(connected(MeanStdFilter)) as algo, built(tiny_config()) as plain:
        train(algo, 1)
        (fragment,) = stream_of(plain, 30)
        episode = SingleAgentEpisode(observations=[np.zeros(3, np.float32)])
        pipeline = algo.observer.env_to_module
        pipeline(episodes=[episode], batch={}, rl_module=algo.get_module(), explore=False)
    passed = [*fragment.observations.reshape(-1, 3), *fragment.final_observations, np.zeros(3)]
    mean, std = np.mean(passed, axis=0, dtype=np.float64), np.std(passed, axis=0, ddof=1)
    np.testing.assert_allclose(episode.get_observations(-1), -mean / std, rtol=1e-4)


@pytest.fixture(scope="module")
def resumed(ray, tmp_path_factory):
    """A checkpoint after two iterations with a filter, and the digests of the next two."""
    path = tmp_path_factory.mktemp("filtered") / "checkpoint"
    with built(connected(MeanStdFilter, **BOOTSTRAP)) as algo:
        train(algo, 2)
        algo.save_to_path(path)
        seen = algo.observer.latest
    restored = GeoffPAC.from_checkpoint(path)
    try:
        return path, [result["weights_digest"] for result in train(restored, 2)], seen
    finally:
        restored.stop()


@pytest.mark.slow
def test_statistics_and_episodes_come_back_from_a_checkpoint(filtered, resumed):
    assert resumed[1] == filtered[2:]


def test_the_pipeline_of_a_checkpoint_loads_by_itself(resumed):
    path, _, seen = resumed
    pipeline = EnvToModulePipeline.from_checkpoint(path / "env_runner" / "env_to_module_connector")
    statistics = pipeline[MeanStdFilter][0].get_state()[None]["running_stats"][0]
    assert statistics["num_pushes"] > 60 * 5
    assert seen.shape == (5, 3)


@pytest.mark.slow
@pytest.mark.parametrize("piece", [MeanStdFilter, Counting])
def test_evaluation_keeps_the_state_of_training_whoever_plays(ray, piece):
    j_pi = []
    for runners in (0, 2):
        config = connected(piece).evaluation(evaluation_num_env_runners=runners)
        with built(config) as algo:
            result = train(algo, 2)[-1]
            state = algo.observer.get_state()
            algo.evaluate()
            assert algo.observer.get_state() == state
        j_pi.append(result["evaluation"]["env_runners"]["j_pi"])
    assert j_pi[0] == j_pi[1]


@pytest.mark.slow
def test_structured_observations_are_flattened(ray, kernel):
    config = connected(FlattenObservations, kernel=kernel).environment(StructuredWalk)
    with built(config) as algo:
        results = train(algo, 2)
        assert learner_of(algo).rl_module.observation_space.shape == (2 + 3 + 5 + 2,)
        assert learner_of(algo).backend.name == kernel
        (fragment,) = stream_of(algo, 3)
        (seen,) = algo.seen([fragment])
    assert fragment.observations.shape == (4, 5, 7)
    place, sign = fragment.observations[0, 0, 5:7], fragment.observations[0, 0, 0]
    np.testing.assert_array_equal(seen.observations[0, 0, 3 + 5 + 2 :], place)
    assert seen.observations[0, 0, int(sign)] == 1
    assert results[0]["weights_digest"] != results[1]["weights_digest"]
    assert np.isfinite(results[-1]["evaluation"]["env_runners"]["j_pi"])


def test_structured_observations_without_a_connector_are_told_which(ray):
    with pytest.raises(ValueError, match=r"space Dict.*env_to_module_connector.*FlattenObs"):
        tiny_config().environment(StructuredWalk).build_algo()


def test_a_piece_that_can_t_serve_the_space_is_named(ray):
    with pytest.raises(ValueError, match=r"`env_to_module_connector` can't serve .* Box"):
        connected(FrameStackingEnvToModule).build_algo()


@pytest.mark.slow
def test_module_to_env_pieces_change_what_pi_s_actions_do(ray):
    def j_pi(*pieces):
        config = tiny_config().env_runners(module_to_env_connector=lambda env, spaces: list(pieces))
        config.evaluation(evaluation_interval=1, evaluation_duration=3)
        with built(config) as algo:
            result = algo.train()
        return result["weights_digest"], result["evaluation"]["env_runners"]["j_pi"]

    assert j_pi() == j_pi(), "the same without pieces"
    weights, standing = j_pi(Standstill())
    assert weights == j_pi()[0], "the behaviour policy acts in training"
    assert standing != j_pi()[1]


@pytest.mark.slow
def test_pieces_can_take_the_place_of_the_default_ones(ray):
    pieces = [AddObservationsFromEpisodesToBatch, BatchIndividualItems]
    alone = connected(*pieces)
    alone.env_runners(add_default_connectors_to_env_to_module_pipeline=False)
    with built(alone) as algo:
        assert [type(piece) for piece in algo.observer.env_to_module] == pieces
        found = [result["weights_digest"] for result in train(algo, 2)]
    assert found == digests(tiny_config(), 2)
    nothing = tiny_config().env_runners(add_default_connectors_to_env_to_module_pipeline=False)
    with pytest.raises(ValueError, match=r"env_to_module_pipeline` is False.*gives no piece"):
        nothing.build_algo()


@pytest.mark.slow
def test_pieces_for_actions_can_take_the_place_of_the_default_ones(ray):
    j_pi = []
    for with_defaults in (True, False):
        config = tiny_config().env_runners(
            module_to_env_connector=lambda env, spaces: Standstill(),
            add_default_connectors_to_module_to_env_pipeline=with_defaults,
        )
        config.evaluation(evaluation_interval=1, evaluation_duration=3)
        with built(config) as algo:
            j_pi.append(algo.train()["evaluation"]["env_runners"]["j_pi"])
            pieces = list(algo.env_runner.pipelines["module_to_env_connector"])
            assert (len(pieces) == 1) is not with_defaults
    assert j_pi[0] == j_pi[1]


@pytest.mark.slow
def test_pieces_look_back_as_far_as_the_lookback_horizon(ray):
    def seen(**lookback):
        config = connected(LongAgo, env_config={"limit": 200, "end": 0.0}, length=140)
        with built(config.env_runners(**lookback)) as algo:
            (raw,) = stream_of(algo, 140)
            (seen,) = algo.seen([raw])
        return seen.observations[130], raw.observations[30]

    found, expected = seen(episode_lookback_horizon=128)
    np.testing.assert_array_equal(found, expected)
    assert not seen()[0].any(), "the latest 64 steps are kept, and a few"


def with_learner_pieces(*pieces, **more):
    return tiny_config(**more).learners(learner_connector=lambda *spaces: list(pieces))


@pytest.mark.slow
def test_a_learner_s_piece_changes_what_is_learned(ray):
    doubled = digests(with_learner_pieces(DoubledRewards(), NumpyToTensor()), 2)
    assert doubled != digests(tiny_config(), 2)
    assert digests(with_learner_pieces(NumpyToTensor()), 2) == digests(tiny_config(), 2)


def test_noise_around_pi_is_told_that_it_knows_no_connectors():
    config = DDPGConfig().environment(Walk).env_runners(behavior="noise")
    config.env_runners(env_to_module_connector=lambda env, spaces, device: MeanStdFilter())
    with pytest.raises(ValueError, match=r"`behavior` is 'noise'.*fixed behaviour"):
        config.validate()


REFUSED_PIECES = {
    "RLlib's GeneralAdvantageEstimation, which works on episodes": lambda: with_learner_pieces(
        GeneralAdvantageEstimation(gamma=0.9, lambda_=0.9)
    ),
    "has FrameStacking: give it as `env_to_module_connector`": lambda: with_learner_pieces(
        FrameStackingLearner(num_frames=2)
    ),
    "`learner_connector` has no LaneAligner": lambda: tiny_config().learners(
        add_default_connectors_to_learner_pipeline=False
    ),
}


@pytest.mark.parametrize("message", REFUSED_PIECES)
def test_a_learner_s_piece_that_can_t_work_is_named(message):
    config = REFUSED_PIECES[message]()
    with pytest.raises(ValueError, match=message):
        config.check_env(Walk())


def pictured(*pieces, model_config=None, **more):
    """The tiny config on images, 4 lanes."""
    model = {"conv_filters": [[2, 3, 2], [3, [2, 2], 1, "valid"]], "fcnet_hiddens": [6]}
    config = connected(*pieces, num_lanes=4, model_config=model_config or model, **more)
    return config.environment(Pixels).reporting(min_sample_timesteps_per_iteration=4 * 25)


def stacked():
    return FrameStackingEnvToModule(num_frames=3)


@pytest.mark.slow
def test_frames_are_stacked_within_an_episode(ray):
    with built(pictured(stacked, kernel="auto")) as algo:
        raw = stream_of(algo, 12)
        (seen,) = algo.seen(raw)
    (raw,) = raw
    latest = seen.observations.reshape(13, 4, 18, 3)
    np.testing.assert_array_equal(latest[..., -1], raw.observations)
    ended = raw.terminated | raw.truncated
    for t, lane in np.argwhere(ended[:-1]):
        assert not latest[t + 1, lane, :, :2].any(), "an episode begins with empty frames"
    going_on = ~ended[1:] & ~ended[:-1]
    for t, lane in np.argwhere(going_on):
        np.testing.assert_array_equal(latest[t + 2, lane, :, 0], raw.observations[t, lane])
    for (t, lane), final in zip(raw.final_index, seen.final_observations, strict=True):
        np.testing.assert_array_equal(final.reshape(18, 3)[:, 1], raw.observations[t, lane])


@pytest.fixture(scope="module")
def picture_digests(ray):
    return digests(pictured(stacked, kernel="auto", **BOOTSTRAP), 3)


@pytest.mark.slow
def test_images_are_learned_from_and_stay_bytes(ray, picture_digests, tmp_path):
    config = pictured(stacked, kernel="auto", length=7, **BOOTSTRAP)
    with built(config.env_runners(experience_cache=str(tmp_path / "cache"))) as algo:
        first = train(algo, 2)
        learner = learner_of(algo)
        assert learner.backend.name == "torch", "the compiled backend has no convolutions"
        drawn = learner.replay.sample(np.random.default_rng(0), 1)
        assert drawn["obs"].dtype == drawn["new_obs"].dtype == np.uint8
        algo.save_to_path(tmp_path / "checkpoint")
    restored = GeoffPAC.from_checkpoint(tmp_path / "checkpoint")
    try:
        (last,) = train(restored, 1)
    finally:
        restored.stop()
    assert [r["weights_digest"] for r in (*first, last)] == picture_digests
    assert np.isfinite(first[-1]["evaluation"]["env_runners"]["j_pi"])


@pytest.mark.slow
def test_pixels_without_convolutions_are_numbers(ray, kernel):
    config = pictured(FlattenObservations, kernel=kernel, model_config={"fcnet_hiddens": [6]})
    with built(config) as algo:
        assert algo.train()["weights_digest"] != algo.train()["weights_digest"]
        assert learner_of(algo).backend.name == kernel
