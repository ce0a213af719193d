"""Replay of whole locksteps: one packed ring, allocated as it fills."""

from __future__ import annotations

import numpy as np

_FIRST_ALLOCATION = 1024


class ReplayRing:
    """Keeps the latest locksteps, packed: a row holds one transition of every lane.

    All of a transition lies together in memory, and so do the lanes of a row: drawing a row is one
    copy of a few kilobytes (176 bytes for each transition of HalfCheetah).

    Args:
        capacity: Rows (locksteps) kept at most; the oldest is overwritten.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.size = 0
        self._next = 0
        self._rows: np.ndarray | None = None  # structured, [allocated, lanes]

    def add(self, columns: dict[str, np.ndarray]) -> None:
        """Appends rows; every column is [rows, lanes, ...]."""
        count = len(next(iter(columns.values())))
        self._make_room(min(self.capacity, self.size + count), columns)
        done = 0
        while done < count:
            part = min(count - done, self.capacity - self._next)
            where = slice(self._next, self._next + part)
            for name, field in self._fields.items():
                field[where] = columns[name][done : done + part]
            self._next = (self._next + part) % self.capacity
            done += part
        self.size = min(self.capacity, self.size + count)

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Draws `count` rows with replacement; every column is [count * lanes, ...]."""
        return self.unpack(self.draw_rows(rng, count))

    def draw_rows(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws `count` rows with replacement, packed: bytes for `unpack`."""
        return self._bytes.take(rng.integers(self.size, size=count), axis=0).reshape(-1)

    def draw_and_add(
        self, rng: np.random.Generator, count: int, columns: dict[str, np.ndarray]
    ) -> np.ndarray:
        """For each of T rows: draws `count` rows, then adds it. Packed: [T, n] for `unpack`."""
        steps = len(next(iter(columns.values())))
        if self.size + steps > self.capacity:  # A row may be overwritten that was drawn before.
            drawn = []
            for t in range(steps):
                drawn.append(self.draw_rows(rng, count))
                self.add({name: column[t : t + 1] for name, column in columns.items()})
            return np.stack(drawn)
        indices = [rng.integers(self.size + t, size=count) for t in range(steps)]
        self.add(columns)
        return self._bytes.take(np.stack(indices), axis=0).reshape(steps, -1)

    def draw_windows_and_add(
        self, rng: np.random.Generator, count: int, before: int, columns: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `draw_and_add`, with the `before` rows ahead of each row that is drawn.

        Only rows are drawn that have so many ahead of them; while there is none, the latest.

        Returns:
            Packed rows [T, before + 1, n] for `unpack`, the oldest first, and whether there was
            such a row [T, before + 1, count].
        """
        steps = len(next(iter(columns.values())))
        drawn, exists, full = [], [], self.size + steps > self.capacity
        for t in range(steps):
            size = self.size if full else self.size + t
            last = rng.integers(min(before, size - 1), size, size=count)
            positions = last - np.arange(before, -1, -1)[:, None]
            oldest = self._next if size == self.capacity else 0
            rows = (oldest + positions.clip(0)) % self.capacity
            exists.append(positions >= 0)
            drawn.append(self._bytes.take(rows, axis=0) if full else rows)
            if full:  # A row may be overwritten that was drawn before.
                self.add({name: column[t : t + 1] for name, column in columns.items()})
        if not full:
            self.add(columns)
            drawn = [self._bytes.take(np.stack(drawn), axis=0)]
        packed = np.concatenate(drawn).reshape(steps, before + 1, -1)
        return packed, np.stack(exists)

    def blank(self, steps: int, count: int) -> np.ndarray:
        """What `draw_and_add` returns, in zeros: [steps, n]."""
        return np.zeros((steps, count * self._bytes.shape[1]), np.uint8)

    def draw_transitions(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws `count` single transitions with replacement, packed: bytes for `unpack`."""
        indices = rng.integers(self.size * self._stored.shape[1], size=count)
        transitions = self._bytes.reshape(-1, self._stored.dtype.itemsize)
        return transitions.take(indices, axis=0).reshape(-1)

    def unpack(self, drawn: np.ndarray) -> dict[str, np.ndarray]:
        """Drawn bytes [..., n] to columns [..., N, ...]: views, so that none is contiguous."""
        transitions = drawn.view(self._stored.dtype)
        return {name: transitions[name] for name in self._fields}

    def _make_room(self, size: int, columns: dict[str, np.ndarray]) -> None:
        if self._rows is None:
            # Aligned, because torch takes no column whose distance between transitions is not a
            # multiple of its element size.
            fields = [(name, c.dtype, c.shape[2:]) for name, c in columns.items()]
            lanes = next(iter(columns.values())).shape[1]
            self._use(np.empty((0, lanes), np.dtype(fields, align=True)))
        allocated, lanes = self._stored.shape
        if size > allocated:
            room = min(self.capacity, max(size, 2 * allocated, _FIRST_ALLOCATION))
            grown = np.empty((room, lanes), self._stored.dtype)
            grown[: self.size] = self._stored[: self.size]
            self._use(grown)

    @property
    def _stored(self) -> np.ndarray:
        """The rows, once there are any."""
        assert self._rows is not None
        return self._rows

    def _use(self, rows: np.ndarray) -> None:
        self._rows = rows
        self._fields = {name: rows[name] for name in rows.dtype.names or ()}
        # numpy copies plain bytes several times faster than structured elements.
        row_bytes = rows.shape[1] * rows.dtype.itemsize
        self._bytes = rows.view(np.uint8).reshape(len(rows), row_bytes)

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
        self._rows, self._next, self.size = None, state["next"], 0
        if state["rows"] is not None:
            rows = state["rows"]  # Read-only if it came to a remote learner through Ray.
            self._use(rows if rows.flags.writeable else rows.copy())
            self.size = len(rows)
