"""Resources never change the result: the weights come out the same, bit for bit."""

import functools

import numpy as np
import pytest
from harness import (
    built,
    digests,
    learner_of,
    play_round,
    stream_of,
    tiny_config,
    train,
    without_times,
)

from rllib_geoffpac.env_runners import BehaviorEnvRunner
from rllib_geoffpac.evaluation.target_policy import summarize
from rllib_geoffpac.lanes.positions import LaneAnchor

ITERATIONS = 3


@functools.cache
def expected(kernel: str = "fast") -> list[str]:
    """One process, fragments of 20 locksteps."""
    return digests(tiny_config(kernel=kernel), ITERATIONS)


def test_the_weights_change_and_depend_on_the_seed(ray, kernel):
    assert len(set(expected(kernel))) == ITERATIONS
    other = digests(tiny_config(kernel=kernel).debugging(seed=1), ITERATIONS)
    assert not set(other) & set(expected(kernel))


@pytest.mark.parametrize("length", [1, 7, 50])
def test_the_fragment_length_does_not_matter(ray, kernel, length):
    config = tiny_config(kernel=kernel).env_runners(rollout_fragment_length=length)
    assert digests(config, ITERATIONS) == expected(kernel)


@pytest.mark.parametrize(
    ("num_env_runners", "length", "sample_ahead"), [(1, 7, 3), (2, 50, 2), (3, 20, 0)]
)
def test_env_runners_and_their_share_of_the_lanes_do_not_matter(
    ray, num_env_runners, length, sample_ahead
):
    """5 lanes on 1, on 3 + 2 and on 2 + 2 + 1."""
    config = tiny_config(kernel="fast").env_runners(
        num_env_runners=num_env_runners, rollout_fragment_length=length, sample_ahead=sample_ahead
    )
    with built(config) as algo:
        results = train(algo, ITERATIONS)
    assert [result["weights_digest"] for result in results] == expected()
    # What was simulated ahead is not counted before the learner has it.
    steps = [result["num_env_steps_sampled_lifetime"] for result in results]
    assert steps == [150, 300, 450]


def test_a_remote_learner_learns_the_same(ray):
    assert digests(tiny_config(kernel="fast").learners(num_learners=1), 2) == expected()[:2]


def test_behaviour_episodes_are_reported_the_same_for_any_fragment_length(ray):
    reported = []
    for length in (7, 50):
        config = tiny_config().env_runners(rollout_fragment_length=length)
        with built(config) as algo:
            results = train(algo, 2)
        names = ("episode_return_mean", "episode_return_min", "episode_len_mean", "num_episodes")
        reported.append([[r["env_runners"][name] for name in names] for r in results])
    np.testing.assert_allclose(*reported, rtol=1e-12)


def test_two_algorithms_with_the_same_seed_see_the_same_data(ray):
    streams = []
    for config in (
        tiny_config("GeoffPAC", gamma_hat=0.5),
        tiny_config("ACE", actor_lr=0.1, truncation="bootstrap"),
    ):
        with built(config) as algo:
            train(algo, 1)
            streams.append(stream_of(algo, 30))
    for one, other in zip(*streams, strict=True):
        for name in ("observations", "actions", "rewards", "terminated", "final_observations"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_all_lanes_and_seeds_have_streams_of_their_own(ray):
    """RLlib once gave every env runner the same seed (ray-project/ray#46986)."""
    starts, actions = [], []
    for seed in (0, 1):
        with built(tiny_config(num_lanes=8).debugging(seed=seed)) as algo:
            for fragment in stream_of(algo, 40):
                resets = fragment.terminated | fragment.truncated
                starts += list(fragment.observations[0]) + list(fragment.observations[1:][resets])
                actions += list(fragment.actions.swapaxes(0, 1).reshape(8, -1))
    assert len({start.tobytes() for start in starts}) == len(starts) > 60
    assert len({action.tobytes() for action in actions}) == len(actions) == 16


def test_two_env_runners_have_streams_of_their_own():
    fragments = []
    for index in (1, 2):
        runner = BehaviorEnvRunner(
            config=tiny_config(num_lanes=2), worker_index=index, num_workers=2
        )
        anchor = LaneAnchor.start(runner.lane_numbers)
        fragments.append(runner.sample(start=0, num_locksteps=20, anchor=anchor))
    first, second = fragments
    assert first.lanes.tolist() == [0] and second.lanes.tolist() == [1]
    assert not np.isin(first.actions, second.actions).any()


def test_parallel_evaluation_sees_the_weights_at_the_start_of_the_iteration(ray):
    def config():
        return tiny_config(kernel="fast", actor_lr=0.05).evaluation(
            evaluation_interval=1, evaluation_duration=4
        )

    plain = digests(config(), ITERATIONS)
    parallel = config().evaluation(
        evaluation_num_env_runners=1, evaluation_parallel_to_training=True
    )
    with built(parallel) as algo:
        results = train(algo, ITERATIONS)
    assert [result["weights_digest"] for result in results] == plain

    with built(config().evaluation(evaluation_interval=100)) as algo:
        for iteration, result in enumerate(results):
            reported = result["evaluation"]["env_runners"]
            assert reported["j_pi"] == summarize(play_round(algo, 4, iteration))["j_pi"]
            assert reported["evaluated_at_env_steps"] == 150 * iteration
            train(algo, 1)


def test_the_number_of_evaluation_env_runners_does_not_matter(ray):
    reported = []
    for num_env_runners in (0, 1, 2):
        config = tiny_config(kernel="fast").evaluation(
            evaluation_interval=1,
            evaluation_duration=5,
            evaluation_num_env_runners=num_env_runners,
        )
        with built(config) as algo:
            results = train(algo, 2)
        evaluations = [result["evaluation"]["env_runners"] for result in results]
        assert all(evaluation["episode_duration_sec_mean"] > 0 for evaluation in evaluations)
        reported.append(list(map(without_times, evaluations)))
    for other in reported[1:]:
        assert other == reported[0]
    assert reported[0][0]["j_pi"] != reported[0][1]["j_pi"]  # other weights, other episodes


def test_evaluation_does_not_change_what_is_learned(ray, kernel):
    config = tiny_config(kernel=kernel).evaluation(evaluation_interval=1, evaluation_duration=2)
    assert digests(config, ITERATIONS) == expected(kernel)


def test_the_digest_covers_every_parameter(ray):
    with built(tiny_config()) as algo:
        learner = learner_of(algo)
        seen = {algo.weights_digest()}
        for parameter in learner.rl_module.state_dict().values():
            parameter.view(-1)[-1] += 1e-3
            seen.add(algo.weights_digest())
        assert len(seen) == 1 + len(learner.rl_module.state_dict())
