"""Target-policy distributions pi(a|s): Gaussian, truncated Gaussian and categorical.

A network gives `outputs[N, num_outputs]` for N states. For a bounded Box the action box is scaled
affinely to [-1, 1]^d (the unit box); there, with y = outputs and p = `std_parameter[d]`, the
state-independent parameter of the standard deviation,

    gaussian            m = tanh(y), s = softplus(p)          log pi = sum_d log N(a; m, s)
    truncated_gaussian  m = tanh(y), s = softplus(p) + 1e-3   the same, divided by the mass Z that
                                                              N(m, s) has inside the box

For Discrete, outputs are logits. Densities and entropies are in the units of the environment
(they include -sum log((high - low) / 2)), because the density of the behaviour policy is:
1 / prod(high - low) for the uniform one.

The Gaussian's density is the paper's, not clipped to the box: it breaks coverage,
E_mu[rho] = P_pi(a in box) < 1. The truncated Gaussian has exactly the box as its support, so
E_mu[rho] = 1 and E_mu[rho grad log pi] = 0.

Densities and entropies work on arrays of any library (`maths.arrays`), sampling is numpy's.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import gymnasium as gym
import numpy as np

from rllib_geoffpac.maths.arrays import (
    Array,
    as_type,
    at_index,
    constant,
    log_softmax,
    namespace,
    normal_mass,
    softplus,
    special,
)

Rng = np.random.Generator | Sequence[np.random.Generator]

KINDS = ("gaussian", "truncated_gaussian")
MIN_TRUNCATED_STD = 1e-3
MIN_TRUNCATED_MASS = 1e-6
# Samples stay this far from probability 0 and 1, where the inverse of Phi is infinite.
QUANTILE_MARGIN = 1e-7

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
SQRT_2PI_E = math.sqrt(2 * math.pi * math.e)


class PolicyDistribution(ABC):
    """The distribution of actions that a network's outputs stand for.

    Attributes:
        action_space: The environment's action space.
        num_outputs: Size of the network's output for this distribution.
        has_global_std: True if the policy owns a state-independent `std_parameter[d]`
            (initially 0: a std of about softplus(0) = 0.69 in the unit box).
    """

    action_space: gym.Space
    num_outputs: int
    has_global_std: bool

    @abstractmethod
    def log_prob(self, outputs: Array, std_parameter: Array | None, actions: Array) -> Array:
        """Returns log pi(a|s)[N], in the env's units, of `actions[N, ...]`."""

    @abstractmethod
    def entropy(self, outputs: Array, std_parameter: Array | None) -> Array:
        """Returns the entropy[N] in the env's units."""

    def std(self, std_parameter: Array | None) -> Array | None:
        """Returns the standard deviation[d] in the unit box, None where there is no global one."""
        return None

    @abstractmethod
    def sample(self, outputs: np.ndarray, std_parameter: np.ndarray | None, rng: Rng) -> np.ndarray:
        """Returns one action[N, ...] per row, with one generator for all rows or one for each.

        A Gaussian's samples can lie outside of the box: pass them through `to_env` for `env.step`.
        """

    @abstractmethod
    def mode(self, outputs: np.ndarray, std_parameter: np.ndarray | None = None) -> np.ndarray:
        """Returns the most likely action[N, ...] per row: mean or argmax."""

    @abstractmethod
    def to_env(self, actions: np.ndarray) -> np.ndarray:
        """Returns `actions[N, ...]` as the env takes them: in the space, its shape and dtype."""


class Categorical(PolicyDistribution):
    """Softmax over the actions of a Discrete space; outputs are logits."""

    has_global_std = False

    def __init__(self, action_space: gym.spaces.Discrete):
        self.action_space = action_space
        self.num_outputs = int(action_space.n)
        self.start = int(action_space.start)

    def log_prob(self, outputs: Array, std_parameter: Array | None, actions: Array) -> Array:
        return at_index(log_softmax(outputs), actions.reshape(-1) - self.start)

    def entropy(self, outputs: Array, std_parameter: Array | None) -> Array:
        log_probs = log_softmax(outputs)
        return -(namespace(outputs).exp(log_probs) * log_probs).sum(-1)

    def sample(self, outputs: np.ndarray, std_parameter: np.ndarray | None, rng: Rng) -> np.ndarray:
        logits = np.asarray(outputs, dtype=np.float64)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        cumulative = np.cumsum(weights, axis=-1)
        threshold = _draw(rng, "random", len(logits), 1) * cumulative[:, -1:]
        return self.to_env((cumulative <= threshold).sum(axis=-1) + self.start)

    def mode(self, outputs: np.ndarray, std_parameter: np.ndarray | None = None) -> np.ndarray:
        return self.to_env(np.argmax(outputs, axis=-1) + self.start)

    def to_env(self, actions: np.ndarray) -> np.ndarray:
        return np.asarray(actions).astype(self.action_space.dtype)


class DiagonalGaussian(PolicyDistribution):
    """The paper's policy for a Box: mean from the network, global std, not clipped to the box."""

    action_space: gym.spaces.Box
    has_global_std = True

    def __init__(self, action_space: gym.spaces.Box):
        self.action_space = action_space
        self.num_outputs = int(np.prod(action_space.shape))
        low = action_space.low.astype(np.float64).reshape(-1)
        high = action_space.high.astype(np.float64).reshape(-1)
        self.center = (high + low) / 2
        self.half_width = (high - low) / 2
        self.log_volume_scale = float(np.log(self.half_width).sum())

    def log_prob(self, outputs: Array, std_parameter: Array | None, actions: Array) -> Array:
        mean, std = namespace(outputs).tanh(outputs), self.std(std_parameter)
        z = (self._to_unit(actions, outputs) - mean) / std
        log_density = -0.5 * z**2 - LOG_SQRT_2PI - self._log_normaliser(mean, std)
        return log_density.sum(-1) - self.log_volume_scale

    def entropy(self, outputs: Array, std_parameter: Array | None) -> Array:
        std = self.std(std_parameter)
        entropy = namespace(std).log(std * SQRT_2PI_E).sum(-1) + self.log_volume_scale
        return entropy + 0 * outputs[:, 0]

    def std(self, std_parameter: Array | None) -> Array:
        return softplus(std_parameter)

    def sample(self, outputs: np.ndarray, std_parameter: np.ndarray | None, rng: Rng) -> np.ndarray:
        mean, std = self._mean_and_std(outputs, std_parameter)
        return self._from_unit(mean + std * _draw(rng, "standard_normal", *mean.shape))

    def mode(self, outputs: np.ndarray, std_parameter: np.ndarray | None = None) -> np.ndarray:
        return self._from_unit(np.tanh(np.asarray(outputs, dtype=np.float64)))

    def to_env(self, actions: np.ndarray) -> np.ndarray:
        space = self.action_space
        actions = np.asarray(actions).reshape(-1, *space.shape)
        return np.clip(actions, space.low, space.high).astype(space.dtype)

    def _log_normaliser(self, mean: Array, std: Array) -> Array:
        """What the log density loses per dimension, apart from the constant: log s."""
        return namespace(std).log(std)

    def _to_unit(self, actions: Array, like: Array) -> Array:
        """`actions[N, *shape]` in the env's units to [N, d] in the unit box."""
        center, half_width = constant(self.center, like), constant(self.half_width, like)
        return (as_type(actions.reshape(-1, self.num_outputs), like) - center) / half_width

    def _from_unit(self, actions: np.ndarray) -> np.ndarray:
        """`actions[N, d]` in the unit box to [N, *shape] in the env's units."""
        actions = self.center + self.half_width * actions
        return actions.reshape(-1, *self.action_space.shape).astype(self.action_space.dtype)

    def _mean_and_std(
        self, outputs: np.ndarray, std_parameter: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        std = self.std(np.asarray(std_parameter, dtype=np.float64))
        return np.tanh(np.asarray(outputs, dtype=np.float64)), std


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
        return (xp.log(std * mass * SQRT_2PI_E) + edge).sum(-1) + self.log_volume_scale

    def std(self, std_parameter: Array | None) -> Array:
        return softplus(std_parameter) + MIN_TRUNCATED_STD

    def sample(self, outputs: np.ndarray, std_parameter: np.ndarray | None, rng: Rng) -> np.ndarray:
        mean, std = self._mean_and_std(outputs, std_parameter)
        low, high = (-1 - mean) / std, (1 - mean) / std
        uniform = _draw(rng, "random", *mean.shape)
        quantile = special(low).ndtr(low) + uniform * _mass_between(low, high)
        quantile = quantile.clip(QUANTILE_MARGIN, 1 - QUANTILE_MARGIN)
        actions = mean + std * special(low).ndtri(quantile)
        # The quantile's margin and rounding can step over a bound that the mean is close to.
        return self.to_env(self._from_unit(actions.clip(-1, 1)))

    def _log_normaliser(self, mean: Array, std: Array) -> Array:
        xp = namespace(mean)
        return xp.log(std) + xp.log(_mass_between((-1 - mean) / std, (1 - mean) / std))


def make_distribution(action_space: gym.Space, kind: str) -> PolicyDistribution:
    """Returns the target policy's distribution for an action space.

    Args:
        action_space: A bounded Box of floats (any shape and bounds) or a Discrete.
        kind: "gaussian" or "truncated_gaussian"; a Discrete is categorical for either.

    Raises:
        ValueError: For another kind or an action space that the algorithms don't cover.
    """
    if kind not in KINDS:
        raise ValueError(
            f"policy_distribution={kind!r} is not known. Allowed are 'gaussian' (the paper's) and "
            "'truncated_gaussian' (renormalised to the action box): choose one of them."
        )
    if isinstance(action_space, gym.spaces.Discrete):
        return Categorical(action_space)
    allowed = "Allowed are a Discrete space and a Box of floats with finite bounds, low < high"
    if not isinstance(action_space, gym.spaces.Box):
        raise ValueError(
            f"The action space {action_space} is not supported. {allowed}: wrap the environment so "
            "that its actions are one of these (for example by flattening them into one Box)."
        )
    if not np.issubdtype(action_space.dtype, np.floating):
        raise ValueError(
            f"The action space {action_space} has whole-number actions. {allowed}: give the Box a "
            "floating-point dtype or use a Discrete space."
        )
    if not (action_space.is_bounded() and np.all(action_space.low < action_space.high)):
        raise ValueError(
            f"The action space {action_space} has no finite volume, so there is no uniform "
            f"behaviour policy on it. {allowed}: give it bounds, for example with "
            "gymnasium.wrappers.RescaleAction or TransformAction."
        )
    return TruncatedGaussian(action_space) if kind == KINDS[1] else DiagonalGaussian(action_space)


def _mass_between(low: Array, high: Array) -> Array:
    """max(Phi(high) - Phi(low), 1e-6) for low <= 0 <= high."""
    return normal_mass(low, high).clip(min=MIN_TRUNCATED_MASS)


def _normal_density(z: Array) -> Array:
    return namespace(z).exp(-0.5 * z**2 - LOG_SQRT_2PI)


def _draw(rng: Rng, method: str, rows: int, columns: int) -> np.ndarray:
    """Draws [rows, columns] float64 numbers; row i comes from generator i if there are several."""
    if isinstance(rng, np.random.Generator):
        return getattr(rng, method)((rows, columns))
    if len(rng) != rows:
        raise ValueError(f"{len(rng)} generators were given for {rows} rows; pass one per row.")
    return np.stack([getattr(generator, method)(columns) for generator in rng])
