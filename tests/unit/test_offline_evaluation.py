"""Evaluation without a simulator: fitted networks, and what is said of the estimates."""

import dataclasses
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from finite_mdps import random_episodic_mdp
from logged_mdps import sampled_data

from rllib_geoffpac.data.episodes import LoggedEpisode
from rllib_geoffpac.maths.distributions import Categorical
from rllib_geoffpac.maths.episodes import Episodes
from rllib_geoffpac.maths.off_policy_evaluation import Data, per_decision_weights, reward_mass
from rllib_geoffpac.maths.tables import softmax_policy
from rllib_geoffpac.modules.deterministic_actor_critic import DeterministicPolicy
from rllib_geoffpac.offline_evaluation.evaluation import (
    DOUBLY_ROBUST,
    ESTIMATORS,
    FITTED_Q,
    evaluate_transitions,
)
from rllib_geoffpac.offline_evaluation.networks import Inputs, fit_networks
from rllib_geoffpac.offline_evaluation.policies import ModulePolicy
from rllib_geoffpac.offline_evaluation.transitions import Transitions


class TableModule(torch.nn.Module):
    """pi's logits as a table: what a `ModulePolicy` asks of a module."""

    std_parameter = None

    def __init__(self, policy: np.ndarray):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.tensor(np.log(policy)))
        self.distribution = Categorical(gym.spaces.Discrete(policy.shape[1]))

    def function(self, name, observations):
        return self.logits[observations.long()]


def logged(count: int = 300, seed: int = 0, scale: float = 0.5):
    """An MDP, a policy, and episodes of mu as a data set yields them."""
    rng = np.random.default_rng(3)
    mdp = random_episodic_mdp(rng)
    policy = softmax_policy(np.log(mdp.behavior) + rng.normal(scale=scale, size=(5, 2)))
    sample = sampled_data(mdp, policy, count, seed)
    bounds = sample.data.episodes
    episodes = [
        LoggedEpisode(
            number,
            "table",
            observations=np.append(sample.states[first : last + 1], 0),
            actions=sample.actions[first : last + 1],
            rewards=sample.data.rewards[first : last + 1],
            terminated=True,
            truncated=False,
            logp=np.log(mdp.behavior)[
                sample.states[first : last + 1], sample.actions[first : last + 1]
            ],
        )
        for number, (first, last) in enumerate(zip(bounds.starts, bounds.ends, strict=True))
    ]
    return mdp, policy, episodes, sample


def evaluate(policy, episodes, **options):
    transitions = Transitions.of(episodes, 0.9)
    module = ModulePolicy(TableModule(policy))
    return evaluate_transitions(transitions, module, gamma=0.9, gamma_hat=0.6, **options)


def test_every_objective_is_estimated_by_every_estimator_close_to_its_exact_value():
    mdp, policy, episodes, _ = logged(2000)
    result = evaluate(policy, episodes, interest_fn=lambda states: mdp.interest[states])
    plain = type(mdp)(mdp.transitions, mdp.rewards, mdp.discounts, mdp.behavior)
    exact = {
        "j_pi": plain.objective(policy, 1.0),
        "j_mu": mdp.objective(policy, 0.0),
        "j_gamma_hat": mdp.objective(policy, 0.6),
    }
    assert {(e.objective, e.estimator) for e in result.estimates} == {
        (objective, estimator) for objective in exact for estimator in ESTIMATORS
    }
    for estimate in result.estimates:
        width = estimate.high - estimate.low
        assert abs(estimate.value - exact[estimate.objective]) < width
        assert estimate.trusted
    assert result.warnings == []
    assert abs(result.overlap - mdp.overlap(policy, 2.0)) < 0.05


def test_a_policy_that_leaves_the_data_brings_a_warning():
    _, policy, episodes, _ = logged(100)
    for episode in episodes:
        episode.logp = episode.logp + 3.0  # densities that are not mu's
    result = evaluate(policy, episodes)
    assert any("mean of rho" in warning for warning in result.warnings)
    assert any("overlap" in warning for warning in result.warnings)
    assert all("No estimator can be trusted" in warning for warning in result.warnings[:2])


def test_weights_that_no_sample_has_hit_are_missed():
    rng = np.random.default_rng(0)
    episodes = Episodes(np.full(200, 20))
    discounts = np.full(4000, 0.9)
    discounts[episodes.ends] = 0
    # rho is e^2 with chance e^-2, else 0; most episodes never see a long product.
    rho = np.exp(2.0) * (rng.random(4000) < np.exp(-2.0))
    for ratios, least, most in ((rho, 0.0, 0.7), (np.ones(4000), 1.0, 1.0)):
        data = Data(episodes, np.ones(4000), discounts, ratios, np.full(4000, 2.0))
        mass = reward_mass(data, per_decision_weights(data, 0.0))
        assert least - 1e-12 <= mass <= most + 1e-12


def test_few_effective_transitions_are_not_trusted():
    _, policy, episodes, _ = logged(12)
    result = evaluate(policy, episodes)
    assert not any(estimate.trusted for estimate in result.estimates)
    assert any("No estimator of J_pi can be trusted" in warning for warning in result.warnings)


def test_without_densities_fitted_q_evaluation_is_what_is_left():
    _, policy, episodes, _ = logged(300)
    for episode in episodes:
        episode.logp = None
    result = evaluate(policy, episodes, updates=20)
    assert {estimate.estimator for estimate in result.estimates} == {FITTED_Q}
    assert "Only fitted Q evaluation" in result.warnings[0]
    assert "the data have none of mu" in result.warnings[0]


def test_episodes_without_an_end_are_left_out_and_counted():
    *_, episodes, _ = logged(50)
    cut = [dataclasses.replace(episode, terminated=False) for episode in episodes[:7]]
    transitions = Transitions.of([*cut, *episodes[7:]], 0.9)
    assert (transitions.episodes.num_episodes, transitions.left_out) == (43, 7)
    with pytest.raises(ValueError, match="None of the data's 7 episodes has an end"):
        Transitions.of(cut, 0.9)


def test_a_time_limit_ends_an_episode_and_makes_the_time_a_part_of_the_state():
    _, _, episodes, _ = logged(50)
    assert Transitions.of(episodes, 0.9).clock() is None
    limited = [dataclasses.replace(e, terminated=False, truncated=True) for e in episodes]
    transitions = Transitions.of(limited, 0.9)
    assert (transitions.discounts[transitions.episodes.ends] == 0).all()
    clock = transitions.clock()
    assert clock is not None and clock[transitions.episodes.starts].max() == 0
    assert (
        clock.max() == (transitions.episodes.lengths.max() - 1) / transitions.episodes.lengths.max()
    )


def one_hot_inputs(sample):
    size = len(sample.states)
    return Inputs(
        np.eye(5, dtype=np.float32)[sample.states],
        np.eye(2, dtype=np.float32)[sample.actions],
        np.tile(np.eye(2, dtype=np.float32), (size, 1, 1)),
        sample.policy.astype(np.float32)[sample.states],
    )


@pytest.mark.slow
def test_networks_fit_what_tables_solve():
    from rllib_geoffpac.maths.tabular_evaluation import fit_tables

    *_, sample = logged(1500)
    networks = fit_networks(sample.data, one_hot_inputs(sample), 1.0, updates=1000)
    tables = fit_tables(sample.data, sample.states, sample.actions, sample.policy, 1.0)
    for name in tables._fields:
        exact, fitted = getattr(tables, name), getattr(networks, name)
        assert abs(fitted - exact).mean() < 0.15 * abs(exact).mean() + 0.02, name


def test_the_same_seed_gives_the_same_fits():
    *_, sample = logged(50)
    fits = [
        fit_networks(sample.data, one_hot_inputs(sample), 0.6, updates=20, seed=seed)
        for seed in (0, 0, 1)
    ]
    assert all(np.array_equal(a, b) for a, b in zip(fits[0], fits[1], strict=True))
    assert not np.array_equal(fits[0].q, fits[2].q)


def test_a_deterministic_policy_has_no_density():
    space = gym.spaces.Box(-1, 1, (2,), np.float32)
    module = SimpleNamespace(
        distribution=DeterministicPolicy(space),
        std_parameter=None,
        parameters=lambda: iter([torch.zeros(1)]),
        function=lambda name, observations: observations.clip(-1, 1),
    )
    policy = ModulePolicy(module)
    actions, chances = policy.candidates(np.full((3, 2), 0.5, np.float32), np.random.default_rng(0))
    assert not policy.has_density
    assert actions.shape == (3, 1, 2) and (chances == 1).all() and (actions == 0.5).all()


def test_an_estimate_is_found_by_its_names():
    _, policy, episodes, _ = logged(50)
    result = evaluate(policy, episodes)
    assert result.estimate("j_pi", DOUBLY_ROBUST) in result.estimates
