"""One logged episode, and what is wrong with one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LOG_DENSITY_NAMES = (
    "action_logp",  # RLlib
    "action_log_probs",  # D4RL's infos
    "action_log_prob",
    "infos/action_log_probs",  # D4RL's files
    "behavior_logp",
    "log_probs",
    "log_prob",
    "logp",
)
"""Names under which data sets keep log mu(A_t|S_t), in the order in which they are looked for."""


class DataError(ValueError):
    """A data set that can't be learned from, in one sentence that says where and what to do."""


@dataclass
class LoggedEpisode:
    """One episode of a data set, as it was logged: T transitions."""

    number: int  # in the data set, from 0
    source: str  # the file, or the data set's name
    observations: np.ndarray  # [T + 1, ...]
    actions: np.ndarray  # [T, ...]
    rewards: np.ndarray  # [T] float64
    terminated: bool  # its last transition
    truncated: bool  # likewise, by a time limit
    logp: np.ndarray | None = None  # [T] float64, log mu(A_t|S_t); None: not logged
    discounts: np.ndarray | None = None  # [T] float64, NaN where there is none; None: nowhere

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def is_done(self) -> bool:
        """Whether it came to an end."""
        return self.terminated or self.truncated

    def error(self, what: str, step: int | None = None) -> DataError:
        """What is wrong, and where."""
        at = "" if step is None else f", step {step}"
        return DataError(f"{self.source}, episode {self.number}{at}: {what}")
