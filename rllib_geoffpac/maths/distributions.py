"""Target-policy distributions pi(a|s): Gaussian, truncated Gaussian, Beta and categorical.

A network gives `outputs[N, num_outputs]` for N states. For a bounded Box the action box is scaled
affinely to [-1, 1]^d (the unit box); there, with y = outputs and p = `std_parameter[d]`, the
state-independent parameter of the standard deviation,

    gaussian            m = tanh(y), s = softplus(p)          log pi = sum_d log N(a; m, s)
    truncated_gaussian  m = tanh(y), s = softplus(p) + 1e-3   the same, divided by the mass Z that
                                                              N(m, s) has inside the box
    beta                alpha, beta = 1 + softplus(y)         log pi = sum_d log Beta((a + 1) / 2)
                        (2 d outputs, alpha's first)                   - log 2

For Discrete, outputs are logits. Densities and entropies are in the units of the environment
(they include -sum log((high - low) / 2)), because the density of the behaviour policy is:
1 / prod(high - low) for the uniform one.

The Gaussian's density is the paper's, not clipped to the box: it breaks coverage,
E_mu[rho] = P_pi(a in box) < 1. The truncated Gaussian and the Beta have exactly the box as their
support, so E_mu[rho] = 1 and E_mu[rho grad log pi] = 0.

Densities, entropies and differentiable actions work on arrays of any library (`maths.arrays`),
sampling is numpy's.

Action values Q(s, a) see an action as a vector `[N, action_size]`: a Box's in the unit box, a
Discrete's one-hot. Then E_{a ~ pi}[Q(s, a)] is, for both, Q at `differentiable_action`: a Box's
sample, through which gradients flow, and for Discrete, where Q is linear in the one-hot vector, the
probabilities, which make it the exact sum.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import gymnasium as gym
import numpy as np

from rllib_geoffpac.maths.action_spaces import NaturalBox, UnitBox, check_action_space
from rllib_geoffpac.maths.arrays import (
    Array,
    as_type,
    at_index,
    constant,
    log_softmax,
    namespace,
    normal_mass,
    one_hot,
    softplus,
    special,
)
from rllib_geoffpac.maths.beta import (
    beta_entropy,
    beta_log_density,
    beta_mode,
    beta_sample,
    concentrations,
)
from rllib_geoffpac.maths.truncated_gaussian import truncated_gaussian_sample

Rng = np.random.Generator | Sequence[np.random.Generator]

KINDS = ("gaussian", "truncated_gaussian", "beta")
MIN_TRUNCATED_STD = 1e-3
MIN_TRUNCATED_MASS = 1e-6
# Samples stay this far from probability 0 and 1, where the inverse of Phi is infinite.
QUANTILE_MARGIN = 1e-7

LOG_2 = math.log(2)
LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
SQRT_2PI_E = math.sqrt(2 * math.pi * math.e)


class PolicyDistribution(ABC):
    """The distribution of actions that a network's outputs stand for.

    Attributes:
        action_space: The environment's action space.
        num_outputs: Size of the network's output for this distribution.
        action_size: Size of an action as the vector that action values see.
        noise_size: How many random numbers `differentiable_action` needs for an action.
        has_global_std: True if the policy owns a state-independent `std_parameter[d]`
            (initially 0: a std of about softplus(0) = 0.69 in the unit box).
    """

    action_space: gym.Space
    num_outputs: int
    action_size: int
    noise_size: int
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
    def encode(self, actions: Array, like: Array) -> Array:
        """Returns `actions[N, ...]` in the env's units as vectors[N, action_size].

        `like` gives library, dtype and device.
        """

    @abstractmethod
    def differentiable_action(
        self, outputs: Array, std_parameter: Array | None, noise: Array | None
    ) -> Array:
        """Returns a'[N, action_size], differentiable in outputs and std: see the module's head.

        Args:
            outputs: [N, num_outputs].
            std_parameter: [d] or None.
            noise: [N, noise_size] uniform numbers in [0, 1]; None where there are none.
        """

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
    noise_size = 0

    def __init__(self, action_space: gym.spaces.Discrete):
        self.action_space = action_space
        self.num_outputs = self.action_size = int(action_space.n)
        self.start = int(action_space.start)

    def log_prob(self, outputs: Array, std_parameter: Array | None, actions: Array) -> Array:
        return at_index(log_softmax(outputs), actions.reshape(-1) - self.start)

    def entropy(self, outputs: Array, std_parameter: Array | None) -> Array:
        log_probs = log_softmax(outputs)
        return -(namespace(outputs).exp(log_probs) * log_probs).sum(-1)

    def encode(self, actions: Array, like: Array) -> Array:
        return one_hot(actions.reshape(-1) - self.start, self.action_size, like)

    def differentiable_action(
        self, outputs: Array, std_parameter: Array | None, noise: Array | None
    ) -> Array:
        return namespace(outputs).exp(log_softmax(outputs))

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


class BoxDistribution(PolicyDistribution):
    """A distribution on a Box, computed in the unit box [-1, 1]^d.

    Args:
        action_space: A bounded Box of floats, of any shape and bounds.
    """

    action_space: gym.spaces.Box
    box: UnitBox | NaturalBox

    def __init__(self, action_space: gym.spaces.Box):
        self.action_space, self.box = action_space, UnitBox(action_space)
        self.num_outputs = self.action_size = self.noise_size = self.box.size

    def encode(self, actions: Array, like: Array) -> Array:
        center, half_width = constant(self.box.center, like), constant(self.box.half_width, like)
        return (as_type(actions.reshape(-1, self.box.size), like) - center) / half_width

    def to_env(self, actions: np.ndarray) -> np.ndarray:
        return self.box.clip(np.asarray(actions).reshape(-1, *self.action_space.shape))


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
        return self.box.from_unit(mean + std * _draw(rng, "standard_normal", *mean.shape))

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
        uniform = _draw(rng, "random", *mean.shape)
        quantile = special(low).ndtr(low) + uniform * _mass_between(low, high)
        quantile = quantile.clip(QUANTILE_MARGIN, 1 - QUANTILE_MARGIN)
        actions = mean + std * special(low).ndtri(quantile)
        # The quantile's margin and rounding can step over a bound that the mean is close to.
        return self.to_env(self.box.from_unit(actions.clip(-1, 1)))

    def _log_normaliser(self, mean: Array, std: Array) -> Array:
        xp = namespace(mean)
        return xp.log(std) + xp.log(_mass_between((-1 - mean) / std, (1 - mean) / std))


class Beta(BoxDistribution):
    """The Beta distribution stretched to the box, one peak per dimension, state-dependent width.

    Per dimension, with x = (a + 1) / 2 in (0, 1): alpha, beta = 1 + softplus(y), at most 1e4, so
    that the density is bounded; log pi = log Beta(x; alpha, beta) - log 2. The outputs [N, 2 d] are
    alpha's, then beta's; 0 is a wide hill in the middle of the box.
    """

    has_global_std = False

    def __init__(self, action_space: gym.spaces.Box):
        super().__init__(action_space)
        self.num_outputs = 2 * self.box.size

    def log_prob(self, outputs: Array, std_parameter: Array | None, actions: Array) -> Array:
        x = (self.encode(actions, outputs) + 1) / 2
        log_density = beta_log_density(x, *self._shapes(outputs)) - LOG_2
        return log_density.sum(-1) - self.box.log_volume_scale

    def entropy(self, outputs: Array, std_parameter: Array | None) -> Array:
        per_dimension = beta_entropy(*self._shapes(outputs)) + LOG_2
        return per_dimension.sum(-1) + self.box.log_volume_scale

    def differentiable_action(
        self, outputs: Array, std_parameter: Array | None, noise: Array
    ) -> Array:
        return 2 * beta_sample(noise, *self._shapes(outputs)) - 1

    def sample(self, outputs: np.ndarray, std_parameter: np.ndarray | None, rng: Rng) -> np.ndarray:
        alpha, beta = self._shapes(np.asarray(outputs, dtype=np.float64))
        x = beta_sample(_draw(rng, "random", *alpha.shape), alpha, beta)
        return self.to_env(self.box.from_unit(2 * x - 1))

    def mode(self, outputs: np.ndarray, std_parameter: np.ndarray | None = None) -> np.ndarray:
        x = beta_mode(*self._shapes(np.asarray(outputs, dtype=np.float64)))
        return self.to_env(self.box.from_unit(2 * x - 1))

    def _shapes(self, outputs: Array) -> tuple[Array, Array]:
        """alpha and beta: [N, 2 d] -> [N, d] each."""
        both = concentrations(outputs)
        return both[..., : self.box.size], both[..., self.box.size :]


def make_distribution(action_space: gym.Space, kind: str) -> PolicyDistribution:
    """Returns the target policy's distribution for an action space.

    Args:
        action_space: A bounded Box of floats (any shape and bounds) or a Discrete.
        kind: "gaussian", "truncated_gaussian" or "beta"; a Discrete is categorical for each.

    Raises:
        ValueError: For another kind or an action space that the algorithms don't cover.
    """
    if kind not in KINDS:
        raise ValueError(
            f"policy_distribution={kind!r} is not known. Allowed are 'gaussian' (the paper's), "
            "'truncated_gaussian' (renormalised to the action box) and 'beta' (on the box, with a "
            "width of its own in every state): choose one of them."
        )
    space = check_action_space(action_space, bounded=kind != "gaussian")
    if isinstance(space, gym.spaces.Discrete):
        return Categorical(space)
    if not space.is_bounded("both"):
        return UnboundedGaussian(space)
    kinds = {"gaussian": DiagonalGaussian, "truncated_gaussian": TruncatedGaussian, "beta": Beta}
    return kinds[kind](space)


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
