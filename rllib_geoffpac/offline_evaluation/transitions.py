"""Logged episodes as the estimators take them: whole episodes, one array after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rllib_geoffpac.maths.episodes import Episodes


@dataclass(frozen=True)
class Transitions:
    """N transitions of n whole episodes.

    An episode that never ended is left out: what would have come is unknown. One that met its time
    limit did end, as it does in the simulator, whose J_pi counts returns to the episode's end.
    """

    episodes: Episodes
    observations: np.ndarray  # [N, ...] S_t
    actions: np.ndarray  # [N, ...] A_t, in the environment's units
    rewards: np.ndarray  # [N] R_{t+1}
    discounts: np.ndarray  # [N] gamma_{t+1}, 0 where an episode ends
    behavior_logp: np.ndarray | None  # [N] log mu(A_t|S_t); None: not logged
    truncated: np.ndarray  # [n] whether a time limit ended the episode
    left_out: int  # episodes without an end

    @classmethod
    def of(cls, logged: Iterable[Any], gamma: float) -> Transitions:
        """Takes the episodes of a data set over.

        Args:
            logged: Episodes as `rllib_geoffpac.data` yields them: `observations` [T + 1, ...],
                `actions`, `rewards` [T], `terminated`, `truncated`, `logp` and `discounts`
                ([T] or None).
            gamma: The discount where the data have none of their own.

        Raises:
            ValueError: If no episode ended.
        """
        kept, left_out = [], 0
        for episode in logged:
            if (episode.terminated or episode.truncated) and len(episode.actions):
                kept.append(episode)
            else:
                left_out += 1
        if not kept:
            raise ValueError(
                f"None of the data's {left_out} episodes has an end: without one, no return is "
                "known. Record whole episodes, or give the environment a time limit."
            )
        episodes = Episodes([len(episode.actions) for episode in kept])
        discounts = np.concatenate([_discounts(episode, gamma) for episode in kept])
        discounts[episodes.ends] = 0
        logged_densities = all(episode.logp is not None for episode in kept)
        return cls(
            episodes,
            np.concatenate([np.asarray(episode.observations)[:-1] for episode in kept]),
            np.concatenate([np.asarray(episode.actions) for episode in kept]),
            np.concatenate([np.asarray(episode.rewards, np.float64) for episode in kept]),
            discounts,
            np.concatenate([episode.logp for episode in kept]) if logged_densities else None,
            np.array([not episode.terminated for episode in kept]),
            left_out,
        )

    def clock(self) -> np.ndarray | None:
        """[N] the step in its episode as a fraction of the longest; None without time limits.

        A time limit makes the time a part of the state: what is still to come depends on it.
        """
        if not self.truncated.any():
            return None
        return self.episodes.steps() / self.episodes.lengths.max()


def _discounts(episode: Any, gamma: float) -> np.ndarray:
    constant = np.full(len(episode.actions), gamma)
    own = episode.discounts
    return constant if own is None else np.where(np.isnan(own), constant, own)
