"""The estimators' rules averaged over all paths, and where linear ones converge to."""

import numpy as np
import pytest
from array_libraries import assert_same, every_library
from finite_mdp_paths import paths
from finite_mdps import random_continuing_mdp, random_episodic_mdp, random_teleporting_mdp
from forward_rows import forward_case

from rllib_geoffpac.maths import estimators, fixed_points
from rllib_geoffpac.maths.finite_mdp import FiniteMDP
from rllib_geoffpac.maths.value import td_error, value_loss

CASES = {
    "continuing": forward_case(random_continuing_mdp, seed=5),
    "episodic": forward_case(random_episodic_mdp, seed=6),
    "teleporting": forward_case(random_teleporting_mdp, seed=7),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
FEATURES = np.random.default_rng(0).normal(size=(4, 2))
WEIGHTS = np.random.default_rng(1).normal(size=2)
CORRECTION = np.random.default_rng(2).normal(size=2)


class Transitions:
    """Columns of all paths of n transitions, with V = FEATURES WEIGHTS: [n, K] each."""

    def __init__(self, case, length=1):
        self.paths = paths(case.mdp, length)
        states = self.paths.states
        self.rho = (case.policy / case.mdp.behavior)[states[:-1], self.paths.actions]
        self.phi = FEATURES[states]  # [n + 1, K, 2]
        self.discount = self.paths.discounts
        value = self.phi @ WEIGHTS
        self.delta = td_error(self.paths.rewards, self.discount, value[1:], value[:-1])
        self.case = case

    def mean(self, factor, phi):
        return self.paths.mean(factor[:, None] * phi)


def expected_td(case):
    data = Transitions(case)
    return data.mean((data.rho * data.delta)[0], data.phi[0])


@every_case
def test_td_moves_as_its_rule_says(case):
    rule = fixed_points.td(case.mdp, case.policy, FEATURES)
    np.testing.assert_allclose(expected_td(case), rule.expected_update(WEIGHTS), atol=1e-12)
    clipped = fixed_points.td(case.mdp, case.policy, FEATURES, rho_clip=0.9)
    data = Transitions(case)
    measured = data.mean((np.minimum(data.rho, 0.9) * data.delta)[0], data.phi[0])
    np.testing.assert_allclose(measured, clipped.expected_update(WEIGHTS), atol=1e-12)
    assert abs(measured - rule.expected_update(WEIGHTS)).max() > 1e-3


@every_case
def test_cop_td_moves_as_its_rule_says(case):
    data = Transitions(case)
    weight = estimators.cop_td_weight(data.rho[0], case.density_ratio[data.paths.states[0]])
    rule = fixed_points.cop_td(case.mdp, case.policy, FEATURES, case.density_ratio)
    measured = data.mean(weight * data.delta[0], data.phi[0])
    np.testing.assert_allclose(measured, rule.expected_update(WEIGHTS), atol=1e-12)
    # Mistakes: no C, or that of the state that follows.
    following = estimators.cop_td_weight(data.rho[0], case.density_ratio[data.paths.states[1]])
    for wrong in (expected_td(case), data.mean(following * data.delta[0], data.phi[0])):
        assert abs(wrong - rule.expected_update(WEIGHTS)).max() > 1e-3


@every_case
@pytest.mark.parametrize("lambda_1", [1.0, 0.6])
def test_etd_moves_as_its_rule_says(case, lambda_1):
    data = Transitions(case, length=3)
    i, c, states = case.mdp.interest, case.density_ratio, data.paths.states
    base = (i * c)[states]
    f1 = base[0]
    for t in range(2):
        f1 = data.discount[t] * data.rho[t] * f1 + base[t + 1]
    weight = estimators.etd_weight(data.rho[2], (1 - lambda_1) * base[2] + lambda_1 * f1)
    rule = fixed_points.etd(
        case.mdp, case.policy, FEATURES, density_ratio=c, lambda_1=lambda_1, trace_length=2
    )
    measured = data.mean(weight * data.delta[2], data.phi[2])
    np.testing.assert_allclose(measured, rule.expected_update(WEIGHTS), atol=1e-12)
    # A mistake: the emphasis of the state that follows.
    late = data.discount[2] * data.rho[2] * f1 + base[3]
    wrong = data.mean(estimators.etd_weight(data.rho[2], late) * data.delta[2], data.phi[2])
    assert abs(wrong - rule.expected_update(WEIGHTS)).max() > 1e-3


@every_case
@pytest.mark.parametrize("clips", [(np.inf, np.inf), (1.0, 1.0), (1.2, 0.8)])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_vtrace_moves_as_its_rule_says(case, steps, clips):
    rho_bar, c_bar = clips
    data = Transitions(case, length=steps)
    connected = np.ones_like(data.rho)
    numbers = {"rho_bar": rho_bar, "c_bar": c_bar}
    error = estimators.vtrace_error(data.rho, data.delta, data.discount, connected, **numbers)
    rule = fixed_points.vtrace(case.mdp, case.policy, FEATURES, num_steps=steps, **numbers)
    measured = data.mean(error, data.phi[0])
    np.testing.assert_allclose(measured, rule.expected_update(WEIGHTS), atol=1e-12)
    if steps > 1:
        # Mistakes: the discount one transition late, and none.
        for discount in (np.roll(data.discount, -1, axis=0), np.ones_like(data.discount)):
            error = estimators.vtrace_error(data.rho, data.delta, discount, connected, **numbers)
            wrong = data.mean(error, data.phi[0])
            assert abs(wrong - rule.expected_update(WEIGHTS)).max() > 1e-3


def test_a_cut_ends_a_vtrace_target_after_its_own_error():
    rho, delta, discount = np.full((3, 1), 0.5), np.ones((3, 1)), np.full((3, 1), 0.8)
    whole = estimators.vtrace_error(rho, delta, discount, np.ones((3, 1)))
    cut = estimators.vtrace_error(rho, delta, discount, np.array([[1], [0], [1]]))
    assert whole[0] == pytest.approx(0.5 + 0.4 * (0.5 + 0.4 * 0.5))
    assert cut[0] == pytest.approx(0.5 + 0.4 * 0.5)


@every_case
@pytest.mark.parametrize("rho_clip", [np.inf, 0.9])
def test_tdrc_moves_both_critics_as_its_rule_says(case, rho_clip):
    data = Transitions(case)
    rho, delta, discount = np.minimum(data.rho[0], rho_clip), data.delta[0], data.discount[0]
    h = data.phi[0] @ CORRECTION
    here, following = estimators.tdrc_value_weights(rho, delta, discount, h)
    value = data.mean(here, data.phi[0]) + data.mean(following, data.phi[1])
    error = estimators.tdrc_correction_error(rho, delta, h)
    correction = data.mean(error, data.phi[0]) - 0.7 * CORRECTION
    rule = fixed_points.tdrc(case.mdp, case.policy, FEATURES, regularization=0.7, rho_clip=rho_clip)
    expected = rule.expected_update(np.concatenate([WEIGHTS, CORRECTION]))
    np.testing.assert_allclose(np.concatenate([value, correction]), expected, atol=1e-12)


# ---------------------------------------------------------------------------------------------
# Fixed points.


@every_case
def test_tables_learn_the_exact_functions(case):
    mdp, policy, gamma_hat = case.mdp, case.policy, case.gamma_hat
    table = fixed_points.tabular(mdp.num_states)
    v, c = mdp.values(policy), case.density_ratio
    for rule in (
        fixed_points.td(mdp, policy, table),
        fixed_points.cop_td(mdp, policy, table, c),
        fixed_points.etd(mdp, policy, table, c, lambda_1=0.6),
        fixed_points.vtrace(mdp, policy, table, num_steps=3, rho_bar=np.inf),
    ):
        np.testing.assert_allclose(rule.fixed_point(), v, atol=1e-9)
    stacked = fixed_points.tdrc(mdp, policy, table).fixed_point()
    np.testing.assert_allclose(stacked, [*v, *np.zeros_like(v)], atol=1e-9)
    u = fixed_points.counterfactual_values(mdp, policy, table, gamma_hat=gamma_hat, values=v)
    expected = mdp.counterfactual_values(policy, gamma_hat)
    np.testing.assert_allclose(u.fixed_point(), expected, atol=1e-9)
    for soft in (0.0, 0.3):
        rule = fixed_points.density_ratio(
            mdp, policy, table, gamma_hat=gamma_hat, soft_normalization=soft
        )
        expected = mdp.density_ratio(policy, gamma_hat)
        np.testing.assert_allclose(rule.fixed_point(), expected, atol=1e-9)
    m = fixed_points.emphasis(mdp, policy, table, density_ratio=c)
    expected = mdp.emphasis(policy, density_ratio=c)
    np.testing.assert_allclose(m.fixed_point(), expected, atol=1e-9)
    pairs = np.eye(8).reshape(4, 2, 8)
    q = mdp.action_values(policy)
    rule = fixed_points.action_values(mdp, policy, pairs)
    np.testing.assert_allclose(rule.fixed_point(), q.ravel(), atol=1e-9)
    rule = fixed_points.counterfactual_action_values(
        mdp, policy, pairs, gamma_hat=gamma_hat, action_values=q
    )
    expected = mdp.counterfactual_action_values(policy, gamma_hat).ravel()
    np.testing.assert_allclose(rule.fixed_point(), expected, atol=1e-9)


@every_case
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("c_bar", [1.0, 0.6])
def test_a_clip_teaches_a_table_the_values_of_the_policy_between(case, steps, c_bar):
    mdp, policy = case.mdp, case.policy
    table = fixed_points.tabular(mdp.num_states)
    between = np.minimum(policy, 1.1 * mdp.behavior)
    between = between / between.sum(axis=1, keepdims=True)
    rule = fixed_points.vtrace(mdp, policy, table, num_steps=steps, rho_bar=1.1, c_bar=c_bar)
    np.testing.assert_allclose(rule.fixed_point(), mdp.values(between), atol=1e-9)
    rule = fixed_points.td(mdp, policy, table, rho_clip=1.1)
    np.testing.assert_allclose(rule.fixed_point(), mdp.values(between), atol=1e-9)
    assert abs(mdp.values(between) - mdp.values(policy)).max() > 1e-3


@every_case
def test_the_density_ratio_moves_as_its_rule_says(case):
    data = Transitions(case)
    c = data.phi @ WEIGHTS  # a linear C
    error = case.gamma_hat * data.rho[0] * c[0] + 1 - case.gamma_hat - c[1]
    mean = data.paths.mean(data.phi[1])
    measured = data.mean(error, data.phi[1]) - 0.3 * (mean @ WEIGHTS - 1) * mean
    rule = fixed_points.density_ratio(
        case.mdp, case.policy, FEATURES, gamma_hat=case.gamma_hat, soft_normalization=0.3
    )
    np.testing.assert_allclose(measured, rule.expected_update(WEIGHTS), atol=1e-12)


@every_case
@pytest.mark.parametrize("rho_clip", [np.inf, 0.9])
def test_u_and_m_move_as_their_rules_say(case, rho_clip):
    data = Transitions(case)
    here, there = data.paths.states
    rho, value = np.minimum(data.rho[0], rho_clip), data.phi @ WEIGHTS  # a linear U, or M
    i, c, v = case.mdp.interest, case.density_ratio, case.values
    error = i[here] * v[here] + case.gamma_hat * value[1] - value[0]
    rule = fixed_points.counterfactual_values(
        case.mdp, case.policy, FEATURES, gamma_hat=case.gamma_hat, values=v, rho_clip=rho_clip
    )
    measured = data.mean(rho * error, data.phi[0])
    np.testing.assert_allclose(measured, rule.expected_update(WEIGHTS), atol=1e-12)
    error = (i * c)[there] + data.discount[0] * rho * value[0] - value[1]
    rule = fixed_points.emphasis(
        case.mdp, case.policy, FEATURES, density_ratio=c, rho_clip=rho_clip
    )
    measured = data.mean(error, data.phi[1])
    np.testing.assert_allclose(measured, rule.expected_update(WEIGHTS), atol=1e-12)


@every_case
def test_the_limits_take_the_u_that_a_table_learns_also_from_clipped_ratios(case):
    numbers = {"gamma_hat": case.gamma_hat, "values": case.values, "rho_clip": 0.9}
    table = fixed_points.tabular(case.mdp.num_states)
    u = fixed_points.counterfactual_values(case.mdp, case.policy, table, **numbers).fixed_point()
    numbers |= {"lambda_1": 1.0, "lambda_2": 0.7, "view": "forward"}
    learned = case.mdp.limits(case.policy, **numbers)
    given = case.mdp.limits(case.policy, counterfactual_values=u, **numbers)
    np.testing.assert_allclose(learned.second, given.second, atol=1e-12)


@every_case
def test_q_moves_as_its_rule_says_without_a_ratio(case):
    features = np.random.default_rng(3).normal(size=(4, 2, 2))
    data = Transitions(case)
    (here, there), (action,) = data.paths.states, data.paths.actions
    q = features @ WEIGHTS
    following = (case.policy * q).sum(axis=1)[there]
    error = data.paths.rewards[0] + data.discount[0] * following - q[here, action]
    rule = fixed_points.action_values(case.mdp, case.policy, features)
    measured = data.mean(error, features[here, action])
    np.testing.assert_allclose(measured, rule.expected_update(WEIGHTS), atol=1e-12)


def test_at_gamma_hat_one_soft_normalisation_makes_the_density_ratio_a_single_one():
    case = CASES["continuing"]
    table = fixed_points.tabular(4)
    with pytest.raises(ValueError, match="no single fixed point"):
        fixed_points.density_ratio(case.mdp, case.policy, table, gamma_hat=1.0).fixed_point()
    rule = fixed_points.density_ratio(
        case.mdp, case.policy, table, gamma_hat=1.0, soft_normalization=0.1
    )
    expected = case.mdp.density_ratio(case.policy, 1.0)
    np.testing.assert_allclose(rule.fixed_point(), expected, atol=1e-9)


def two_state_counterexample():
    """w -> 2 w (Tsitsiklis and Van Roy): mu visits both states, pi always goes to the second."""
    transitions = np.zeros((2, 2, 2))
    transitions[:, 0, 0] = transitions[:, 1, 1] = 1
    shape = (2, 2, 2)
    mdp = FiniteMDP(transitions, np.ones(shape), np.full(shape, 0.95), np.full((2, 2), 0.5))
    return mdp, np.array([[0.001, 0.999]] * 2), np.array([[1.0], [2.0]])


def test_td_diverges_where_the_others_converge():
    mdp, policy, features = two_state_counterexample()
    assert not fixed_points.td(mdp, policy, features).is_stable
    assert not fixed_points.vtrace(mdp, policy, features, num_steps=1, rho_bar=np.inf).is_stable
    assert fixed_points.etd(mdp, policy, features).is_stable
    # TDRC lies between gradient TD (0) and TD (infinity): its regularisation must be small here.
    assert fixed_points.tdrc(mdp, policy, features, regularization=0.3).is_stable
    assert not fixed_points.tdrc(mdp, policy, features, regularization=1.0).is_stable
    ratio = mdp.density_ratio(policy, 1.0)
    assert fixed_points.cop_td(mdp, policy, features, ratio).is_stable
    td = fixed_points.td(mdp, policy, features).fixed_point()
    tdrc = fixed_points.tdrc(mdp, policy, features).fixed_point()
    np.testing.assert_allclose(tdrc, [*td, 0], atol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_emphatic_td_is_stable_for_any_features(seed):
    rng = np.random.default_rng(seed)
    case = forward_case(random_teleporting_mdp, seed)
    rule = fixed_points.etd(case.mdp, case.policy, rng.normal(size=(4, 2)))
    assert rule.is_stable


def test_on_policy_td_has_the_fixed_point_of_least_mean_square_projected_error():
    """Phi^T D (T V - V) = 0: what is left of the Bellman error is orthogonal to the features."""
    case = CASES["teleporting"]
    mdp = case.mdp
    weights = fixed_points.td(mdp, mdp.behavior, FEATURES).fixed_point()
    value = FEATURES @ weights
    error = (mdp.behavior * mdp.backup(value)).sum(axis=1) - value
    np.testing.assert_allclose(FEATURES.T @ (mdp.behavior_distribution() * error), 0, atol=1e-12)


def test_impossible_questions_are_named():
    case = CASES["continuing"]
    with pytest.raises(ValueError, match="num_steps must be 1 or more"):
        fixed_points.vtrace(case.mdp, case.policy, FEATURES, num_steps=0)
    with pytest.raises(ValueError, match=r"features must have shape \[S, K\]"):
        fixed_points.td(case.mdp, case.policy, np.ones(4))
    with pytest.raises(ValueError, match=r"features must have shape \(4, 2\)"):
        fixed_points.td(case.mdp, case.policy, np.ones((3, 2)))
    twice = np.ones((4, 2))
    with pytest.raises(ValueError, match="Drop features that are combinations"):
        fixed_points.td(case.mdp, case.policy, twice).fixed_point()


@every_library
def test_every_array_library_gives_the_same(library):
    rng = np.random.default_rng(0)
    rho, delta, h = rng.uniform(0, 2, (3, 5)), rng.normal(size=(3, 5)), rng.normal(size=(3, 5))
    discount, connected = rng.choice([0.0, 0.9], (3, 5)), rng.choice([0.0, 1.0], (3, 5))
    assert_same(
        library, estimators.vtrace_error, rho, delta, discount, connected, rho_bar=1.1, c_bar=0.9
    )
    assert_same(library, estimators.cop_td_weight, rho, h)
    assert_same(library, estimators.etd_weight, rho, h)
    assert_same(library, value_loss, rho, delta)
    assert_same(library, estimators.tdrc_value_weights, rho, delta, discount, h)
    assert_same(library, estimators.tdrc_correction_error, rho, delta, h)
