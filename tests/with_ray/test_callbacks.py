"""RLlib's callbacks on environments, episodes and samples: all called, once, and without effect."""

import numpy as np
import pytest
import ray as ray_api
import torch
from harness import built, tiny_config, train
from witness import Witness

from rllib_geoffpac.callbacks import TwoCirclePolicy
from rllib_geoffpac.compat import env_runner_actors
from rllib_geoffpac.env_runners.callbacks import WatchedEnv, sampling_hooks


def watched_config(**settings):
    config = tiny_config().callbacks(Witness).env_runners(**settings)
    return config.reporting(metrics_num_episodes_for_smoothing=1000)


def without_times(result: dict) -> dict:
    """What the callbacks logged."""
    names = ("environments", "created", "started", "steps_seen", "returns", "ended")
    return {name: result[name] for name in (*names, "episodes_in_samples")}


@pytest.fixture(scope="module")
def alone(ray) -> list[dict]:
    """Three iterations in one process."""
    with built(watched_config()) as algo:
        return train(algo, 3)


def test_callbacks_see_every_step_and_episode_once(alone):
    for result in alone:
        seen = result["env_runners"]
        assert seen["steps_seen"] == 150
        assert seen["ended"] == seen["num_episodes_lifetime"]
        assert seen["created"] == seen["started"] == seen["ended"] + 5, "five are under way"
        assert seen["environments"] == 5
        assert seen["episodes_in_samples"] >= seen["num_episodes"]
    first = alone[0]["env_runners"]
    assert first["returns"] == pytest.approx(first["episode_return_mean"] * first["num_episodes"])


@pytest.mark.slow
def test_callbacks_change_nothing_that_is_learned(ray, alone):
    with built(tiny_config()) as algo:
        expected = [result["weights_digest"] for result in train(algo, 3)]
    assert [result["weights_digest"] for result in alone] == expected


@pytest.mark.slow
def test_remote_env_runners_call_them_as_well(ray, alone):
    with built(watched_config(num_env_runners=2)) as algo:
        spread = train(algo, 3)
    for one, two in zip(alone, spread, strict=True):
        expected, seen = (without_times(r["env_runners"]) for r in (one, two))
        assert seen.pop("returns") == pytest.approx(expected.pop("returns"))
        assert seen == expected


@pytest.mark.slow
def test_what_is_simulated_again_after_a_restore_is_not_told_again(ray, alone, tmp_path):
    with built(watched_config()) as algo:
        train(algo, 1)
        algo.save_to_path(tmp_path / "checkpoint")
    with built(watched_config()) as algo:
        algo.restore_from_path(tmp_path / "checkpoint")
        result = train(algo, 1)[0]["env_runners"]
    assert result["lanes_resimulated"] == 5
    for name in ("steps_seen", "started", "ended"):
        assert result[name] == alone[1]["env_runners"][name]


@pytest.mark.slow
@pytest.mark.parametrize("runners", [0, 2])
def test_callbacks_see_evaluation_episodes(ray, runners):
    config = watched_config().evaluation(
        evaluation_interval=1,
        evaluation_duration=6,
        evaluation_horizon=4,
        evaluation_num_env_runners=runners,
    )
    with built(config) as algo:
        seen = train(algo, 1)[0]["evaluation"]["env_runners"]
    assert seen["ended"] == seen["num_episodes"] == 6
    assert seen["steps_seen"] == seen["num_env_steps_sampled"]
    assert seen["returns"] == pytest.approx(6 * seen["episode_return_mean"])


def test_functions_can_be_given_instead_of_a_class(ray):
    lengths = []
    config = tiny_config().callbacks(
        on_episode_end=lambda episode, **kwargs: lengths.append(len(episode))
    )
    with built(config) as algo:
        result = train(algo, 1)[0]["env_runners"]
    assert len(lengths) == result["num_episodes"]
    assert np.mean(lengths) == pytest.approx(result["episode_len_mean"])


def test_episodes_hold_the_log_densities_of_their_actions(ray):
    """mu's in training, pi's in evaluation, with what RLlib's distribution is made of."""
    episodes = []
    config = tiny_config().callbacks(on_episode_end=lambda episode, **_: episodes.append(episode))
    config.evaluation(evaluation_interval=1, evaluation_duration=2)
    with built(config) as algo:
        result = train(algo, 1)[0]
        distribution = algo.get_module().get_inference_action_dist_cls()
    played, lanes = [], []
    for episode in episodes:
        with_pi = "action_dist_inputs" in episode.extra_model_outputs
        (played if with_pi else lanes).append(episode)
    assert (len(played), len(lanes)) == (2, result["env_runners"]["num_episodes"])
    for episode in lanes:
        logp = episode.get_extra_model_outputs("action_logp")
        np.testing.assert_allclose(logp, [-np.log(4)] * len(episode), rtol=1e-6)
    for episode in played:
        inputs, actions = (
            torch.as_tensor(np.array(values))
            for values in (
                episode.get_extra_model_outputs("action_dist_inputs"),
                episode.get_actions(),
            )
        )
        expected = distribution.from_logits(inputs).logp(actions)
        found = episode.get_extra_model_outputs("action_logp")
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.slow
def test_environments_are_not_watched_unless_somebody_asks(ray):
    assert sampling_hooks(tiny_config()) == set()
    config = tiny_config().callbacks(on_train_result=lambda **kwargs: None)
    assert sampling_hooks(config) == set()
    assert sampling_hooks(tiny_config().callbacks(TwoCirclePolicy)) == set()
    for given, watched in ((config, False), (watched_config(), True)):
        with built(given) as algo:
            lanes = algo.env_runner_group.local_env_runner._lanes
            assert all(isinstance(lane.env, WatchedEnv) == watched for lane in lanes)


def test_a_recorded_stream_has_no_episodes_to_tell_about(tmp_path):
    config = watched_config(experience_cache=str(tmp_path))
    with pytest.raises(ValueError, match=r"the callback `on_episode_created` asks for episodes"):
        config.validate()


@pytest.mark.slow
def test_a_rebuilt_env_runner_is_told(ray):
    told = []
    config = tiny_config().callbacks(
        on_env_runners_recreated=lambda env_runner_indices, is_evaluation, **kwargs: told.append(
            (env_runner_indices, is_evaluation)
        )
    )
    config.env_runners(num_env_runners=1)
    config.evaluation(evaluation_interval=1, evaluation_num_env_runners=1, evaluation_duration=1)
    with built(config) as algo:
        train(algo, 1)
        assert told == []
        for group in (algo.env_runner_group, algo.eval_env_runner_group):
            (actor,) = env_runner_actors(group).values()
            ray_api.kill(actor, no_restart=False)
        train(algo, 2)  # what was simulated ahead is not lost
    assert ([1], False) in told
    assert ([1], True) in told
