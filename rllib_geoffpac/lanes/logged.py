"""A lane that reads a data set: episodes in order, lane l of L gets the l-th of every L.

One episode follows the other as after a reset: a teleport of the behaviour chain. After its last
episode a lane starts over; no transition leads from the end to the beginning, so its traces
restart there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from rllib_geoffpac.data.episodes import DataError, LoggedEpisode
from rllib_geoffpac.data.survey import Survey
from rllib_geoffpac.envs.observations import observation_dtype, observation_shape
from rllib_geoffpac.lanes.events import EventCounts
from rllib_geoffpac.lanes.fragments import LaneColumns
from rllib_geoffpac.lanes.positions import LanePosition

_ENOUGH = 2_000  # transitions read ahead for a lane
_AT_MOST = 3 * _ENOUGH  # for a lane whose turn it is not


class EpisodeDealer:
    """Reads the episodes of some lanes, streaming: few are in memory at any time.

    One stream serves all lanes that are near each other. A lane that is not, because its episodes
    are longer or shorter than the others', gets a stream of its own for its next few episodes.

    Args:
        survey: Of the data set.
        lanes: Numbers of the lanes that this process reads.
        num_lanes: How many there are in all.
    """

    def __init__(self, survey: Survey, lanes: range, num_lanes: int):
        self.survey, self.num_lanes = survey, num_lanes
        self._fit = survey.fitter()
        self._waiting: dict[int, deque[LoggedEpisode]] = {lane: deque() for lane in lanes}
        self._wanted = dict.fromkeys(lanes, 0)  # by lane: number of the next episode to keep
        self._stream: Iterator[LoggedEpisode] | None = None
        self._read = 0  # number of the stream's next episode

    def count(self, lane: int) -> int:
        """How many episodes a lane has."""
        return -(-(self.survey.episodes - lane) // self.num_lanes)

    def seek(self, lane: int, index: int) -> None:
        """A lane goes on with the `index`-th episode that it is dealt, over all passes."""
        self._waiting[lane].clear()
        self._wanted[lane] = index % self.count(lane) * self.num_lanes + lane

    def next(self, lane: int) -> LoggedEpisode:
        """A lane's next episode, fitted to the spaces."""
        if not self._waiting[lane]:
            self._refill(lane)
        return self._fit(self._waiting[lane].popleft())

    def close(self) -> None:
        """Ends the stream."""
        self._stream = None

    def _refill(self, lane: int) -> None:
        if self._stream is None or self._read > self._wanted[lane]:
            self._read = self._wanted[lane]
            self._stream = iter(self.survey.data.episodes(self._read))
        stream, self._stream = self._stream, None  # a stream that fails is not gone on with
        for episode in stream:
            if episode.number != self._read:
                break
            self._read += 1
            self._keep(episode)
            if sum(map(len, self._waiting[lane])) >= _ENOUGH:
                self._stream = stream
                return
        if not self._waiting[lane]:
            raise DataError(
                f"{self.survey.data.name} ends before episode {self._wanted[lane]}: it had "
                f"{self.survey.episodes} when the run began. Restore it, or start again."
            )

    def _keep(self, episode: LoggedEpisode) -> None:
        lane = episode.number % self.num_lanes
        if self._wanted.get(lane) != episode.number:
            return
        if sum(map(len, self._waiting[lane])) < _AT_MOST:
            self._waiting[lane].append(episode)
            following = episode.number + self.num_lanes
            self._wanted[lane] = following if following < self.survey.episodes else lane


class LoggedLane:
    """`SimulatedLane`'s interface over a data set.

    Args:
        dealer: Who reads the episodes.
        lane: This lane's number.
    """

    def __init__(self, dealer: EpisodeDealer, lane: int):
        self._dealer, self.lane = dealer, lane
        self.data_source = "logged"
        self.events = EventCounts()
        self._space = dealer.survey.observation_space
        self._actions = dealer.survey.action_space
        self.seek(LanePosition.start())

    @property
    def position(self) -> LanePosition:
        """Where the lane stands, after its first run."""
        return LanePosition(
            self._index,
            self._step,
            self._observation(self._step),
            self._return,
            self._chain_starts,
        )

    def seek(self, position: LanePosition) -> None:
        """Brings the lane to a position; the data set must be the one that it was taken in."""
        self._dealer.seek(self.lane, position.episode)
        self._index, self._step = position.episode, position.step
        self._return, self._chain_starts = position.episode_return, position.chain_starts
        self._episode: LoggedEpisode | None = None
        self._expected = position.observation

    def run(self, count: int) -> LaneColumns:
        """Makes `count` transitions."""
        parts = []
        while count:
            part = self._run_episode(count)
            parts.append(part)
            count -= len(part)
        return LaneColumns.join(parts)

    def close(self) -> None:
        """Ends reading."""
        self._dealer.close()

    def _run_episode(self, count: int) -> LaneColumns:
        """The next transitions of the current episode, at most `count`."""
        episode = self._current()
        first = self._step
        stop = min(len(episode), first + count)
        steps = stop - first
        rewards = episode.rewards[first:stop]
        columns = LaneColumns(
            self._travelling(episode.observations[first : stop + 1]),
            np.asarray(episode.actions[first:stop], self._actions.dtype),
            terminated=np.zeros(steps, bool),
            truncated=np.zeros(steps, bool),
            chain_start=np.zeros(steps, bool),
            rewards=rewards,
            discounts=np.full(steps, np.nan)
            if episode.discounts is None
            else episode.discounts[first:stop],
            behavior_logp=np.asarray(episode.logp)[first:stop],
        )
        columns.chain_start[0], self._chain_starts = self._chain_starts, False
        # One after the other, as a simulated lane adds them up.
        self._return = float(np.add.accumulate(np.concatenate([[self._return], rewards]))[-1])
        self._step = stop
        if stop == len(episode):
            self._end_episode(episode, columns)
        return columns

    def _end_episode(self, episode: LoggedEpisode, columns: LaneColumns) -> None:
        last = len(columns) - 1
        if episode.is_done:
            columns.finished.append((last, self._return, len(episode)))
        columns.terminated[last] = episode.terminated
        columns.truncated[last] = episode.truncated
        if not episode.terminated:
            columns.final[last] = columns.observations[-1].copy()
        self._index += 1
        self._chain_starts = self._index % self._dealer.count(self.lane) == 0
        self._episode, self._step, self._return, self._expected = None, 0, 0.0, None
        columns.observations[-1] = self._observation(0)

    def _current(self) -> LoggedEpisode:
        if self._episode is None:
            episode = self._episode = self._dealer.next(self.lane)
            expected, self._expected = self._expected, None
            if expected is not None and (
                self._step >= len(episode)
                or not np.array_equal(self._observation(self._step), expected)
            ):
                raise episode.error(
                    "this is not where the run stood: the data set has changed since. Restore it, "
                    "or start again from its beginning.",
                    self._step,
                )
        return self._episode

    def _observation(self, step: int) -> np.ndarray:
        return self._travelling(self._current().observations[step : step + 1])[0]

    def _travelling(self, observations: np.ndarray) -> np.ndarray:
        """[N, ...] as observations travel: a new array."""
        shape, dtype = observation_shape(self._space), observation_dtype(self._space)
        return np.array(observations, dtype).reshape(len(observations), *shape)
