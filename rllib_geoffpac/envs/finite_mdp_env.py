"""A finite MDP as a gymnasium environment that reports the discount of every transition."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from rllib_geoffpac.maths.finite_mdp import FiniteMDP
from rllib_geoffpac.maths.tables import TOLERANCE


class FiniteMDPEnv(gym.Env):
    """Discrete states and actions; `info["discount"]` is gamma(s, a, s') of each step.

    The stream is a pure function of `reset(seed=...)` and the actions. `behavior_table` [S, A]
    holds the probabilities of the MDP's own behaviour policy.

    With `episodic=False` it never terminates nor truncates: the end of an episode is an ordinary
    transition with discount 0. With `episodic=True` such a transition returns `terminated=True`,
    and the next `reset` draws the state in which the chain goes on. A reset does not know where the
    episode ended, so all transitions of discount 0 must then lead to the same distribution over
    states.

    Args:
        mdp: the MDP.
        episodic: end the episode on transitions with discount 0.
    """

    metadata = {"render_modes": []}

    def __init__(self, mdp: FiniteMDP, episodic: bool = False):
        self.mdp = mdp
        self.episodic = episodic
        self.observation_space = gym.spaces.Discrete(mdp.num_states)
        self.action_space = gym.spaces.Discrete(mdp.num_actions)
        self.behavior_table = mdp.behavior.copy()
        if episodic:
            start = _teleport_distribution(mdp)
        else:
            start = mdp.behavior_distribution() if mdp.start is None else mdp.start
        self._start = _cumulative(start)
        self._successors = _cumulative(mdp.transitions)
        self._state: int | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Draw a start state."""
        super().reset(seed=seed, options=options)
        self._state = self._draw(self._start)
        return self._state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take a transition; the info holds its discount."""
        if self._state is None:
            raise RuntimeError(
                "step() was called with no episode under way. Call reset() first, also after a "
                "terminated step."
            )
        state, action = self._state, int(action)
        following = self._draw(self._successors[state, action])
        discount = float(self.mdp.discounts[state, action, following])
        terminated = self.episodic and discount == 0
        self._state = None if terminated else following
        reward = float(self.mdp.rewards[state, action, following])
        return following, reward, terminated, False, {"discount": discount}

    def _draw(self, cumulative: np.ndarray) -> int:
        return int(np.searchsorted(cumulative, self.np_random.random(), side="right"))


def make_two_circle() -> FiniteMDPEnv:
    """Return the two-circle MDP of the paper as a continuing environment (`TwoCircle-v0`)."""
    return FiniteMDP.two_circle().as_env()


def _cumulative(probabilities: np.ndarray) -> np.ndarray:
    cumulative = probabilities.cumsum(axis=-1)
    # Rounding leaves the last sums beside 1. Divided by it, a draw below 1 always finds a state,
    # and never one of probability 0.
    return cumulative / cumulative[..., -1:]


def _teleport_distribution(mdp: FiniteMDP) -> np.ndarray:
    """Return the one distribution [S] to which all transitions of discount 0 lead."""
    ending = np.where(mdp.discounts == 0, mdp.transitions, 0).reshape(-1, mdp.num_states)
    ending = ending[ending.sum(axis=1) > 0]
    if len(ending) == 0:
        raise ValueError(
            "episodic=True needs transitions of discount 0 to end an episode, but this MDP has "
            "none. Use as_env() for a continuing task."
        )
    ending = ending / ending.sum(axis=1, keepdims=True)
    start = ending[0]
    if not np.allclose(ending, start, rtol=0, atol=TOLERANCE):
        raise ValueError(
            "episodic=True needs all transitions of discount 0 to lead to the same distribution "
            "over start states, but in this MDP it depends on the state or action before. Use "
            "as_env() and the discount in info instead."
        )
    if mdp.start is not None and not np.allclose(mdp.start, start, rtol=0, atol=TOLERANCE):
        raise ValueError(
            f"start is {mdp.start.tolist()}, but the transitions of discount 0 lead to "
            f"{start.tolist()}: with episodic=True both must be the same. Leave start out."
        )
    return start
