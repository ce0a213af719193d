"""The policy gradient's limits: both views, all emphases, both kinds of critics, arbitrary tables.

The theorem in both forms stands against complex-step derivatives, the limits for wrong critics
against the expectation over all paths, computed from the definitions of F1, I, F2 and delta.
"""

import numpy as np
import pytest
from finite_mdp_paths import paths
from finite_mdps import (
    complex_step,
    random_continuing_mdp,
    random_episodic_mdp,
    random_teleporting_mdp,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_geoffpac.maths.finite_mdp import FiniteMDP
from rllib_geoffpac.maths.gradient_limits import overlap_force
from rllib_geoffpac.maths.tables import score, softmax_policy

MAKERS = {
    "continuing": random_continuing_mdp,
    "episodic": random_episodic_mdp,
    "teleporting": random_teleporting_mdp,
}
problems = st.builds(
    lambda kind, seed: random_problem(kind, seed),
    st.sampled_from(list(MAKERS)),
    st.integers(0, 2**32 - 1),
)
fractions = st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0])


def random_problem(kind, seed, states=5, actions=3):
    rng = np.random.default_rng(seed)
    mdp = MAKERS[kind](rng, states=states, actions=actions, concentration=1.0)
    return mdp, rng.normal(size=(states, actions)), rng


def assert_close(terms, expected, tolerance=1e-9):
    """To 1e-9 of the terms' size: values reach 1 / (1 - 0.97) here."""
    scale = max(1.0, abs(expected).max())
    np.testing.assert_allclose(terms, expected, rtol=0, atol=tolerance * scale)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(problem=problems, gamma_hat=fractions)
def test_the_forward_view_is_the_theorem_and_the_derivative(problem, gamma_hat):
    mdp, logits, _ = problem
    policy = softmax_policy(logits)
    numbers = {"gamma_hat": gamma_hat, "lambda_1": 1.0, "lambda_2": 1.0}
    backward = mdp.limits(policy, **numbers)
    forward = mdp.limits(policy, view="forward", **numbers)
    derivative = complex_step(lambda x: mdp.objective(softmax_policy(x), gamma_hat), logits)
    assert_close(forward.first, backward.first)
    assert_close(forward.second, backward.second)
    assert_close(forward.total, derivative)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(problem=problems, gamma_hat=fractions, lambda_2=fractions)
def test_both_views_agree_for_any_density_ratio_and_values(problem, gamma_hat, lambda_2):
    mdp, logits, rng = problem
    critics = {
        "density_ratio": rng.uniform(0, 2, mdp.num_states),
        "values": rng.normal(size=mdp.num_states),
    }
    numbers = {"gamma_hat": gamma_hat, "lambda_1": 0.7, "lambda_2": lambda_2}
    policy = softmax_policy(logits)
    backward = mdp.limits(policy, **numbers, **critics)
    forward = mdp.limits(policy, view="forward", **numbers, **critics)
    assert_close(forward.second, backward.second)
    np.testing.assert_array_equal(forward.first, backward.first)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(problem=problems, gamma_hat=st.sampled_from([0.0, 0.3, 0.9, 0.99]))
def test_action_values_give_the_derivative_term_by_term(problem, gamma_hat):
    mdp, logits, _ = problem
    policy = softmax_policy(logits)
    terms = mdp.action_value_limits(policy, gamma_hat=gamma_hat, lambda_1=1.0)
    expected = mdp.gradient(logits, gamma_hat)
    assert_close(terms.first, expected.first)
    assert_close(terms.second, expected.second)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(problem=problems, gamma_hat=st.sampled_from([0.0, 0.3, 0.9, 0.99]))
def test_counterfactual_values_and_action_values_solve_their_equations(problem, gamma_hat):
    mdp, logits, _ = problem
    policy = softmax_policy(logits)
    u, v = mdp.counterfactual_values(policy, gamma_hat), mdp.values(policy)
    q, q_u = mdp.action_values(policy), mdp.counterfactual_action_values(policy, gamma_hat)
    chain = np.einsum("sa,sat->st", policy, mdp.transitions)
    assert_close(u, mdp.interest * v + gamma_hat * chain @ u)
    objective = (1 - gamma_hat) * mdp.behavior_distribution() @ u
    assert objective == pytest.approx(mdp.objective(policy, gamma_hat), abs=1e-9)
    following = mdp.interest[:, None] * q + q_u  # i(S') Q(S', a') + Q_u(S', a')
    recursion = gamma_hat * np.einsum("sat,tb,tb->sa", mdp.transitions, policy, following)
    assert_close(q_u, recursion)
    assert_close(u, mdp.interest * v + (policy * q_u).sum(axis=1))
    relative = mdp.relative_counterfactual_values(policy, gamma_hat)
    assert np.ptp(relative - u) < 1e-9 * max(1, abs(u).max())


@settings(max_examples=30, deadline=None, derandomize=True)
@given(problem=problems, gamma=st.floats(0, 0.95), gamma_hat=st.floats(0, 0.95))
def test_closed_form_of_u_where_gamma_is_constant(problem, gamma, gamma_hat):
    """u = (gamma v_gamma - gamma_hat v_gamma_hat) / (gamma - gamma_hat) for i = 1."""
    if abs(gamma - gamma_hat) < 0.01:  # the division takes the digits away there
        gamma_hat = gamma + 0.02
    mdp, logits, _ = problem
    policy = softmax_policy(logits)

    def values(discount):
        table = np.full_like(mdp.discounts, discount)
        return FiniteMDP(mdp.transitions, mdp.rewards, table, mdp.behavior)

    u = values(gamma).counterfactual_values(policy, gamma_hat)
    v_gamma, v_gamma_hat = values(gamma).values(policy), values(gamma_hat).values(policy)
    expected = (gamma * v_gamma - gamma_hat * v_gamma_hat) / (gamma - gamma_hat)
    assert_close(u, expected)


def test_the_objective_weights_reward_n_as_the_closed_form_says():
    """J_gamma_hat weights reward n by gamma^n (1 - (gh/gamma)^{n+1}) (1 - gh) / (1 - gh/gamma)."""
    mdp, logits, _ = random_problem("continuing", seed=4)
    gamma, gamma_hat = 0.8, 0.5
    table = np.full_like(mdp.discounts, gamma)
    mdp = FiniteMDP(mdp.transitions, mdp.rewards, table, mdp.behavior)
    policy = softmax_policy(logits)
    chain = np.einsum("sa,sat->st", policy, mdp.transitions)
    reward = np.einsum("sa,sat,sat->s", policy, mdp.transitions, mdp.rewards)
    distribution, total = mdp.behavior_distribution(), 0.0
    for n in range(300):
        weight = gamma**n * (1 - (gamma_hat / gamma) ** (n + 1))
        total += weight * (1 - gamma_hat) / (1 - gamma_hat / gamma) * (distribution @ reward)
        distribution = distribution @ chain
    assert total == pytest.approx(mdp.objective(policy, gamma_hat), abs=1e-12)


# ---------------------------------------------------------------------------------------------
# Wrong critics: the definitions, averaged over all paths.

LENGTH = 2  # transitions before the one that is learned from


@pytest.fixture(scope="module", params=list(MAKERS))
def wrong_critics(request):
    """A problem with arbitrary tables for all critics, and all its paths."""
    mdp, logits, rng = random_problem(request.param, seed=11, states=4, actions=2)
    tables = {
        "density_ratio": rng.uniform(0, 2, 4),
        "values": rng.normal(size=4),
        "counterfactual_values": rng.normal(size=4),
        "learned_emphasis": rng.uniform(0, 3, 4),
        "action_values": rng.normal(size=(4, 2)),
        "counterfactual_action_values": rng.normal(size=(4, 2)),
    }
    return mdp, logits, tables, paths(mdp, LENGTH + 1)


def clipped_rho(mdp, logits, everything, rho_clip):
    rho = np.minimum(softmax_policy(logits) / mdp.behavior, rho_clip)
    return rho[everything.states[:-1], everything.actions]


def defined_traces(mdp, logits, tables, everything, rho, gamma_hat):
    """F1, I and F2 at the last state, from the LENGTH transitions before it."""
    c = tables["density_ratio"]
    base = mdp.interest[everything.states] * c[everything.states]
    scores = score(logits)[everything.states[:-1], everything.actions]
    f1, f2 = base[0], np.zeros_like(scores[0])
    for t in range(LENGTH):
        intrinsic = (c[everything.states[t]] * rho[t])[:, None] * scores[t]
        f1 = everything.discounts[t] * rho[t] * f1 + base[t + 1]
        f2 = gamma_hat * rho[t][:, None] * f2 + intrinsic
    return f1, intrinsic, f2, scores[LENGTH]


@pytest.mark.parametrize("rho_clip", [np.inf, 0.9])
@pytest.mark.parametrize("lambdas", [(1.0, 1.0), (0.7, 0.6)])
def test_truncated_traces_of_both_terms_average_to_their_limits(wrong_critics, lambdas, rho_clip):
    mdp, logits, tables, everything = wrong_critics
    (lambda_1, lambda_2), gamma_hat = lambdas, 0.8
    rho = clipped_rho(mdp, logits, everything, rho_clip)
    f1, intrinsic, f2, direction = defined_traces(mdp, logits, tables, everything, rho, gamma_hat)
    here, there = everything.states[-2], everything.states[-1]
    interest, c, v = mdp.interest[here], tables["density_ratio"][here], tables["values"]
    delta = everything.rewards[-1] + everything.discounts[-1] * v[there] - v[here]
    m1 = (1 - lambda_1) * interest * c + lambda_1 * f1
    m2 = (1 - lambda_2) * intrinsic + lambda_2 * f2
    limits = mdp.limits(
        softmax_policy(logits),
        gamma_hat=gamma_hat,
        lambda_1=lambda_1,
        lambda_2=lambda_2,
        density_ratio=tables["density_ratio"],
        values=v,
        emphasis="truncated",
        trace_length=LENGTH,
        rho_clip=rho_clip,
    )
    first = everything.mean((rho[-1] * m1 * delta)[:, None] * direction)
    second = everything.mean((gamma_hat * interest * v[here])[:, None] * m2)
    np.testing.assert_allclose(limits.first, first, atol=1e-12)
    np.testing.assert_allclose(limits.second, second, atol=1e-12)


@pytest.mark.parametrize("rho_clip", [np.inf, 0.9])
@pytest.mark.parametrize("lambdas", [(1.0, 1.0), (0.7, 0.6)])
def test_the_forward_view_with_wrong_critics_averages_to_its_limits(
    wrong_critics, lambdas, rho_clip
):
    mdp, logits, tables, everything = wrong_critics
    (lambda_1, lambda_2), gamma_hat = lambdas, 0.8
    rho = clipped_rho(mdp, logits, everything, rho_clip)[-1]
    direction = score(logits)[everything.states[-2], everything.actions[-1]]
    here, there = everything.states[-2], everything.states[-1]
    i, c, v, u, m = mdp.interest, *(tables[name] for name in list(tables)[:4])
    delta = everything.rewards[-1] + everything.discounts[-1] * v[there] - v[here]
    m1 = (1 - lambda_1) * i[here] * c[here] + lambda_1 * m[here]
    bootstrap = (1 - lambda_2) * i[there] * v[there] + lambda_2 * u[there]
    delta_u = i[here] * v[here] + gamma_hat * bootstrap - u[here]
    limits = mdp.limits(
        softmax_policy(logits),
        gamma_hat=gamma_hat,
        lambda_1=lambda_1,
        lambda_2=lambda_2,
        density_ratio=c,
        values=v,
        view="forward",
        counterfactual_values=u,
        emphasis="learned",
        learned_emphasis=m,
        rho_clip=rho_clip,
    )
    first = everything.mean((rho * m1 * delta)[:, None] * direction)
    second = everything.mean((rho * c[here] * delta_u)[:, None] * direction)
    np.testing.assert_allclose(limits.first, first, atol=1e-12)
    np.testing.assert_allclose(limits.second, second, atol=1e-12)


def test_wrong_action_values_average_to_their_limits(wrong_critics):
    mdp, logits, tables, everything = wrong_critics
    policy, gamma_hat = softmax_policy(logits), 0.8
    rho = clipped_rho(mdp, logits, everything, np.inf)
    f1, *_ = defined_traces(mdp, logits, tables, everything, rho, gamma_hat)
    here = everything.states[-2]
    gradient = policy[:, :, None] * score(logits)
    limits = mdp.action_value_limits(
        policy,
        gamma_hat=gamma_hat,
        lambda_1=1.0,
        density_ratio=tables["density_ratio"],
        action_values=tables["action_values"],
        counterfactual_action_values=tables["counterfactual_action_values"],
        emphasis="truncated",
        trace_length=LENGTH,
    )
    inner = np.einsum("sa,sap->sp", tables["action_values"], gradient)[here]
    inner_u = np.einsum("sa,sap->sp", tables["counterfactual_action_values"], gradient)[here]
    np.testing.assert_allclose(limits.first, everything.mean(f1[:, None] * inner), atol=1e-12)
    weight = tables["density_ratio"][here][:, None]
    np.testing.assert_allclose(limits.second, everything.mean(weight * inner_u), atol=1e-12)


@pytest.mark.parametrize("rho_clip", [np.inf, 0.9])
def test_truncation_goes_from_off_pac_to_the_whole_trace(wrong_critics, rho_clip):
    mdp, logits, tables, _ = wrong_critics
    policy = softmax_policy(logits)
    critics = {"density_ratio": tables["density_ratio"], "values": tables["values"]}

    def limits(lambdas=1.0, **settings):
        numbers = {"gamma_hat": 0.8, "lambda_1": lambdas, "lambda_2": lambdas}
        return mdp.limits(policy, rho_clip=rho_clip, **numbers, **critics, **settings)

    nothing = limits(emphasis="truncated", trace_length=0)
    np.testing.assert_allclose(nothing.first, limits(0.0).first, atol=1e-12)
    assert not nothing.second.any()
    one = limits(emphasis="truncated", trace_length=1)
    np.testing.assert_allclose(one.second, limits(0.0).second, atol=1e-12)
    long = limits(emphasis="truncated", trace_length=2000)
    np.testing.assert_allclose(long.first, limits().first, atol=1e-10)
    np.testing.assert_allclose(long.second, limits().second, atol=1e-10)


def test_the_exact_learned_emphasis_is_that_of_the_followon_trace(wrong_critics):
    mdp, logits, tables, _ = wrong_critics
    policy, c = softmax_policy(logits), tables["density_ratio"]
    m = mdp.emphasis(policy, density_ratio=c)
    d_mu = mdp.behavior_distribution()
    discounted = np.einsum("sa,sat,sat->st", policy, mdp.transitions, mdp.discounts)
    # M(s') = i(s') c(s') + E[gamma_{t+1} rho_t M(S_t) | S_{t+1} = s']
    np.testing.assert_allclose(m, mdp.interest * c + discounted.T @ (d_mu * m) / d_mu)
    numbers = {"gamma_hat": 0.8, "lambda_1": 0.6, "lambda_2": 1.0, "density_ratio": c}
    learned = mdp.limits(policy, emphasis="learned", learned_emphasis=m, **numbers)
    np.testing.assert_allclose(learned.first, mdp.limits(policy, **numbers).first, atol=1e-12)


def test_overlap_and_its_force():
    mdp, logits, _ = random_problem("continuing", seed=8)
    policy, k = softmax_policy(logits), 1.3
    everything = paths(mdp, 1)
    rho = (policy / mdp.behavior)[everything.states[0], everything.actions[0]]
    assert mdp.overlap(policy, k) == pytest.approx(everything.mean(np.minimum(rho, k)), abs=1e-12)
    assert mdp.overlap(mdp.behavior, 1.0) == pytest.approx(1.0)
    assert mdp.overlap(policy, np.inf) == pytest.approx(1.0)
    weight = mdp.behavior_distribution()[:, None] * mdp.behavior

    def smoothed(logits):
        x = softmax_policy(logits) / mdp.behavior
        return (weight * np.where(x.real <= k, x, k + k * np.log(x / k))).sum()

    expected = complex_step(smoothed, logits)
    np.testing.assert_allclose(overlap_force(mdp, policy, k), expected, atol=1e-12)
    np.testing.assert_allclose(overlap_force(mdp, policy, np.inf), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"view": "sideways"}, r"view must be one of \('backward', 'forward'\); got 'sideways'"),
        ({"emphasis": "none"}, "emphasis must be one of"),
        ({"trace_length": 3}, "trace_length belongs to emphasis='truncated'"),
        ({"emphasis": "truncated"}, "Give both or none"),
        ({"emphasis": "truncated", "trace_length": -1}, "must be 0 or more transitions; got -1"),
        ({"learned_emphasis": np.ones(11)}, "learned_emphasis needs emphasis='learned'"),
        ({"view": "forward", "counterfactual_values": [1]}, r"must have shape \(11,\)"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    mdp = FiniteMDP.two_circle()
    with pytest.raises(ValueError, match=message):
        mdp.limits(mdp.behavior, gamma_hat=0.5, lambda_1=1, lambda_2=1, **settings)


def test_u_is_infinite_for_gamma_hat_one_and_says_what_to_ask_instead():
    mdp = FiniteMDP.two_circle()
    with pytest.raises(ValueError, match=r"gamma_hat must be below 1.*relative_counterfactual"):
        mdp.counterfactual_values(mdp.behavior, 1.0)
