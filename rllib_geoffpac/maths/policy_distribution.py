"""What a target policy's distribution is: see `maths.distributions` for the equations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import gymnasium as gym
import numpy as np

from rllib_geoffpac.maths.action_spaces import NaturalBox, UnitBox
from rllib_geoffpac.maths.arrays import Array, as_type, constant

Rng = np.random.Generator | Sequence[np.random.Generator]


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


def draw(rng: Rng, method: str, rows: int, columns: int) -> np.ndarray:
    """Draws [rows, columns] float64 numbers; row i comes from generator i if there are several."""
    if isinstance(rng, np.random.Generator):
        return getattr(rng, method)((rows, columns))
    if len(rng) != rows:
        raise ValueError(f"{len(rng)} generators were given for {rows} rows; pass one per row.")
    return np.stack([getattr(generator, method)(columns) for generator in rng])
