"""A lane that reads its recorded stream, and simulates and records what is not there yet."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rllib_geoffpac.lanes.events import ENV_FAILURES, LANES_NOT_REPRODUCIBLE, EventCounts
from rllib_geoffpac.lanes.fragments import LaneColumns
from rllib_geoffpac.lanes.positions import LanePosition
from rllib_geoffpac.lanes.recorded_stream import CHUNK_LENGTH, Chunk, RecordedStream
from rllib_geoffpac.lanes.simulated import SimulatedLane

_DATA_DEPEND_ON_MORE = (ENV_FAILURES, LANES_NOT_REPRODUCIBLE)


class RecordedLane:
    """`SimulatedLane`'s interface over a recorded stream; the data are the same.

    Whether a chunk is recorded is looked up when the lane enters it. An environment is made only
    when something has to be simulated, and brought to the lane's place by simulating the current
    episode again.

    Args:
        make_lane: Makes the lane that simulates.
        stream: The recorded stream.
        lane: This lane's number.
    """

    def __init__(self, make_lane: Callable[[], SimulatedLane], stream: RecordedStream, lane: int):
        self._make_lane, self._stream, self.lane = make_lane, stream, lane
        self.lockstep, self.position = 0, LanePosition.start()
        self.data_source = "simulated"
        self.events = EventCounts()
        self._simulated: SimulatedLane | None = None
        self._simulated_at = 0  # the lockstep where the simulating lane stands; -1: elsewhere
        # A lane that once left the stream, by a failing environment for example, never returns.
        self._on_stream = True
        self._entered = -1  # the chunk that the lane is in
        self._chunk: Chunk | None = None  # as recorded
        self._growing: Chunk | None = None  # what is being recorded of it

    def run(self, count: int) -> LaneColumns:
        """Makes `count` transitions."""
        parts, sources = [], set()
        while count:
            self._enter_chunk()
            offset = self.lockstep % CHUNK_LENGTH
            if self._chunk is not None and offset < len(self._chunk):
                part = self._replay(offset, count)
                sources.add("replayed")
            else:
                part = self._simulate(offset, count)
                sources.add("simulated")
            parts.append(part)
            count -= len(part)
        self.data_source = sources.pop() if len(sources) == 1 else "mixed"
        return LaneColumns.join(parts)

    def seek(self, position: LanePosition) -> None:
        """Brings the lane to a position; `lockstep` has to be set to the position's beside it."""
        self.position = position
        self._simulated_at = self._entered = -1
        self._growing = None

    def close(self) -> None:
        """Records the beginning of the current chunk and closes the environment."""
        if self._growing is not None and len(self._growing):
            self._stream.write_if_longer(self.lane, self._entered, self._growing)
        self._growing = None
        if self._simulated is not None:
            self._simulated.close()

    def _enter_chunk(self) -> None:
        number, offset = divmod(self.lockstep, CHUNK_LENGTH)
        if number == self._entered:
            return
        self._entered, self._chunk, self._growing = number, None, None
        if not self._on_stream:
            return
        self._chunk = self._stream.read(self.lane, number)
        self.events.update(self._stream.events.take())
        if self._chunk is None:
            if offset == 0:
                here = self.position
                self._growing = Chunk(here.episode, here.step, here.episode_return)
        elif offset <= len(self._chunk) and self._is_here(offset):
            self._growing = self._chunk
        else:
            self._on_stream = offset > len(self._chunk)
            self._chunk = None

    def _is_here(self, offset: int) -> bool:
        """Whether the recorded chunk passes through the place where the lane stands."""
        assert self._chunk is not None and self._chunk.columns is not None
        columns, here = self._chunk.columns, self.position
        episode = self._chunk.episode + sum(row < offset for row, *_ in columns.finished)
        at_start = here.observation is None and self.lockstep == 0
        if episode != here.episode or here.observation is None:
            return episode == here.episode and at_start
        return np.array_equal(columns.observations[offset], here.observation)

    def _replay(self, offset: int, count: int) -> LaneColumns:
        assert self._chunk is not None and self._chunk.columns is not None
        part = self._chunk.columns.part(offset, min(offset + count, len(self._chunk)))
        self.lockstep += len(part)
        first = 0  # of the current episode
        episode, step, _, episode_return, _ = self.position
        if part.finished:
            first = part.finished[-1][0] + 1
            episode, step, episode_return = episode + len(part.finished), 0, 0.0
        # One after the other, as a simulated lane adds them up.
        rewards = np.concatenate([[episode_return], part.rewards[first:]])
        self.position = LanePosition(
            episode,
            step + len(part) - first,
            part.observations[-1],
            float(np.add.accumulate(rewards)[-1]),
            chain_starts=False,  # a recorded stream has no failures
        )
        return part

    def _simulate(self, offset: int, count: int) -> LaneColumns:
        if self._simulated is None:
            self._simulated = self._make_lane()
        lane = self._simulated
        if self._simulated_at != self.lockstep:
            lane.seek(self.position)
        part = lane.run(min(count, CHUNK_LENGTH - offset))
        self.lockstep += len(part)
        self._simulated_at, self.position = self.lockstep, lane.position
        if any(lane.events[event] for event in _DATA_DEPEND_ON_MORE):
            self._on_stream, self._growing = False, None
        self.events.update(lane.events.take())
        self._record(part)
        return part

    def _record(self, part: LaneColumns) -> None:
        if self._growing is None:
            return
        self._growing = self._growing.extended(part)
        if len(self._growing) == CHUNK_LENGTH:
            self._stream.write(self.lane, self._entered, self._growing)
            self._growing = None
