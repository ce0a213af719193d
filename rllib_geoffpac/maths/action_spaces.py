"""The action spaces on which mu and pi have densities, and boxes scaled to [-1, 1]^d."""

from __future__ import annotations

import gymnasium as gym
import numpy as np


def check_action_space(
    space: gym.Space, bounded: bool = True
) -> gym.spaces.Box | gym.spaces.Discrete:
    """Returns a Discrete space or a Box of floats; one with finite bounds, unless told otherwise.

    Raises:
        ValueError: For any other, with what is allowed and what to do.
    """
    if isinstance(space, gym.spaces.Discrete):
        return space
    if isinstance(space, gym.spaces.Box):
        return check_box(space, bounded)
    raise ValueError(
        f"The action space {space} is not supported: allowed are Discrete and a bounded Box of "
        "floats of any shape. Wrap the environment so that Dict, Tuple, MultiDiscrete or "
        "MultiBinary actions become one Discrete or one Box."
    )


def check_box(space: gym.spaces.Box, bounded: bool = True) -> gym.spaces.Box:
    """Returns a Box that has a uniform density: floats, finite bounds (if `bounded`), low < high.

    Raises:
        ValueError: For any other, with what to do.
    """
    if not np.issubdtype(space.dtype, np.floating):
        raise ValueError(
            f"The action space {space} is not supported: allowed are a Box of floats and Discrete. "
            "It has whole-number actions: give it a floating-point dtype, or use a Discrete space."
        )
    if bounded and not space.is_bounded("both"):
        # RescaleAction maps infinite bounds to NaN, and ClipAction makes bounds infinite.
        raise ValueError(
            f"The action space {space} is unbounded: a uniform behaviour policy needs finite "
            "bounds. Use a `behavior` of your own that has a density there (with "
            "policy_distribution='gaussian'; not for DDPG and TD3), or give the environment's "
            "action_space finite `low` and `high`, for example with "
            "gymnasium.wrappers.TransformAction(env, lambda action: action, "
            f"gymnasium.spaces.Box(-1, 1, {space.shape}))."
        )
    if not np.all(space.low < space.high):
        raise ValueError(
            f"The action space {space} has no volume, so mu and pi have no density on it: `low` "
            "must be below `high` in every dimension. Leave out the actions that can't vary."
        )
    return space


class NaturalBox:
    """A Box with bounds that are not finite, in the environment's own units.

    It has what `UnitBox` has: center 0, half width 1.

    Args:
        space: A Box of floats, of any shape and bounds.
    """

    def __init__(self, space: gym.spaces.Box):
        self.space = check_box(space, bounded=False)
        self.size = int(np.prod(space.shape))
        self.center, self.half_width = np.zeros(self.size), np.ones(self.size)
        self.log_volume_scale = 0.0

    def from_unit(self, actions: np.ndarray) -> np.ndarray:
        """`actions[..., d]` to [..., *shape], of the space's dtype."""
        actions = np.asarray(actions)
        return actions.reshape(*actions.shape[:-1], *self.space.shape).astype(self.space.dtype)

    def clip(self, actions: np.ndarray) -> np.ndarray:
        """`actions[..., *shape]` as `env.step` takes them: within the bounds that are finite."""
        return np.clip(actions, self.space.low, self.space.high).astype(self.space.dtype)


class UnitBox:
    """An action box scaled affinely to the unit box [-1, 1]^d.

    Args:
        space: A bounded Box of floats, of any shape and bounds.

    Attributes:
        space: The same.
        size: d.
        center: [d] float64.
        half_width: [d] float64.
        log_volume_scale: sum log(half_width): log-densities in the environment's units are those
            in the unit box minus this.

    Example:
        >>> box = UnitBox(gym.spaces.Box(np.float32([0, -2]), np.float32([4, 2])))
        >>> box.from_unit(np.array([[-1.0, 0.5]])).tolist()
        [[0.0, 1.0]]
        >>> box.to_unit(np.array([[3.0, 0.0]])).tolist()
        [[0.5, 0.0]]
    """

    def __init__(self, space: gym.spaces.Box):
        self.space = check_box(space)
        self.size = int(np.prod(space.shape))
        low = space.low.astype(np.float64).reshape(-1)
        high = space.high.astype(np.float64).reshape(-1)
        self.center, self.half_width = (high + low) / 2, (high - low) / 2
        self.log_volume_scale = float(np.log(self.half_width).sum())

    def to_unit(self, actions: np.ndarray) -> np.ndarray:
        """`actions[..., *shape]` in the environment's units to [..., d] in the unit box."""
        leading = actions.shape[: actions.ndim - len(self.space.shape)]
        return (actions.reshape(*leading, self.size) - self.center) / self.half_width

    def from_unit(self, actions: np.ndarray) -> np.ndarray:
        """`actions[..., d]` in the unit box to [..., *shape], of the space's dtype."""
        scaled = self.center + self.half_width * np.asarray(actions, np.float64)
        return scaled.reshape(*scaled.shape[:-1], *self.space.shape).astype(self.space.dtype)

    def clip(self, actions: np.ndarray) -> np.ndarray:
        """`actions[..., *shape]` as `env.step` takes them: in the box, of its dtype."""
        return np.clip(actions, self.space.low, self.space.high).astype(self.space.dtype)
