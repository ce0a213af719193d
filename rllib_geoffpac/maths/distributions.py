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

import gymnasium as gym
import numpy as np

from rllib_geoffpac.maths.action_spaces import check_action_space
from rllib_geoffpac.maths.arrays import Array, at_index, log_softmax, namespace, one_hot
from rllib_geoffpac.maths.beta import (
    beta_entropy,
    beta_log_density,
    beta_mode,
    beta_sample,
    concentrations,
)
from rllib_geoffpac.maths.gaussians import DiagonalGaussian, TruncatedGaussian, UnboundedGaussian
from rllib_geoffpac.maths.policy_distribution import BoxDistribution, PolicyDistribution, Rng, draw

KINDS = ("gaussian", "truncated_gaussian", "beta")

LOG_2 = math.log(2)


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
        threshold = draw(rng, "random", len(logits), 1) * cumulative[:, -1:]
        return self.to_env((cumulative <= threshold).sum(axis=-1) + self.start)

    def mode(self, outputs: np.ndarray, std_parameter: np.ndarray | None = None) -> np.ndarray:
        return self.to_env(np.argmax(outputs, axis=-1) + self.start)

    def to_env(self, actions: np.ndarray) -> np.ndarray:
        return np.asarray(actions).astype(self.action_space.dtype)


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
        x = beta_sample(draw(rng, "random", *alpha.shape), alpha, beta)
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
