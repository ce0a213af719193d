"""Gaussians as target policies: on a box, without bounds, and renormalised to the box."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np

from rllib_geoffpac.maths.action_spaces import NaturalBox
from rllib_geoffpac.maths.arrays import Array, namespace, normal_mass, softplus, special
from rllib_geoffpac.maths.policy_distribution import BoxDistribution, Rng, draw
from rllib_geoffpac.maths.truncated_gaussian import truncated_gaussian_sample

MIN_TRUNCATED_STD = 1e-3
MIN_TRUNCATED_MASS = 1e-6
# Samples stay this far from probability 0 and 1, where the inverse of Phi is infinite.
QUANTILE_MARGIN = 1e-7

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
SQRT_2PI_E = math.sqrt(2 * math.pi * math.e)


class DiagonalGaussian(BoxDistribution):
    """The paper's policy for a Box: mean from the network, global std, not clipped to the box."""

    has_global_std = True

    def log_prob(self, outputs: Array, std_parameter: Array | None, actions: Array) -> Array:
        mean, std = self._mean(outputs), self.std(std_parameter)
        z = (self.encode(actions, outputs) - mean) / std
        log_density = -0.5 * z**2 - LOG_SQRT_2PI - self._log_normaliser(mean, std)
        return log_density.sum(-1) - self.box.log_volume_scale

    def entropy(self, outputs: Array, std_parameter: Array | None) -> Array:
        std = self.std(std_parameter)
        entropy = namespace(std).log(std * SQRT_2PI_E).sum(-1) + self.box.log_volume_scale
        return entropy + 0 * outputs[:, 0]

    def std(self, std_parameter: Array | None) -> Array:
        return softplus(std_parameter)

    def differentiable_action(
        self, outputs: Array, std_parameter: Array | None, noise: Array
    ) -> Array:
        """tanh(y) + s Phi^-1(u), clipped to the box as the environment does."""
        normal = special(noise).ndtri(noise.clip(QUANTILE_MARGIN, 1 - QUANTILE_MARGIN))
        mean, std = namespace(outputs).tanh(outputs), self.std(std_parameter)
        return (mean + std * normal).clip(-1, 1)

    def sample(self, outputs: np.ndarray, std_parameter: np.ndarray | None, rng: Rng) -> np.ndarray:
        mean, std = self._mean_and_std(outputs, std_parameter)
        return self.box.from_unit(mean + std * draw(rng, "standard_normal", *mean.shape))

    def mode(self, outputs: np.ndarray, std_parameter: np.ndarray | None = None) -> np.ndarray:
        return self.box.from_unit(self._mean(np.asarray(outputs, dtype=np.float64)))

    def _mean(self, outputs: Array) -> Array:
        return namespace(outputs).tanh(outputs)

    def _log_normaliser(self, mean: Array, std: Array) -> Array:
        """What the log density loses per dimension, apart from the constant: log s."""
        return namespace(std).log(std)

    def _mean_and_std(
        self, outputs: np.ndarray, std_parameter: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        std = self.std(np.asarray(std_parameter, dtype=np.float64))
        return self._mean(np.asarray(outputs, dtype=np.float64)), std


class UnboundedGaussian(DiagonalGaussian):
    """The same for a Box without finite bounds: m = y, s = softplus(p), in the env's units."""

    def __init__(self, action_space: gym.spaces.Box):
        self.action_space, self.box = action_space, NaturalBox(action_space)
        self.num_outputs = self.action_size = self.noise_size = self.box.size

    def differentiable_action(
        self, outputs: Array, std_parameter: Array | None, noise: Array
    ) -> Array:
        """y + s Phi^-1(u)."""
        normal = special(noise).ndtri(noise.clip(QUANTILE_MARGIN, 1 - QUANTILE_MARGIN))
        return outputs + self.std(std_parameter) * normal

    def _mean(self, outputs: Array) -> Array:
        return outputs


class TruncatedGaussian(DiagonalGaussian):
    """The Gaussian renormalised to the box, whose support is exactly the action box.

    Per dimension, with l = (-1 - m) / s and h = (1 - m) / s: Z = max(Phi(h) - Phi(l), 1e-6),
    log pi = -z^2/2 - log s - log(2 pi)/2 - log Z. The density holds for actions inside the box,
    the only ones there are.
    """

    def entropy(self, outputs: Array, std_parameter: Array | None) -> Array:
        xp = namespace(outputs)
        mean, std = xp.tanh(outputs), self.std(std_parameter)
        low, high = (-1 - mean) / std, (1 - mean) / std
        mass = _mass_between(low, high)
        edge = (low * _normal_density(low) - high * _normal_density(high)) / (2 * mass)
        return (xp.log(std * mass * SQRT_2PI_E) + edge).sum(-1) + self.box.log_volume_scale

    def std(self, std_parameter: Array | None) -> Array:
        return softplus(std_parameter) + MIN_TRUNCATED_STD

    def differentiable_action(
        self, outputs: Array, std_parameter: Array | None, noise: Array
    ) -> Array:
        mean = namespace(outputs).tanh(outputs)
        return truncated_gaussian_sample(noise, mean, self.std(std_parameter) + 0 * mean)

    def sample(self, outputs: np.ndarray, std_parameter: np.ndarray | None, rng: Rng) -> np.ndarray:
        mean, std = self._mean_and_std(outputs, std_parameter)
        low, high = (-1 - mean) / std, (1 - mean) / std
        uniform = draw(rng, "random", *mean.shape)
        quantile = special(low).ndtr(low) + uniform * _mass_between(low, high)
        quantile = quantile.clip(QUANTILE_MARGIN, 1 - QUANTILE_MARGIN)
        actions = mean + std * special(low).ndtri(quantile)
        # The quantile's margin and rounding can step over a bound that the mean is close to.
        return self.to_env(self.box.from_unit(actions.clip(-1, 1)))

    def _log_normaliser(self, mean: Array, std: Array) -> Array:
        xp = namespace(mean)
        return xp.log(std) + xp.log(_mass_between((-1 - mean) / std, (1 - mean) / std))


def _mass_between(low: Array, high: Array) -> Array:
    """max(Phi(high) - Phi(low), 1e-6) for low <= 0 <= high."""
    return normal_mass(low, high).clip(min=MIN_TRUNCATED_MASS)


def _normal_density(z: Array) -> Array:
    return namespace(z).exp(-0.5 * z**2 - LOG_SQRT_2PI)
