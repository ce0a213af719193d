"""The reported metrics: all there, all finite, and a collapsing overlap is visible."""

import numpy as np
import pytest
import torch
from harness import CONFIGS, built, learner_of, tiny_config, train

LEARNER = {
    "value_loss",
    "rho_mean",
    "rho_clipped_mean",
    "rho_clipped_share",
    "rho_effective_sample_fraction",
    "density_ratio_mean",
    "f1_mean",
    "m1_mean",
    "z1_norm",
    "value_mean",
    "value_std",
    "policy_std",
    "policy_entropy",
    "objective_estimate",
    "learn_seconds",
    "diverged",
}
SECOND_TERM = {"f2_norm", "z2_norm"}
DENSITY_RATIO = {"density_ratio_loss"}
ENV_RUNNERS = {
    "episode_return_mean",
    "episode_return_min",
    "episode_return_max",
    "episode_len_mean",
    "num_episodes",
    "num_env_steps_sampled",
    "num_env_steps_sampled_lifetime",
    "simulation_seconds",
}
EVALUATION = {
    "j_pi",
    "j_pi_stderr",
    "episode_return_mean",
    "episode_return_stderr",
    "episode_len_mean",
    "num_episodes",
    "evaluated_at_env_steps",
}


@pytest.mark.parametrize("algorithm", CONFIGS)
def test_all_metrics_are_there_and_finite(ray, kernel, algorithm):
    config = tiny_config(algorithm, kernel).evaluation(evaluation_interval=1, evaluation_duration=2)
    with built(config) as algo:
        result = train(algo, 2)[-1]
    expected = LEARNER | (SECOND_TERM | DENSITY_RATIO if algorithm == "GeoffPAC" else set())
    groups = [
        (expected, result["learners"]["default_policy"]),
        (ENV_RUNNERS, result["env_runners"]),
        (EVALUATION, result["evaluation"]["env_runners"]),
        ({"env_steps_per_s"}, result),
    ]
    for names, values in groups:
        assert names <= set(values), names - set(values)
        for name in names:
            assert np.isfinite(values[name]), name
    assert len(result["weights_digest"]) == 12
    assert result["num_env_steps_sampled_lifetime"] == 300
    if algorithm != "GeoffPAC":
        assert not DENSITY_RATIO & set(groups[0][1])
        assert groups[0][1]["density_ratio_mean"] == 1


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
