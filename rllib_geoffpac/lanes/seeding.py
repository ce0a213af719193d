"""The random streams: one for every purpose, as a pure function of seed, lane and episode."""

from __future__ import annotations

import numpy as np

# First entry of the spawn key: keeps the streams of different purposes apart for one seed.
_BEHAVIOR_STREAM = 0
_EVALUATION_STREAM = 1
_REPLAY_STREAM = 2
_NOISE_STREAM = 3
_PHILOX_BLOCK = 8  # float32 numbers for each of the generator's counts


def _stream(seed: int, *spawn_key: int) -> tuple[int, np.random.Generator]:
    # The two children that SeedSequence.spawn(2) gives, without the cost of their parent.
    environment, actions = (np.random.SeedSequence(seed, spawn_key=(*spawn_key, i)) for i in (0, 1))
    return int(environment.generate_state(1)[0]), np.random.Generator(np.random.PCG64(actions))


def behavior_stream(seed: int, lane: int, episode: int) -> tuple[int, np.random.Generator]:
    """Returns the environment's reset seed and the action generator of one behaviour episode."""
    return _stream(seed, _BEHAVIOR_STREAM, lane, episode)


def evaluation_stream(seed: int, round_: int, episode: int) -> tuple[int, np.random.Generator]:
    """Returns the reset seed and the action generator of one evaluation episode of pi."""
    return _stream(seed, _EVALUATION_STREAM, round_, episode)


def replay_generator(seed: int) -> np.random.Generator:
    """Returns the generator that draws the replayed rows."""
    return _stream(seed, _REPLAY_STREAM)[1]


def action_noise(seed: int, lockstep: int, count: int, size: int) -> np.ndarray:
    """Uniform numbers for actions of pi while it learns, [count, size] for as many locksteps.

    A counter-based generator: what a lockstep gets depends on nothing but seed and lockstep, so
    that neither fragments nor a restart can change it.
    """
    key = np.random.SeedSequence(seed, spawn_key=(_NOISE_STREAM,)).generate_state(2, np.uint64)
    blocks = -(-size // _PHILOX_BLOCK)
    generator = np.random.Generator(np.random.Philox(key=key, counter=lockstep * blocks))
    return generator.random((count, blocks * _PHILOX_BLOCK), np.float32)[:, :size]


class DrawnAhead:
    """One row of numbers after the other from a generator, drawn in blocks.

    They are the numbers that the generator's own methods of the same name give, row by row, for a
    fraction of the time. A generator serves one method and one row length.
    """

    _BLOCK = 256

    def __init__(self, generator: np.random.Generator):
        self._generator = generator
        self._block: np.ndarray | None = None
        self._next = 0

    def random(self, size: int) -> np.ndarray:
        """The next row of uniform numbers."""
        return self._row("random", size)

    def standard_normal(self, size: int) -> np.ndarray:
        """The next row of standard normal numbers."""
        return self._row("standard_normal", size)

    def _row(self, method: str, size: int) -> np.ndarray:
        if self._block is None or self._next == self._BLOCK:
            self._block = getattr(self._generator, method)((self._BLOCK, size))
            self._next = 0
        self._next += 1
        return self._block[self._next - 1]
