"""The random streams: one for every purpose, as a pure function of seed, lane and episode."""

from __future__ import annotations

import numpy as np

# First entry of the spawn key: keeps the streams of different purposes apart for one seed.
_BEHAVIOR_STREAM = 0
_EVALUATION_STREAM = 1
_REPLAY_STREAM = 2


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
