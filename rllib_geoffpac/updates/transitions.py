"""A batch of transitions by the paper's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rllib_geoffpac.maths.arrays import Array


class Transitions(NamedTuple):
    """N transitions of the behaviour policy's chain; any library's arrays.

    Attributes:
        observations: [N, ...] S_t.
        actions: [N, ...] A_t.
        rewards: [N] R_{t+1}.
        next_observations: [N, ...] S_{t+1}: where the lane really went on, but the final
            observation after a time limit with `truncation="bootstrap"`.
        behavior_logp: [N] log mu(A_t|S_t).
        discount: [N] gamma_{t+1}.
        valid: [N] 0 for a transition cut by `truncation="bootstrap"`, else 1.
    """

    observations: Array
    actions: Array
    rewards: Array
    next_observations: Array
    behavior_logp: Array
    discount: Array
    valid: Array

    @classmethod
    def of(cls, columns: Mapping[str, Array]) -> Transitions:
        """From the columns of a training batch or of the replay ring, by RLlib's names."""
        return cls(*(columns[name] for name in COLUMNS))


COLUMNS = ("obs", "actions", "rewards", "new_obs", "action_logp", "discount", "valid")
"""The columns in the order of `Transitions`."""
