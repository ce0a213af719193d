"""The C loss and soft normalisation, with torch gradients against the exact density ratio."""

import numpy as np
import pytest
import torch
from finite_mdps import (
    AGREES,
    CASES,
    DIFFERS,
    density_ratio_gradient,
    deviation,
    estimate,
    simulate,
)

from rllib_geoffpac.maths.density_ratio import (
    clip_density_ratio,
    density_ratio_loss,
    leave_one_out_mean,
    soft_normalization_loss,
)


def loss_gradient(case, stream, *, mask=False, skip=False):
    """Gradient of the C loss at the case's table C [S], estimated over the lanes."""
    going_on = torch.tensor(stream.discounts > 0)
    rho = torch.tensor(case.rho[stream.states[:-1], stream.actions])
    valid = going_on if skip else torch.ones_like(going_on)
    rho = rho * going_on if mask else rho
    gradients = []
    for lane in range(stream.actions.shape[1]):
        table = torch.tensor(case.density_ratio, requires_grad=True)
        loss = density_ratio_loss(
            table[stream.states[1:, lane]],
            table.detach()[stream.states[:-1, lane]],
            rho[:, lane],
            gamma_hat=case.gamma_hat,
            valid=valid[:, lane],
        )
        gradients.append(torch.autograd.grad(loss, table)[0].numpy())
    return estimate(np.array(gradients))


@pytest.fixture(scope="module")
def streams():
    return {name: simulate(case.mdp, 200, 1000, seed=0) for name, case in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_of_the_loss_is_that_of_the_cop_rule(streams, name):
    gradient = loss_gradient(CASES[name], streams[name])
    assert deviation(*gradient, density_ratio_gradient(CASES[name])) < AGREES


@pytest.mark.parametrize("name", CASES)
def test_the_exact_density_ratio_is_the_fixed_point_of_the_loss(streams, name):
    case = CASES[name]
    exact = case.mdp.density_ratio(case.policy, case.gamma_hat)
    gradient = loss_gradient(case._replace(density_ratio=exact), streams[name])
    assert deviation(*gradient, np.zeros_like(exact)) < AGREES


@pytest.mark.parametrize("mistake", ["mask", "skip"])
def test_masking_or_skipping_teleports_is_found(streams, mistake):
    case = CASES["episodic"]
    gradient = loss_gradient(case, streams["episodic"], **{mistake: True})
    assert deviation(*gradient, density_ratio_gradient(case)) > DIFFERS


def test_loss_is_half_the_mean_square_over_valid_transitions():
    c_next, c, rho = np.array([1.0, 2.0, 9.0]), np.array([0.5, 1.0, 9.0]), np.array([2.0, 0.0, 9.0])
    loss = density_ratio_loss(c_next, c, rho, gamma_hat=0.6, valid=np.array([1.0, 1.0, 0.0]))
    first = 0.6 * 2.0 * 0.5 + 0.4 - 1.0
    second = 0.4 - 2.0
    assert loss == pytest.approx((first**2 + second**2) / 4)


def test_no_valid_transition_gives_no_loss():
    ones = torch.ones(3, requires_grad=True)
    nothing = torch.zeros(3)
    loss = density_ratio_loss(ones, ones.detach(), ones.detach(), gamma_hat=0.5, valid=nothing)
    loss = loss + soft_normalization_loss(ones, ones.detach(), nothing)
    loss.backward()
    assert loss.item() == 0
    assert not ones.grad.any()


@pytest.mark.parametrize("convert", [np.asarray, torch.as_tensor])
def test_leave_one_out_mean_skips_the_sample_itself_and_invalid_ones(convert):
    c = convert(np.array([1.0, 2.0, 6.0, 100.0]))
    means = leave_one_out_mean(c, convert(np.array([True, True, True, False])))
    np.testing.assert_allclose(np.asarray(means), [4.0, 3.5, 1.5, 3.0])


def test_soft_normalization_gradient_is_the_other_samples_excess_over_one():
    c = torch.tensor([0.5, 2.0, 1.4, 7.0], dtype=torch.float64, requires_grad=True)
    valid = torch.tensor([1.0, 1.0, 1.0, 0.0])
    soft_normalization_loss(c, c.detach(), valid).backward()
    expected = np.array([1.7 - 1, 0.95 - 1, 1.25 - 1, 0.0]) / 3
    np.testing.assert_allclose(c.grad.numpy(), expected, atol=1e-12)


def test_soft_normalization_pulls_the_mean_to_one():
    c = torch.full((10,), 3.0, dtype=torch.float64, requires_grad=True)
    for _ in range(200):
        loss = soft_normalization_loss(c, c.detach(), torch.ones(10))
        (gradient,) = torch.autograd.grad(loss, c)
        c = (c - gradient).detach().requires_grad_()
    assert c.mean().item() == pytest.approx(1, abs=1e-6)


def test_soft_normalization_needs_two_valid_samples():
    c = torch.tensor([3.0, 5.0], requires_grad=True)
    soft_normalization_loss(c, c.detach(), torch.tensor([1.0, 0.0])).backward()
    assert not c.grad.any()


@pytest.mark.parametrize("convert", [np.asarray, torch.as_tensor])
def test_clip_keeps_the_density_ratio_in_its_range(convert):
    clipped = clip_density_ratio(convert(np.array([-1.0, 0.5, 3.0])), 2.0)
    assert clipped.tolist() == [0, 0.5, 2]
