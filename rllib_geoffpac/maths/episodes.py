"""Transitions of whole episodes in one array after the other: boundaries, sums and recursions.

N transitions of n episodes, each complete and in its order. `x[t]` belongs to the transition out of
S_t; the last one of an episode ends it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


class Episodes:
    """Where the episodes begin and end.

    Args:
        lengths: [n] transitions of each episode, at least 1.

    Attributes:
        lengths: [n] the same.
        starts: [n] index of each episode's first transition.
        ends: [n] index of each episode's last transition.

    Example:
        >>> episodes = Episodes([2, 3])
        >>> episodes.sums(np.array([1.0, 2.0, 10.0, 20.0, 30.0])).tolist()
        [3.0, 60.0]
        >>> episodes.following(np.array([1.0, 2.0, 10.0, 20.0, 30.0])).tolist()
        [2.0, 0.0, 20.0, 30.0, 0.0]
    """

    def __init__(self, lengths: ArrayLike):
        self.lengths = np.asarray(lengths, np.int64)
        if self.lengths.ndim != 1 or len(self.lengths) == 0 or self.lengths.min() < 1:
            raise ValueError(
                "lengths must name at least one episode, each of at least one transition; got "
                f"{self.lengths.tolist()[:10]}."
            )
        self.ends = np.cumsum(self.lengths) - 1
        self.starts = self.ends - self.lengths + 1

    @property
    def num_episodes(self) -> int:
        """n."""
        return len(self.lengths)

    @property
    def num_transitions(self) -> int:
        """N."""
        return int(self.ends[-1]) + 1

    def steps(self) -> np.ndarray:
        """[N] how many transitions of its episode lie before each one."""
        return np.arange(self.num_transitions) - np.repeat(self.starts, self.lengths)

    def sums(self, x: np.ndarray) -> np.ndarray:
        """Sum over each episode: [N] -> [n]."""
        return np.add.reduceat(x, self.starts)

    def following(self, x: np.ndarray) -> np.ndarray:
        """x of the next transition in the same episode, 0 after the last: [N] -> [N]."""
        following = np.append(x[1:], 0.0)
        following[self.ends] = 0
        return following

    def backward(self, addend: np.ndarray, factor: np.ndarray) -> np.ndarray:
        """x_t = addend_t + factor_t x_{t+1}, with nothing after an episode's end: [N] -> [N]."""
        result = np.array(addend, np.float64)
        order = np.argsort(-self.lengths, kind="stable")
        ends, lengths = self.ends[order], self.lengths[order]
        for distance in range(1, int(lengths[0])):
            ends = ends[: np.searchsorted(-lengths, -distance)]
            here = ends - distance
            result[here] += factor[here] * result[here + 1]
        return result

    def forward(self, addend: np.ndarray, factor: np.ndarray) -> np.ndarray:
        """x_t = addend_t + factor_{t-1} x_{t-1}, with nothing before an episode: [N] -> [N]."""
        result = np.array(addend, np.float64)
        order = np.argsort(-self.lengths, kind="stable")
        starts, lengths = self.starts[order], self.lengths[order]
        for step in range(1, int(lengths[0])):
            starts = starts[: np.searchsorted(-lengths, -step)]
            here = starts + step
            result[here] += factor[here - 1] * result[here - 1]
        return result
