"""The reported metrics: all there, all finite, and a collapsing overlap is visible."""

import numpy as np
import pytest
import torch
from harness import Walk, built, learner_of, tiny_config, train
from logged_data import columns_of, walk_episodes, write_columns
from ray.rllib.connectors.env_to_module import MeanStdFilter

from rllib_cli.experiment.parse import flatten
from rllib_geoffpac import DDPGConfig, GeoffPACConfig, TD3Config
from rllib_geoffpac.callbacks import TwoCirclePolicy
from rllib_geoffpac.metrics import ALGORITHMS, EMPHATIC, METRICS, Metric, metrics_of

SECOND_TERM = {"f2_norm", "z2_norm"}


def small_config(algorithm: str):
    """A run of any algorithm in which everything that it can learn is learned."""
    if algorithm in EMPHATIC:
        return tiny_config(algorithm)
    return (
        {"DDPG": DDPGConfig, "TD3": TD3Config}[algorithm]()
        .environment(Walk)
        .training(num_lanes=5, replay_capacity=200, replay_batch_size=16, learning_starts=10)
        .env_runners(num_env_runners=0, rollout_fragment_length=20)
        .rl_module(model_config={"fcnet_hiddens": [8, 8]})
        .reporting(min_sample_timesteps_per_iteration=150)
    )


def last_result(config) -> dict:
    """The flat result of the second iteration."""
    with built(config) as algo:
        result = train(algo, 2)[-1]
    result.pop("config")
    return {key: value for key, value in flatten(result).items() if value != {}}


def assert_agree(result: dict, metrics: tuple[Metric, ...], evaluation: bool) -> None:
    """Every key of a result is a row of the table, and every unconditional row a key."""
    assert [key for key in result if not any(row.matches(key) for row in metrics)] == []
    expected = [m for m in metrics if not m.when and (evaluation or not m.needs_evaluation)]
    assert [m.key for m in expected if not any(map(m.matches, result))] == []
    numbers = [m.key for m in expected if m.is_number and not m.is_open]
    assert [key for key in numbers if not np.isfinite(result[key])] == []


@pytest.mark.parametrize("evaluation", [False, True], ids=["training alone", "with evaluation"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_results_contain_what_the_table_says_and_nothing_else(ray, algorithm, evaluation):
    config = small_config(algorithm)
    if evaluation:
        config.evaluation(evaluation_interval=1, evaluation_duration=2)
    result = last_result(config)
    assert_agree(result, metrics_of(algorithm), evaluation)
    assert len(result["weights_digest"]) == 12
    assert result["num_env_steps_sampled_lifetime"] == 300


@pytest.mark.parametrize("algorithm", EMPHATIC)
def test_both_kernels_report_the_same(ray, kernel, algorithm):
    result = last_result(tiny_config(algorithm, kernel))
    assert_agree(result, metrics_of(algorithm), evaluation=False)
    assert ("learners/default_policy/density_ratio_loss" in result) == (algorithm == "GeoffPAC")
    if algorithm != "GeoffPAC":
        assert result["learners/default_policy/density_ratio_mean"] == 1


def test_every_conditional_metric_is_reported_under_its_condition(ray, tmp_path):
    """`gamma_hat` above 0 and continuous actions, the other views and estimators, replay (DDPG),
    logged data."""
    forward = {"view": "forward", "overlap_target": 0.5, "emphasis": "learned"}
    forward["value_estimator"] = "tdrc"
    actions = {"critic": "action_value", "lambda_2": 1.0}
    views = [tiny_config(**training) for training in (forward, actions)]
    write_columns(tmp_path, columns_of(walk_episodes(20)))
    logged = tiny_config().offline_data(input_=str(tmp_path)).env_runners(behavior="estimated")
    seeing = tiny_config().env_runners(env_to_module_connector=lambda *_: MeanStdFilter())
    configs = [small_config("GeoffPAC"), small_config("DDPG"), *views, logged, seeing]
    seen: set[str] = set()
    for config in configs:
        result = last_result(config.evaluation(evaluation_interval=1, evaluation_duration=2))
        assert_agree(result, metrics_of(config.algo_class.__name__), evaluation=True)
        seen |= set(result)
    now_and_then = ("perf/", "two_circle/")
    conditional = [m for m in METRICS if m.when and not m.key.startswith(now_and_then)]
    assert [m.key for m in conditional if not any(map(m.matches, seen))] == []


def test_the_callback_reports_the_way_to_the_outer_circle(ray):
    config = (
        GeoffPACConfig()
        .environment("TwoCircle-v0")
        .training(module="tabular", num_lanes=2)
        .callbacks(TwoCirclePolicy)
        .reporting(min_sample_timesteps_per_iteration=20)
    )
    (row,) = (m for m in METRICS if not m.algorithms)
    assert last_result(config)[row.key] == pytest.approx(0.5, abs=0.1)


def test_the_overlap_force_of_ace_reports_its_term(ray, kernel):
    with built(tiny_config("ACE", kernel, overlap_coeff=1.0)) as algo:
        reported = train(algo, 1)[0]["learners"]["default_policy"]
    assert all(reported[name] > 0 for name in SECOND_TERM)


def reported_with_std(kernel: str, parameter: float, **training) -> dict:
    """One iteration of a policy with this std parameter that can't learn."""
    with built(tiny_config(kernel=kernel, learning_starts=10_000, **training)) as algo:
        with torch.no_grad():
            learner_of(algo).rl_module.std_parameter.fill_(parameter)
        return train(algo, 1)[0]["learners"]["default_policy"]


def test_a_collapsing_overlap_is_visible(ray, kernel):
    wide, narrow = (reported_with_std(kernel, parameter) for parameter in (0.0, -4.0))
    assert narrow["policy_std"] < 0.05 < wide["policy_std"]
    assert narrow["policy_entropy"] < wide["policy_entropy"]
    assert wide["rho_effective_sample_fraction"] > 0.5
    assert narrow["rho_effective_sample_fraction"] < 0.1
    assert narrow["rho_clipped_mean"] < 0.1 < wide["rho_clipped_mean"]


def test_broken_coverage_is_visible(ray, kernel):
    """A Gaussian wider than the box loses mass outside of it; the truncated one does not."""
    gaussian, truncated = (
        reported_with_std(kernel, 1.5, policy_distribution=kind, rho_clip=float("inf"))
        for kind in ("gaussian", "truncated_gaussian")
    )
    assert gaussian["rho_mean"] < 0.5
    assert truncated["rho_mean"] == pytest.approx(1, abs=0.1)


def test_the_clipped_share_counts_the_clipped_ratios(ray, kernel):
    none = reported_with_std(kernel, 0.0, rho_clip=100.0)
    all_ = reported_with_std(kernel, 0.0, rho_clip=1e-3)
    assert (none["rho_clipped_share"], all_["rho_clipped_share"]) == (0, 1)
    assert all_["rho_clipped_mean"] == pytest.approx(1e-3)
    assert none["rho_clipped_mean"] == pytest.approx(none["rho_mean"])


def test_a_diverged_trial_ends_with_its_last_finite_weights(ray, kernel):
    config = tiny_config(kernel=kernel, actor_lr=1e30, value_lr=1e30, grad_clip=None)
    with built(config) as algo:
        result = train(algo, 1)[0]
        parameters = learner_of(algo).rl_module.state_dict().values()
        assert all(torch.isfinite(p).all() for p in parameters)
    assert result["diverged"] and result["done"]


class Tired(Walk):
    """Fails in the end, instead of going on for ever."""

    steps = 0

    def step(self, action):
        Tired.steps += 1
        assert Tired.steps < 2000, "the iteration does not end"
        return super().step(action)


def test_an_iteration_of_a_diverged_learner_ends(ray):
    """RLlib waits for `min_train_timesteps_per_iteration`, which nobody will reach any more."""
    config = tiny_config(actor_lr=1e30, value_lr=1e30, grad_clip=None).environment(Tired)
    config.reporting(min_train_timesteps_per_iteration=1000)
    with built(config) as algo:
        assert [result["diverged"] for result in train(algo, 2)] == [True, True]
        assert algo.config.min_train_timesteps_per_iteration == 1000


def test_a_resumed_run_goes_on_counting_its_events(ray, tmp_path):
    """Every restore simulates the lanes' current episodes again: five events more."""
    config = tiny_config().evaluation(evaluation_interval=1, evaluation_duration=1)
    counted = []
    for leg in range(3):
        with built(config.copy(copy_frozen=False)) as algo:
            if leg:
                algo.restore_from_path(tmp_path / f"{leg - 1}")
            algo.evaluation_events["env_failures"] += 2
            result = train(algo, 1)[0]
            algo.save_to_path(tmp_path / f"{leg}")
        counted.append(
            (
                result["env_runners"]["lanes_resimulated"],
                result["evaluation"]["env_runners"]["env_failures"],
            )
        )
    assert counted == [(0, 2), (5, 4), (10, 6)]


def test_seconds_of_simulating_and_learning_are_those_of_the_whole_iteration(ray):
    with built(tiny_config().env_runners(rollout_fragment_length=3)) as algo:
        result = train(algo, 1)[0]
    simulating = result["env_runners"]["simulation_seconds"]
    learning = result["learners"]["default_policy"]["learn_seconds"]
    whole = 150 / result["env_steps_per_s"]
    assert 0.2 * whole < learning < simulating + learning < whole
