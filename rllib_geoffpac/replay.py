"""Replay of whole locksteps: one packed ring, allocated as it fills."""

from __future__ import annotations

import numpy as np

_FIRST_ALLOCATION = 1024


class ReplayRing:
    """Keeps the latest locksteps as rows of one structured array.

    A row holds one transition of every lane. Everything of a row lies together in memory, so
    drawing a row is one copy of a few kilobytes.

    Args:
        capacity: Rows (locksteps) kept at most; the oldest is overwritten.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.size = 0
        self._next = 0
        self._rows: np.ndarray | None = None

    def add(self, columns: dict[str, np.ndarray]) -> None:
        """Appends rows; every column is [rows, lanes, ...]."""
        count = len(next(iter(columns.values())))
        if self._rows is None:
            fields = [(name, c.dtype, c.shape[1:]) for name, c in columns.items()]
            self._rows = np.empty(min(self.capacity, _FIRST_ALLOCATION), np.dtype(fields))
        needed = min(self.capacity, self.size + count)
        if needed > len(self._rows):
            grown = np.empty(min(self.capacity, max(needed, 2 * len(self._rows))), self._rows.dtype)
            grown[: self.size] = self._rows[: self.size]
            self._rows = grown
        where = (self._next + np.arange(count)) % self.capacity
        for name, column in columns.items():
            self._rows[name][where] = column
        self._next = (self._next + count) % self.capacity
        self.size = needed

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Draws `count` rows with replacement; every column is [count * lanes, ...]."""
        rows = self._rows[rng.integers(self.size, size=count)]
        return {
            name: np.ascontiguousarray(rows[name]).reshape(-1, *rows.dtype[name].shape[1:])
            for name in rows.dtype.names
        }

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return 0 if self._rows is None else self._rows.nbytes

    def get_state(self) -> dict:
        """Returns the ring's content, without the unused part."""
        rows = None if self._rows is None else self._rows[: self.size].copy()
        return {"rows": rows, "next": self._next, "capacity": self.capacity}

    def set_state(self, state: dict) -> None:
        """Restores `get_state`'s content."""
        if state["capacity"] != self.capacity:
            raise ValueError(
                f"`replay_capacity` is {self.capacity} locksteps here and {state['capacity']} in "
                "the checkpoint: restore with the same value, or with checkpoint_replay=False."
            )
        self._rows, self._next = state["rows"], state["next"]
        self.size = 0 if self._rows is None else len(self._rows)
