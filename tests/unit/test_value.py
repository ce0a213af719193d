"""Importance ratios, the V loss against exact values, and Monte-Carlo values."""

import numpy as np
import pytest
import torch
from finite_mdps import AGREES, CASES, deviation, estimate, simulate

from rllib_geoffpac.maths.value import (
    effective_sample_size,
    importance_ratio,
    j_pi,
    monte_carlo_values,
    td_error,
    value_loss,
)

CONVERT = pytest.mark.parametrize("convert", [np.asarray, torch.as_tensor])


@CONVERT
def test_importance_ratio_divides_densities_and_never_overflows(convert):
    target = convert(np.array([np.log(0.3), -np.inf, 500.0]))
    behavior = convert(np.array([np.log(0.6), 0.0, -500.0]))
    rho = np.asarray(importance_ratio(target, behavior))
    np.testing.assert_allclose(rho, [0.5, 0.0, np.exp(30.0)])


@CONVERT
def test_effective_sample_size_counts_equal_weights_fully_and_one_heavy_weight_once(convert):
    assert float(effective_sample_size(convert(np.full(8, 0.3)))) == pytest.approx(8)
    assert float(effective_sample_size(convert(np.array([5.0, 0.0, 0.0, 0.0])))) == 1
    assert float(effective_sample_size(convert(np.zeros(4)))) == 0


def test_td_error_and_loss():
    delta = td_error(np.array([1.0, 2.0]), np.array([0.9, 0.0]), np.array([10.0, 10.0]), np.ones(2))
    np.testing.assert_allclose(delta, [9.0, 1.0])
    assert value_loss(np.array([2.0, 4.0]), delta) == pytest.approx((2 * 81 + 4) / 4)


@pytest.mark.parametrize("name", CASES)
def test_the_exact_values_are_the_fixed_point_of_the_loss(name):
    case = CASES[name]
    stream = simulate(case.mdp, 200, 500, seed=0)
    rho = torch.tensor(case.rho[stream.states[:-1], stream.actions])
    rewards, discounts = torch.tensor(stream.rewards), torch.tensor(stream.discounts)
    gradients = []
    for lane in range(200):
        table = torch.tensor(case.mdp.values(case.policy), requires_grad=True)
        delta = td_error(
            rewards[:, lane],
            discounts[:, lane],
            table.detach()[stream.states[1:, lane]],
            table[stream.states[:-1, lane]],
        )
        loss = value_loss(rho[:, lane], delta)
        gradients.append(torch.autograd.grad(loss, table)[0].numpy())
    assert deviation(*estimate(np.array(gradients)), np.zeros(case.mdp.num_states)) < AGREES


def test_monte_carlo_values_discount_every_later_reward():
    values = monte_carlo_values([1, 2, 4], [0.5, 0.25, 0.9])
    np.testing.assert_allclose(values, [1 + 0.5 * 3, 3, 4])


def test_j_pi_averages_over_states_not_over_episodes():
    episodes = [([1, 1], [1, 1]), ([6], [0.9])]
    assert j_pi(episodes) == pytest.approx((2 + 1 + 6) / 3)


def test_j_pi_of_nothing_and_misaligned_rewards_are_errors():
    with pytest.raises(ValueError, match="at least one visited state"):
        j_pi([([], [])])
    with pytest.raises(ValueError, match=r"got \(2,\) and \(1,\)"):
        monte_carlo_values([1, 2], [0.9])
