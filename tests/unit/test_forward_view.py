"""The forward view's rules averaged over all paths, against linear algebra; mistakes included."""

import numpy as np
import pytest
import torch
from finite_mdps import random_continuing_mdp, random_episodic_mdp, random_teleporting_mdp
from forward_rows import ROW_MUTANTS, expectations, forward_case, row_of, two_transitions

from rllib_geoffpac.maths import fixed_points, forward_view

CASES = {
    "continuing": forward_case(random_continuing_mdp, seed=5),
    "episodic": forward_case(random_episodic_mdp, seed=6),
    "teleporting": forward_case(random_teleporting_mdp, seed=7),
}
LAMBDAS = (0.7, 0.6)


@pytest.fixture(scope="module")
def rows():
    return {name: row_of(case, two_transitions(case)) for name, case in CASES.items()}


def exact(case, lambda_1, lambda_2):
    """The limits of both terms and the expected updates of the tables U, M and Q_u."""
    mdp, policy, gamma_hat = case.mdp, case.policy, case.gamma_hat
    terms = mdp.limits(
        policy,
        gamma_hat=gamma_hat,
        lambda_1=lambda_1,
        lambda_2=lambda_2,
        density_ratio=case.density_ratio,
        values=case.values,
        view="forward",
        counterfactual_values=case.counterfactual_values,
        emphasis="learned",
        learned_emphasis=case.emphasis,
    )
    table = fixed_points.tabular(mdp.num_states)
    u_rule = fixed_points.counterfactual_values(
        mdp, policy, table, gamma_hat=gamma_hat, values=case.values
    )
    m_rule = fixed_points.emphasis(mdp, policy, table, density_ratio=case.density_ratio)
    shape = mdp.behavior.shape
    q_u_rule = fixed_points.counterfactual_action_values(
        mdp,
        policy,
        np.eye(np.prod(shape)).reshape(*shape, -1),
        gamma_hat=gamma_hat,
        action_values=case.action_values,
    )
    return {
        "first": terms.first,
        "second": terms.second,
        "U": u_rule.expected_update(case.counterfactual_values),
        "M": m_rule.expected_update(case.emphasis),
        "Q_u": q_u_rule.expected_update(case.counterfactual_action_values.ravel()).reshape(shape),
    }


@pytest.mark.parametrize("lambdas", [(1.0, 1.0), (0.0, 0.0), LAMBDAS])
@pytest.mark.parametrize("name", CASES)
def test_every_rule_averages_to_its_exact_expectation(rows, name, lambdas):
    case = CASES[name]
    measured, expected = expectations(case, rows[name], *lambdas), exact(case, *lambdas)
    for quantity, value in expected.items():
        np.testing.assert_allclose(measured[quantity], value, atol=1e-12, err_msg=quantity)
        # The check is sharp: there is something to measure.
        assert abs(value).max() > 1e-2, quantity


@pytest.mark.parametrize(
    ("mistake", "name"),
    [
        (mistake, name)
        for mistake, mutant in ROW_MUTANTS.items()
        for name in CASES
        if not (mutant.teleports_only and name == "continuing")
    ],
)
def test_a_mistake_in_what_the_rules_are_given_is_found(rows, mistake, name):
    case, mutant = CASES[name], ROW_MUTANTS[mistake]
    row = rows[name]
    measured = expectations(case, row | mutant.change(row), *LAMBDAS)
    expected = exact(case, *LAMBDAS)
    for quantity in mutant.spoils:
        assert abs(measured[quantity] - expected[quantity]).max() > 1e-3, quantity


@pytest.mark.parametrize("name", CASES)
def test_with_exact_critics_the_actor_follows_the_policy_gradient(rows, name):
    case = CASES[name]
    mdp, policy, gamma_hat = case.mdp, case.policy, case.gamma_hat
    c = mdp.density_ratio(policy, gamma_hat)
    case = case._replace(
        density_ratio=c,
        values=mdp.values(policy),
        counterfactual_values=mdp.counterfactual_values(policy, gamma_hat),
        emphasis=mdp.emphasis(policy, density_ratio=c),
        action_values=mdp.action_values(policy),
        counterfactual_action_values=mdp.counterfactual_action_values(policy, gamma_hat),
    )
    measured = expectations(case, row_of(case, two_transitions(case)), 1.0, 1.0)
    gradient = mdp.gradient(case.logits, gamma_hat)
    np.testing.assert_allclose(measured["first"], gradient.first, atol=1e-12)
    np.testing.assert_allclose(measured["second"], gradient.second, atol=1e-12)
    for critic in ("U", "M", "Q_u"):  # and the critics stay where they are
        np.testing.assert_allclose(measured[critic], 0, atol=1e-12)


def test_a_cut_transition_teaches_neither_u_nor_the_actor():
    rho, delta_u = np.array([2.0, 3.0]), np.array([1.0, 5.0])
    valid = np.array([True, False])
    assert forward_view.counterfactual_value_loss(rho, delta_u, valid) == 1.0
    assert forward_view.counterfactual_value_loss(rho, delta_u, ~valid & valid) == 0.0
    weights = forward_view.second_weight(rho, np.array([0.5, 0.5]), delta_u, valid)
    assert weights.tolist() == [1.0, 0.0]


def test_the_gradient_of_us_loss_is_its_rule():
    u = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
    i, v, following = (torch.tensor([a, a + 1], dtype=torch.float64) for a in (0.5, 2.0, -1.0))
    rho = torch.tensor([0.3, 1.7], dtype=torch.float64)
    delta_u = forward_view.counterfactual_td_error(i, v, following, u, gamma_hat=0.9)
    forward_view.counterfactual_value_loss(rho, delta_u, torch.ones(2)).backward()
    torch.testing.assert_close(u.grad, -(rho * delta_u.detach()) / 2)
