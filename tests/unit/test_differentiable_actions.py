"""The policies' differentiable actions, against integrals of f(a) times the score.

grad E[f(a)] from the samples' derivatives (quantiles on a grid) and from the density alone
(points on a grid) share nothing but the distribution.
"""

import gymnasium as gym
import numpy as np
import pytest
import torch

from rllib_geoffpac.maths.distributions import KINDS, make_distribution

BOX = gym.spaces.Box(np.float32([2.0]), np.float32([5.0]))
# Outputs and std parameter of a Gaussian; alpha's and beta's outputs of a Beta.
PARAMETERS = {
    "gaussian": [(0.3, 0.0), (2.0, -3.0), (-3.0, 1.0), (0.0, -6.0)],
    "truncated_gaussian": [(0.3, 0.0), (4.0, -3.0), (-8.0, 1.0), (0.0, -9.0), (1.0, 30.0)],
    "beta": [(0.0, 0.0), (-9.0, -9.0), (5.0, -3.0), (200.0, 90.0)],
}
CASES = [(kind, pair) for kind, pairs in PARAMETERS.items() for pair in pairs]


def polynomial(a):
    return a - 2 * a**3 + 4 * a**4


def parameters_of(kind, pair):
    """Outputs [1, k] and the std parameter [1] or None, that gradients can be taken of."""
    numbers = [torch.tensor([float(n)], dtype=torch.float64, requires_grad=True) for n in pair]
    outputs, std = (torch.cat(numbers), None) if kind == "beta" else numbers
    return numbers, outputs[None], std


def from_samples(kind, pair):
    """E[f(a)] and its gradient, from quantiles u = 1 / (1 + e^-y)."""
    numbers, outputs, std = parameters_of(kind, pair)
    # The derivative of a clipped sample jumps, so that the trapezoidal rule is of the first order.
    count = 400_001 if kind == "gaussian" else 4001
    y = torch.linspace(-16, 16, count, dtype=torch.float64)
    u = torch.sigmoid(y)
    weight = u * (1 - u) * (y[1] - y[0])
    actions = make_distribution(BOX, kind).differentiable_action(
        outputs.expand(len(u), -1), std, u[:, None]
    )
    mean = (weight * polynomial(actions[:, 0])).sum()
    return np.array([mean.item(), *(g.item() for g in torch.autograd.grad(mean, numbers))])


def from_density(kind, pair):
    """The same from E[f(a) grad log pi(a)], with f at the action that the environment takes."""
    numbers, outputs, std = parameters_of(kind, pair)
    distribution = make_distribution(BOX, kind)
    # tanh-spaced: dense at the bounds, where the mass of some of them is.
    reach = 14.0
    if kind == "gaussian":  # beyond the box, too
        mean, scale = np.tanh(pair[0]), float(distribution.std(std).detach())
        t = torch.linspace(-9, 9, 40_001, dtype=torch.float64)
        unit, spacing = mean + scale * t, scale * (t[1] - t[0]) + 0 * t
    else:
        t = torch.linspace(-reach, reach, 40_001, dtype=torch.float64)
        unit = torch.tanh(t)
        spacing = (1 - unit**2) * (t[1] - t[0])
    actions = torch.as_tensor(distribution.box.center + distribution.box.half_width * unit.numpy())
    logp = distribution.log_prob(outputs.expand(len(t), -1), std, actions[:, None])
    weight = (logp.exp() * spacing * distribution.box.half_width[0]).detach()
    assert weight.sum().item() == pytest.approx(1, abs=1e-6)
    values = polynomial(unit.clip(-1, 1))
    mean = (weight * values).sum()
    gradient = torch.autograd.grad((weight * (values - mean) * logp).sum(), numbers)
    return np.array([mean.item(), *(g.item() for g in gradient)])


@pytest.mark.parametrize(("kind", "pair"), CASES)
def test_gradients_of_expectations_are_those_of_the_density(kind, pair):
    limit = 1e-4 if kind == "gaussian" else 2e-5
    np.testing.assert_allclose(
        from_samples(kind, pair), from_density(kind, pair), rtol=limit, atol=limit / 10
    )


def extremes(kind):
    """Outputs, std parameter and noise in float32 at which something could overflow."""
    size = 2 if kind == "beta" else 1
    outputs = np.repeat(np.float32([-1e4, -20, 0, 20, 1e4])[:, None], size, axis=1)
    noise = np.float32([0, 1e-9, 0.5, 1 - 6e-8, 1])
    grid = np.repeat(outputs, len(noise), axis=0), np.tile(noise, len(outputs))[:, None]
    widths = [None] if kind == "beta" else [np.float32([p]) for p in (-100, -8, 0, 50, 1e8)]
    return [(grid[0], width, grid[1]) for width in widths]


@pytest.mark.parametrize("kind", KINDS)
def test_actions_are_in_the_box_with_finite_derivatives(kind):
    for arrays in extremes(kind):
        tensors = [None if a is None else torch.tensor(a, requires_grad=True) for a in arrays]
        action = make_distribution(BOX, kind).differentiable_action(*tensors)
        assert action.dtype == torch.float32
        assert (abs(action) <= 1).all()
        learned = [t for t in tensors[:2] if t is not None]
        assert all(torch.isfinite(g).all() for g in torch.autograd.grad(action.sum(), learned))


@pytest.mark.slow  # XLA compiles for seconds
@pytest.mark.parametrize("kind", KINDS)
def test_jax_gives_the_same_and_stays_finite(kind):
    jax = pytest.importorskip("jax")
    distribution = make_distribution(BOX, kind)

    def total(outputs, std, noise):
        action = distribution.differentiable_action(outputs, std, noise)
        return polynomial(action).sum(), action

    argnums = 0 if kind == "beta" else (0, 1)
    compiled = jax.jit(jax.grad(total, argnums, has_aux=True))
    for arrays in extremes(kind):
        gradients, action = compiled(*arrays)
        assert np.isfinite(np.asarray(action)).all()
        assert all(np.isfinite(g).all() for g in jax.tree.leaves(gradients))
    outputs = np.float32([[0.3, 0.4]] * 25)[:, : distribution.num_outputs]
    noise = np.linspace(0.01, 0.99, 25, dtype=np.float32)[:, None]
    std = None if kind == "beta" else np.float32([-1.0])
    gradients, action = compiled(outputs, std, noise)
    tensors = [None if a is None else torch.tensor(a, requires_grad=True) for a in (outputs, std)]
    expected = distribution.differentiable_action(*tensors, torch.tensor(noise))
    np.testing.assert_allclose(action, expected.detach().numpy(), atol=1e-5)
    learned = [t for t in tensors if t is not None]
    expected = torch.autograd.grad(polynomial(expected).sum(), learned)
    for own, other in zip(jax.tree.leaves(gradients), expected, strict=True):
        np.testing.assert_allclose(own, other.numpy(), rtol=1e-4, atol=1e-4)


def test_discrete_actions_are_their_probabilities():
    distribution = make_distribution(gym.spaces.Discrete(3, start=4), "gaussian")
    outputs = np.log([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]) + 7
    action = distribution.differentiable_action(outputs, None, None)
    np.testing.assert_allclose(action, [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    encoded = distribution.encode(np.array([4, 6]), outputs)
    np.testing.assert_array_equal(encoded, [[1, 0, 0], [0, 0, 1]])
    assert (distribution.action_size, distribution.noise_size) == (3, 0)


def test_box_actions_are_encoded_in_the_unit_box():
    distribution = make_distribution(gym.spaces.Box(0, 4, (2, 2), np.float32), "beta")
    encoded = distribution.encode(np.float32([[[0, 1], [2, 4]]]), np.zeros(1))
    np.testing.assert_array_equal(encoded, [[-1, -0.5, 0, 1]])
    assert (distribution.action_size, distribution.noise_size) == (4, 4)
