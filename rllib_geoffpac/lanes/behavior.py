"""Behaviour policies mu: fixed, so that the data never depend on the learned weights."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np

from rllib_geoffpac.maths.action_spaces import check_action_space
from rllib_geoffpac.validation import import_by_name


@runtime_checkable
class BehaviorPolicy(Protocol):
    """A fixed behaviour policy. It must not keep state between calls."""

    def sample(self, observation: Any, rng: np.random.Generator) -> tuple[Any, float]:
        """Returns an action and log mu(action|observation)."""
        ...


class UniformBehavior:
    """Uniform over a bounded Box (density 1 / prod(high - low)) or a Discrete space (1 / n)."""

    def __init__(self, action_space: gym.Space):
        space = self.action_space = check_action_space(action_space)
        if isinstance(space, gym.spaces.Discrete):
            self.log_density = -float(np.log(space.n))
        else:
            low, high = space.low.astype(np.float64), space.high.astype(np.float64)
            self._low, self._width = low, high - low
            self.log_density = -float(np.log(self._width).sum())

    def sample(self, observation: Any, rng: np.random.Generator) -> tuple[Any, float]:
        """Returns one action and its log-density."""
        return self.sample_block(rng, 1)[0], self.log_density

    def logp(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Returns the log-densities [N] of actions [N, ...]."""
        return np.full(len(actions), self.log_density)

    def sample_block(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Returns `count` actions at once: [count, *action shape]."""
        space = self.action_space
        if isinstance(space, gym.spaces.Discrete):
            return space.start + rng.integers(space.n, size=count)
        unit = rng.random((count, *space.shape))
        return (self._low + unit * self._width).astype(space.dtype)


class TabularBehavior:
    """mu(a|s) from a table [S, A] over Discrete observations and actions."""

    def __init__(self, table: np.ndarray):
        self.table = np.asarray(table, np.float64)
        self._cumulative = np.cumsum(self.table, axis=1)
        with np.errstate(divide="ignore"):
            self._log = np.log(self.table)

    def sample(self, observation: Any, rng: np.random.Generator) -> tuple[int, float]:
        """Returns an action and its log-probability."""
        cumulative = self._cumulative[observation]
        action = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
        return action, float(self._log[observation, action])

    def logp(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Returns the log-probabilities [N] of actions [N] in states [N]."""
        return self._log[observations, actions]


def make_behavior(behavior: Any, env: gym.Env) -> BehaviorPolicy:
    """Builds the behaviour policy of one environment.

    Args:
        behavior: "uniform"; 'package.module:name' or an object of its own: either something with
            `sample(observation, rng)`, or a factory called with (observation_space, action_space).
            With "uniform", an environment that brings its own `behavior_table` [S, A]
            (a `FiniteMDP`) is followed.
        env: The environment; its action space must be a Box or Discrete, and bounded for "uniform".
    """
    check_action_space(env.action_space, bounded=False)
    if isinstance(behavior, str) and behavior == "uniform":
        table = getattr(env.unwrapped, "behavior_table", None)
        return UniformBehavior(env.action_space) if table is None else TabularBehavior(table)
    if isinstance(behavior, str):
        behavior = import_by_name(behavior, "behavior")
    if isinstance(behavior, type) or not hasattr(behavior, "sample"):
        behavior = behavior(env.observation_space, env.action_space)
    if not isinstance(behavior, BehaviorPolicy):
        raise ValueError(
            f"`behavior` is {behavior!r}, which has no method `sample(observation, rng) -> action, "
            "log_density`. Use 'uniform' or give a policy that has one."
        )
    return behavior
