"""Exact quantities of finite MDPs: theorem against complex-step derivatives, the two circles."""

import doctest

import numpy as np
import pytest
from finite_mdps import complex_step, random_continuing_mdp, random_episodic_mdp, simulate

from rllib_geoffpac.maths import finite_mdp
from rllib_geoffpac.maths.finite_mdp import FiniteMDP
from rllib_geoffpac.maths.tables import score, softmax_policy

MAKERS = {"continuing": random_continuing_mdp, "episodic": random_episodic_mdp}


def random_problem(kind, seed):
    rng = np.random.default_rng(seed)
    mdp = MAKERS[kind](rng, states=6, actions=3)
    return mdp, rng.normal(size=(6, 3)), rng


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("gamma_hat", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("kind", MAKERS)
def test_theorem_equals_the_derivative_of_the_objective(kind, gamma_hat, seed):
    mdp, logits, _ = random_problem(kind, seed)
    terms = mdp.gradient(logits, gamma_hat)

    def objective(logits):
        return mdp.objective(softmax_policy(logits), gamma_hat)

    np.testing.assert_allclose(terms.total, complex_step(objective, logits), atol=1e-8, rtol=1e-8)
    assert abs(terms.first).max() > 1e-3
    assert (abs(terms.second).max() > 1e-4) == (gamma_hat > 0)


@pytest.mark.parametrize("kind", MAKERS)
def test_each_term_is_the_derivative_of_its_own_factor(kind):
    mdp, logits, _ = random_problem(kind, seed=7)
    policy, gamma_hat = softmax_policy(logits), 0.6
    terms = mdp.gradient(logits, gamma_hat)
    weight = mdp.counterfactual_distribution(policy, gamma_hat) * mdp.interest
    values = mdp.values(policy) * mdp.interest

    def through_values(logits):
        return (weight * mdp.values(softmax_policy(logits))).sum()

    def through_distribution(logits):
        moved = mdp.counterfactual_distribution(softmax_policy(logits), gamma_hat)
        return (moved * values).sum()

    np.testing.assert_allclose(terms.first, complex_step(through_values, logits), atol=1e-10)
    np.testing.assert_allclose(terms.second, complex_step(through_distribution, logits), atol=1e-10)


def test_score_is_the_derivative_of_the_log_policy():
    logits = np.random.default_rng(0).normal(size=(3, 4))
    table = score(logits)
    for state in range(3):
        for action in range(4):
            expected = complex_step(
                lambda x, s=state, a=action: np.log(softmax_policy(x)[s, a]), logits
            )
            np.testing.assert_allclose(table[state, action], expected, atol=1e-12)


@pytest.mark.parametrize("kind", MAKERS)
def test_distributions_and_density_ratio_satisfy_their_defining_equations(kind):
    mdp, logits, _ = random_problem(kind, seed=3)
    policy, gamma_hat = softmax_policy(logits), 0.8
    chain = np.einsum("sa,sat->st", policy, mdp.transitions)
    behavior_chain = np.einsum("sa,sat->st", mdp.behavior, mdp.transitions)
    d_mu, d_pi = mdp.behavior_distribution(), mdp.target_distribution(policy)
    d_hat = mdp.counterfactual_distribution(policy, gamma_hat)
    c = mdp.density_ratio(policy, gamma_hat)
    np.testing.assert_allclose(d_mu @ behavior_chain, d_mu)
    np.testing.assert_allclose(d_pi @ chain, d_pi)
    np.testing.assert_allclose(d_hat @ (gamma_hat * chain + (1 - gamma_hat) * d_mu), d_hat)
    np.testing.assert_allclose([d_mu.sum(), d_pi.sum(), d_hat.sum(), d_mu @ c], 1)
    np.testing.assert_allclose(c, gamma_hat * (chain.T @ (d_mu * c)) / d_mu + (1 - gamma_hat))
    np.testing.assert_allclose(mdp.counterfactual_distribution(policy, 0), d_mu)


def test_objective_recovers_both_of_the_papers_special_cases():
    mdp, logits, _ = random_problem("continuing", seed=3)
    policy = softmax_policy(logits)
    weighted_values = mdp.interest * mdp.values(policy)
    assert mdp.objective(policy, 0) == pytest.approx(mdp.behavior_distribution() @ weighted_values)
    assert mdp.objective(policy, 1) == pytest.approx(
        mdp.target_distribution(policy) @ weighted_values
    )


def test_values_are_the_discounted_returns_of_simulated_episodes():
    mdp = random_episodic_mdp(np.random.default_rng(1))
    stream = simulate(mdp, 500, 400, seed=2)
    returns = np.zeros((401, 500))
    for t in range(399, -1, -1):
        returns[t] = stream.rewards[t] + stream.discounts[t] * returns[t + 1]
    values = mdp.values(mdp.behavior)
    for state in range(mdp.num_states):
        lanes = [returns[:300, lane][stream.states[:300, lane] == state] for lane in range(500)]
        means = np.array([lane.mean() for lane in lanes if len(lane)])
        assert abs(means.mean() - values[state]) < 5 * means.std() / np.sqrt(len(means))


def test_action_values_average_to_the_values():
    mdp, logits, _ = random_problem("episodic", seed=4)
    policy = softmax_policy(logits)
    np.testing.assert_allclose((policy * mdp.action_values(policy)).sum(axis=1), mdp.values(policy))


def test_limits_do_not_depend_on_a_constant_in_v_in_the_second_term():
    mdp, logits, rng = random_problem("continuing", seed=5)
    mdp = FiniteMDP(mdp.transitions, mdp.rewards, mdp.discounts, mdp.behavior)
    policy, values = softmax_policy(logits), rng.normal(size=6)
    numbers = {"gamma_hat": 0.7, "lambda_1": 0.3, "lambda_2": 0.4}
    plain = mdp.limits(policy, values=values, density_ratio=np.ones(6), **numbers)
    moved = mdp.limits(policy, values=values + 9, density_ratio=np.ones(6), **numbers)
    np.testing.assert_allclose(plain.second, moved.second, atol=1e-12)
    assert abs(plain.first - moved.first).max() > 0.1


def circle_policy(probability):
    policy = np.full((11, 2), 0.5)
    policy[0] = probability, 1 - probability
    return policy


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.5, 0.99])
def test_two_circle_values(probability):
    mdp = FiniteMDP.two_circle()
    values = mdp.values(circle_policy(probability))
    assert 3.66 <= values[1] <= 3.69
    assert 5.06 <= values[4] <= 5.09
    assert values.argmax() == 3


@pytest.mark.parametrize("gamma_hat", [0.0, 0.4, 0.9, 1.0])
def test_two_circle_objective_is_affine_in_the_probability_of_the_outer_circle(gamma_hat):
    mdp = FiniteMDP.two_circle()
    low, middle, high = (mdp.objective(circle_policy(p), gamma_hat) for p in (0.2, 0.5, 0.8))
    assert middle == pytest.approx((low + high) / 2, abs=1e-12)
    assert (high > low) == (gamma_hat > 0.5041)


@pytest.mark.parametrize("probability", [0.05, 0.5, 0.9])
def test_two_circle_turns_outward_above_a_threshold(probability):
    mdp = FiniteMDP.two_circle()
    threshold = mdp.gamma_hat_threshold(circle_policy(probability), state=0, action=0)
    assert threshold == pytest.approx(0.5041, abs=5e-5)
    assert (
        mdp.gamma_hat_threshold(circle_policy(probability), state=0, action=0, lambda_2=0) is None
    )


@pytest.mark.parametrize("lambda_1", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("lambda_2", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("gamma_hat", [0.0, 0.4, 0.6, 0.9])
def test_two_circle_update_for_general_lambdas(lambda_1, lambda_2, gamma_hat):
    mdp, p = FiniteMDP.two_circle(), 0.3
    update = mdp.limits(
        circle_policy(p), gamma_hat=gamma_hat, lambda_1=lambda_1, lambda_2=lambda_2
    ).total
    first = ((1 - lambda_1) + 2.5 * lambda_1) * -0.84
    second = -1.4 * gamma_hat + lambda_2 * (6 * gamma_hat**2 + 10 * gamma_hat**3)
    # A is visited every eighth step whatever pi does; p (1 - p) is the slope of the softmax.
    assert update[0] == pytest.approx(p * (1 - p) / 8 * (first + second), abs=1e-12)
    assert update[1] == pytest.approx(-update[0], abs=1e-12)


def test_second_moment_radius_tells_when_the_traces_blow_up():
    mdp = FiniteMDP.two_circle()
    # rho is 2 in A under a deterministic policy: F2 grows by 2 gamma_hat^8 per round of 8 steps.
    radius = mdp.trace_second_moment_radius(circle_policy(1.0), gamma_hat=0.99)
    assert radius.second == pytest.approx((2 * 0.99**16) ** (1 / 8))
    assert radius.second > 1
    assert radius.first == pytest.approx((2 * 0.6**16) ** (1 / 8))


def tables(**changes):
    arguments = {
        "transitions": [[[0.5, 0.5]], [[1.0, 0.0]]],
        "rewards": np.zeros((2, 1, 2)),
        "discounts": np.full((2, 1, 2), 0.9),
        "behavior": np.ones((2, 1)),
    }
    return arguments | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transitions": np.ones((2, 2))}, r"transitions must have shape \[S, A, S\]"),
        ({"transitions": np.full((2, 1, 2), 0.4)}, "transitions must hold probabilities"),
        ({"transitions": np.eye(2)[:, None]}, "behavior never gets from state 0 to state 1"),
        ({"rewards": np.zeros((2, 2))}, r"rewards must have shape \(2, 1, 2\); got \(2, 2\)"),
        ({"rewards": np.full((2, 1, 2), np.nan)}, "rewards must be finite"),
        ({"discounts": np.full((2, 1, 2), 1.1)}, "discounts must lie between 0 and 1"),
        ({"behavior": np.full((2, 1), 0.5)}, "behavior must hold probabilities"),
        ({"interest": [1.0, -1.0]}, "interest must not be negative"),
        ({"start": 2}, "start must be a state from 0 to 1"),
        ({"start": [0.5, 0.2]}, "start must hold probabilities"),
    ],
)
def test_impossible_tables_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        FiniteMDP(**tables(**changes))


def test_impossible_questions_are_named():
    mdp = FiniteMDP(**tables(discounts=np.ones((2, 1, 2))))
    with pytest.raises(ValueError, match="values are infinite"):
        mdp.values(mdp.behavior)
    with pytest.raises(ValueError, match=r"policy must have shape \(2, 1\)"):
        mdp.values(np.ones((1, 2)))
    with pytest.raises(ValueError, match="gamma_hat must be between 0 and 1"):
        mdp.density_ratio(mdp.behavior, 1.2)
    circle = FiniteMDP.two_circle()
    circle = FiniteMDP(
        circle.transitions, circle.rewards, circle.discounts, [[0.5, 0.5]] + [[1, 0]] * 10
    )
    with pytest.raises(ValueError, match="action 1 in state 1, which behavior never does"):
        circle.gradient(np.zeros((11, 2)), 0.5)


def test_a_policy_that_splits_the_chain_has_no_single_stationary_distribution():
    stay_or_swap = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    mdp = FiniteMDP(
        stay_or_swap, np.zeros((2, 2, 2)), np.full((2, 2, 2), 0.9), np.full((2, 2), 0.5)
    )
    with pytest.raises(ValueError, match="more than one stationary distribution"):
        mdp.target_distribution([[1, 0], [1, 0]])


def test_docstring_examples_run():
    assert doctest.testmod(finite_mdp).failed == 0
