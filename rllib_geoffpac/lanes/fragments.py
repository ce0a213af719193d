"""Lanes: where the experience comes from, as a pure function of (seed, lane, episode, step).

A *lane* is one environment instance with its own emphatic traces. The behaviour policy is fixed,
so what happens in a lane never depends on the learned weights: episode k of a lane is seeded from
`(seed, lane, k)`, both the environment's `reset(seed=)` and the stream of behaviour actions.
A *lockstep* is one transition of every lane; the learner counts time in locksteps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np


def split_lanes(num_lanes: int, num_runners: int) -> list[range]:
    """Splits the lanes over the env runners, as evenly as possible, in lane order.

    Example:
        >>> split_lanes(10, 3)
        [range(0, 4), range(4, 7), range(7, 10)]
    """
    smaller, larger_runners = divmod(num_lanes, num_runners)
    lanes, start = [], 0
    for runner in range(num_runners):
        stop = start + smaller + (runner < larger_runners)
        lanes.append(range(start, stop))
        start = stop
    return lanes


class LanePosition(NamedTuple):
    """Where one lane stands."""

    episode: int
    step: int  # transitions already made in it
    observation: np.ndarray | None  # flat, as it travels; None before the first reset
    episode_return: float  # undiscounted, so far
    chain_starts: bool  # no transition leads to its state: the next row restarts the traces

    @classmethod
    def start(cls) -> LanePosition:
        """Returns the position of a lane that has not moved yet."""
        return cls(0, 0, None, 0.0, True)


class ActionLog(NamedTuple):
    """What brings an exploring lane back: its actions followed weights that have changed since."""

    actions: np.ndarray  # [steps, ...] taken so far in the current episode
    rng_state: dict[str, Any]  # of the episode's generator after them


@dataclass
class LaneAnchor:
    """Where some lanes stand after `lockstep` locksteps: enough to simulate them from there on.

    No simulator internals: a lane is brought back by replaying its current episode from the start,
    and `observations` tell whether the environment really came back to the same place.
    """

    lockstep: int
    lanes: np.ndarray  # [L] lane numbers
    episodes: np.ndarray  # [L] index of the current episode
    steps: np.ndarray  # [L] transitions already made in it
    observations: np.ndarray | None  # [L, ...] current observation; None before the first reset
    returns: np.ndarray  # [L] undiscounted return of the current episode so far
    chain_starts: np.ndarray  # [L] whether no transition leads to the current state
    action_logs: list[ActionLog] | None = None  # [L] of exploring lanes; None: mu is fixed

    @classmethod
    def start(cls, lanes: range) -> LaneAnchor:
        """Returns the anchor of lanes that have not moved yet."""
        count = len(lanes)
        zeros = np.zeros(count, np.int64)
        starts = np.ones(count, bool)
        return cls(0, np.array(lanes), zeros, zeros.copy(), None, np.zeros(count), starts)

    @classmethod
    def of(cls, lockstep: int, lanes: np.ndarray, positions: list[LanePosition]) -> LaneAnchor:
        """Returns the anchor of lanes that have moved."""
        episodes, steps, observations, returns, chain_starts = zip(*positions, strict=True)
        return cls(
            lockstep,
            lanes,
            np.array(episodes),
            np.array(steps),
            np.stack(observations),
            np.array(returns),
            np.array(chain_starts),
        )

    def position(self, index: int) -> LanePosition:
        """Returns where one of the lanes stands."""
        return LanePosition(
            int(self.episodes[index]),
            int(self.steps[index]),
            None if self.observations is None else self.observations[index],
            float(self.returns[index]),
            bool(self.chain_starts[index]),
        )

    def select(self, lanes: range) -> LaneAnchor:
        """Returns the anchor of a contiguous part of the lanes."""
        first = int(np.searchsorted(self.lanes, lanes.start))
        part = slice(first, first + len(lanes))
        observations = None if self.observations is None else self.observations[part]
        action_logs = None if self.action_logs is None else self.action_logs[part]
        return LaneAnchor(
            self.lockstep,
            self.lanes[part],
            self.episodes[part],
            self.steps[part],
            observations,
            self.returns[part],
            self.chain_starts[part],
            action_logs,
        )

    @classmethod
    def concatenate(cls, parts: list[LaneAnchor]) -> LaneAnchor:
        """Joins the anchors of disjoint sets of lanes, given in lane order."""
        return cls(
            parts[0].lockstep,
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in (
                    "lanes",
                    "episodes",
                    "steps",
                    "observations",
                    "returns",
                    "chain_starts",
                )
            ),
            None
            if parts[0].action_logs is None
            else [log for part in parts for log in part.action_logs],
        )


@dataclass
class LaneColumns:
    """What one lane produced: T consecutive transitions. See `Fragment` for the columns."""

    observations: np.ndarray  # [T + 1, ...] flat
    actions: np.ndarray  # [T, ...]
    terminated: np.ndarray  # [T]
    truncated: np.ndarray  # [T]
    chain_start: np.ndarray  # [T]
    rewards: list[float] | np.ndarray = field(default_factory=list)
    discounts: list[float] | np.ndarray = field(default_factory=list)
    behavior_logp: list[float] | np.ndarray = field(default_factory=list)
    final: dict[int, np.ndarray] = field(default_factory=dict)  # row: final observation
    finished: list[tuple[int, float, int]] = field(default_factory=list)
    """Finished episodes: (row, return, length)."""

    def __len__(self) -> int:
        return len(self.actions)

    def part(self, first: int, stop: int) -> LaneColumns:
        """Returns the transitions [first, stop), as views."""
        rows = slice(first, stop)
        return LaneColumns(
            self.observations[first : stop + 1],
            **{name: getattr(self, name)[rows] for name in _ROW_COLUMNS},
            final={row - first: f for row, f in self.final.items() if first <= row < stop},
            finished=[(row - first, *e) for row, *e in self.finished if first <= row < stop],
        )

    @classmethod
    def join(cls, parts: list[LaneColumns]) -> LaneColumns:
        """Joins consecutive parts."""
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0, *(len(part) for part in parts)]).tolist()
        placed = list(zip(starts, parts, strict=False))
        return cls(
            np.concatenate([parts[0].observations[:1], *(p.observations[1:] for p in parts)]),
            **{name: np.concatenate([getattr(p, name) for p in parts]) for name in _ROW_COLUMNS},
            final={start + row: f for start, part in placed for row, f in part.final.items()},
            finished=[(start + row, *e) for start, part in placed for row, *e in part.finished],
        )


_ROW_COLUMNS = (
    "actions",
    "terminated",
    "truncated",
    "chain_start",
    "rewards",
    "discounts",
    "behavior_logp",
)


@dataclass
class Fragment:
    """T consecutive transitions of some lanes, time-major, as a few contiguous arrays.

    `observations[t + 1]` is the state that the lane really goes to: after an episode's end the
    reset observation (the teleport is an ordinary transition of the behaviour chain). The final
    observation of a truncated episode, needed only to bootstrap, is kept beside it.
    """

    start: int  # lockstep of the first row
    lanes: np.ndarray  # [L]
    observations: np.ndarray  # [T + 1, L, ...]
    actions: np.ndarray  # [T, L, ...]
    rewards: np.ndarray  # [T, L]
    discounts: np.ndarray  # [T, L] as supplied by the environment, NaN where it supplies none
    behavior_logp: np.ndarray  # [T, L] log mu(A_t|S_t)
    terminated: np.ndarray  # [T, L]
    truncated: np.ndarray  # [T, L]
    chain_start: np.ndarray  # [T, L] the lane (re)starts here: no transition leads to this state
    final_index: np.ndarray  # [K, 2] (t, lane position) of the truncated transitions
    final_observations: np.ndarray  # [K, ...]
    end: LaneAnchor
    finished: list[tuple[int, int, float, int]] = field(default_factory=list)
    """Finished behaviour episodes: (lockstep, lane, return, length)."""
    counters: dict[str, int] = field(default_factory=dict)
    """Events worth counting: env failures, lanes restarted, lanes brought back by re-simulation."""
    seconds: float = 0.0
    """Time spent simulating."""
    data_source: str = "simulated"
    """'simulated', 'replayed' (from a recorded stream) or 'mixed'."""

    def __len__(self) -> int:
        return self.rewards.size

    @property
    def num_locksteps(self) -> int:
        return self.rewards.shape[0]

    def nbytes(self) -> int:
        """Returns the bytes of all arrays (without the bookkeeping)."""
        values = (getattr(self, f.name) for f in fields(self))
        return sum(v.nbytes for v in values if isinstance(v, np.ndarray))
