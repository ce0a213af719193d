"""Evaluation of the target policy: exactly the episodes asked for, and J_pi by hand."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from harness import MDPEnv, built, learner_of, play_round, tiny_config, train
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from rllib_geoffpac import GeoffPACConfig
from rllib_geoffpac.env_runners import TargetPolicyEnvRunner
from rllib_geoffpac.env_runners.target_policy_env_runner import EvaluationEpisode
from rllib_geoffpac.evaluation.target_policy import summarize
from rllib_geoffpac.maths.finite_mdp import FiniteMDP


class Payday(gym.Env):
    """Pays `rewards` one after the other; action 1 doubles a payment. Reports every episode."""

    observation_space = gym.spaces.Discrete(1)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config):
        self.rewards, self.discounts = config["rewards"], config.get("discounts")
        self.terminates = config.get("terminates", True)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return 0, {}

    def step(self, action):
        reward = self.rewards[self._time] * (1 + int(action))
        info = {} if self.discounts is None else {"discount": self.discounts[self._time]}
        self._time += 1
        end = self._time == len(self.rewards)
        return 0, reward, end and self.terminates, end and not self.terminates, info


def payday_config(**env_config):
    return (
        tiny_config("ACE", kernel="auto", module="tabular", gamma=0.5)
        .environment(Payday, env_config={"rewards": [1.0, 2.0, 4.0], **env_config})
        .evaluation(evaluation_interval=1, evaluation_duration=7)
    )


def evaluate(config, logits) -> dict:
    with built(config) as algo:
        with torch.no_grad():
            learner_of(algo).rl_module.pi.table.copy_(torch.tensor([logits]))
        return algo.evaluate()["env_runners"]


ALWAYS_0, ALWAYS_1 = [40.0, 0.0], [0.0, 40.0]


@pytest.mark.slow
def test_exactly_the_requested_number_of_episodes_is_played(ray):
    for duration in (1, 7):
        config = payday_config().evaluation(evaluation_duration=duration)
        results = evaluate(config, ALWAYS_0)
        assert results["num_episodes"] == duration
        assert results["episode_len_mean"] == 3


def test_j_pi_averages_the_discounted_returns_of_all_visited_states(ray):
    results = evaluate(payday_config(), ALWAYS_0)
    # From the three states: 1 + (2 + 4/2)/2 = 3, 2 + 4/2 = 4, and 4.
    assert results["j_pi"] == pytest.approx((3 + 4 + 4) / 3)
    assert results["episode_return_mean"] == pytest.approx(7)
    assert results["j_pi_stderr"] == pytest.approx(0, abs=1e-12)


def test_j_pi_uses_the_discounts_of_the_environment(ray):
    results = evaluate(payday_config(discounts=[0.0, 1.0, 1.0]), ALWAYS_0)
    assert results["j_pi"] == pytest.approx((1 + 6 + 4) / 3)


def test_a_time_limit_ends_the_return_as_well(ray):
    results = evaluate(payday_config(terminates=False), ALWAYS_1)
    assert results["j_pi"] == pytest.approx(2 * (3 + 4 + 4) / 3)


@pytest.mark.slow
def test_actions_are_sampled_unless_told_otherwise(ray):
    slightly = [0.0, 0.5]
    sampled = evaluate(payday_config().evaluation(evaluation_duration=40), slightly)
    assert 7 < sampled["episode_return_mean"] < 14
    assert sampled["episode_return_min"] < sampled["episode_return_max"]
    probability = 1 / (1 + np.exp(-0.5))
    error = sampled["episode_return_stderr"]
    assert sampled["episode_return_mean"] == pytest.approx(7 * (1 + probability), abs=4 * error)
    greedy = payday_config().evaluation(evaluation_config={"explore": False})
    assert evaluate(greedy, slightly)["episode_return_mean"] == pytest.approx(14)


def test_long_episodes_weigh_more_in_j_pi_and_its_error_is_a_ratio_estimators():
    episodes = [
        EvaluationEpisode(0, [1.0], [0.0]),
        EvaluationEpisode(1, [3.0, 3.0, 3.0], [0.0, 0.0, 0.0]),
    ]
    results = summarize(episodes)
    assert results["j_pi"] == pytest.approx((1 + 3 * 3) / 4)
    residuals = np.array([1 - 2.5 * 1, 9 - 2.5 * 3]) / 2
    assert results["j_pi_stderr"] == pytest.approx(residuals.std(ddof=1) / np.sqrt(2))
    assert results["episode_return_mean"] == pytest.approx(5)


@pytest.mark.slow
def test_a_continuing_environment_is_cut_at_the_horizon(ray):
    config = (
        tiny_config("ACE", kernel="auto", module="tabular")
        .environment(MDPEnv, env_config={"mdp": FiniteMDP.two_circle()})
        .evaluation(evaluation_interval=1, evaluation_duration=2)
    )
    with built(config) as algo:
        assert algo.evaluate()["env_runners"]["episode_len_mean"] == 1000
    with built(config.copy(copy_frozen=False).evaluation(evaluation_horizon=8)) as algo:
        results = algo.evaluate()["env_runners"]
    assert results["episode_len_mean"] == 8
    # Once around a circle pays 5 (inner) or 10 (outer).
    assert {results["episode_return_min"], results["episode_return_max"]} <= {5.0, 10.0}


def test_an_environment_with_a_time_limit_of_its_own_keeps_it(ray):
    config = (
        tiny_config()
        .environment("Reacher-v5", env_config={})
        .evaluation(evaluation_interval=1, evaluation_duration=1)
    )
    with built(config) as algo:
        assert algo.evaluate()["env_runners"]["episode_len_mean"] == 50


def test_rounds_differ_and_a_round_can_be_played_again(ray):
    with built(tiny_config().evaluation(evaluation_interval=1, evaluation_duration=3)) as algo:
        play = [play_round(algo, 3, round_) for round_ in (0, 1, 0)]
    assert play[0] == play[2] != play[1]
    assert [episode.index for episode in play[0]] == [0, 1, 2]


@pytest.mark.slow
def test_results_tell_which_step_was_evaluated(ray):
    config = tiny_config().evaluation(evaluation_interval=2, evaluation_duration=1)
    with built(config) as algo:
        results = train(algo, 3)
    steps = [result.get("evaluation", {}).get("env_runners", {}) for result in results]
    assert steps[1]["evaluated_at_env_steps"] == 300


@pytest.mark.slow
def test_evaluation_needs_no_interval(ray):
    """`algo.evaluate()` whenever somebody asks, as for RLlib's own algorithms."""
    asked, planned = tiny_config(), tiny_config().evaluation(evaluation_interval=1)
    values = []
    for config in (asked, planned):
        with built(config.evaluation(evaluation_duration=3)) as algo:
            values.append(algo.evaluate()["env_runners"]["j_pi"])
    assert values[0] == values[1]


def test_timesteps_are_the_first_whole_episodes_that_have_so_many(ray):
    by_steps = tiny_config().evaluation(
        evaluation_duration=77, evaluation_duration_unit="timesteps"
    )
    with built(by_steps) as algo:
        played = algo.evaluate()["env_runners"]
        more = play_round(algo, 10, 0) + play_round(algo, 10, 0, first=10)
    lengths = np.cumsum([episode.env_steps() for episode in more])
    count = int(np.argmax(lengths >= 77)) + 1
    assert count > 10, "one block is not enough"
    assert played["num_episodes"] == count
    assert played["num_env_steps_sampled"] == lengths[count - 1]
    assert played["j_pi"] == summarize(more[:count])["j_pi"]


@pytest.mark.slow
def test_auto_plays_until_training_beside_it_is_done(ray):
    config = tiny_config().evaluation(
        evaluation_interval=1,
        evaluation_duration="auto",
        evaluation_duration_unit="timesteps",
        evaluation_parallel_to_training=True,
        evaluation_num_env_runners=1,
    )
    with built(config) as algo:
        played = train(algo, 1)[0]["evaluation"]["env_runners"]
    assert played["num_episodes"] >= 10
    assert played["num_episodes"] % 10 == 0


@pytest.mark.slow
@pytest.mark.parametrize("given", ["AlgorithmConfig", "GeoffPACConfig", "attribute"])
def test_the_evaluation_config_may_be_a_config(ray, given):
    given_config = (GeoffPACConfig if given == "GeoffPACConfig" else AlgorithmConfig)()
    given_config.env_runners(explore=False)
    config = tiny_config()
    if given == "attribute":
        config.evaluation_config = given_config
    else:
        config.evaluation(evaluation_config=given_config)
    evaluation = config.get_evaluation_config_object()
    assert type(evaluation) is type(config)
    assert (evaluation.explore, evaluation.num_lanes) == (False, 5)
    assert config.explore
    with built(config.evaluation(evaluation_duration=2)) as algo:
        greedy = algo.evaluate()["env_runners"]["j_pi"]
    as_dict = tiny_config().evaluation(evaluation_config={"explore": False}, evaluation_duration=2)
    with built(as_dict) as algo:
        assert algo.evaluate()["env_runners"]["j_pi"] == greedy


class CountingRunner(TargetPolicyEnvRunner):
    """A runner of the user's own."""

    def sample(self, **kwargs):
        self.metrics.log_value("asked", 1, reduce="sum")
        return super().sample(**kwargs)


def own_evaluation(algorithm, group):
    """As in RLlib's example of a custom evaluation function."""
    episodes = group.local_env_runner.sample(num_episodes=4)
    again = group.local_env_runner.sample(num_episodes=4)
    assert [e.get_return() for e in episodes] != [e.get_return() for e in again]
    metrics = group.foreach_env_runner(lambda runner: runner.get_metrics())
    algorithm.metrics.aggregate(metrics, key=("evaluation", "env_runners"))
    steps = sum(episode.env_steps() for episode in [*episodes, *again])
    return {}, steps, steps


def test_an_evaluation_function_and_a_runner_of_the_users_own(ray):
    config = tiny_config().evaluation(
        evaluation_interval=1,
        custom_evaluation_function=own_evaluation,
        evaluation_config={"env_runner_cls": CountingRunner},
    )
    with built(config) as algo:
        played = train(algo, 1)[0]["evaluation"]["env_runners"]
    assert played["num_episodes"] == 8
    assert played["asked"] == 2  # as often as the function asked
    assert np.isfinite(played["episode_return_mean"])
    assert "j_pi" not in played


def test_the_algorithm_gives_its_module_with_the_present_weights(ray):
    with built(tiny_config()) as algo:
        before = algo.get_module().get_state()
        train(algo, 1)
        after, learned = algo.get_module(), learner_of(algo).rl_module
        assert algo.get_module("another") is None
        assert any((before[k] != v).any() for k, v in after.get_state().items())
        for name, value in after.get_state().items():
            assert np.array_equal(value, learned.state_dict()[name].numpy())
        observations = torch.zeros(3, 3)
        outputs = after.forward_inference({"obs": observations})["action_dist_inputs"]
        assert torch.equal(outputs[:, :2], learned.pi(observations))
