"""Where lanes stand: enough to bring them back, and no simulator internals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


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
    rng_state: Mapping[str, Any]  # of the episode's generator after them


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

    def get_state(self) -> dict[str, Any]:
        """Returns plain values and arrays, for a checkpoint."""
        logs = None if self.action_logs is None else [log._asdict() for log in self.action_logs]
        return {**vars(self), "action_logs": logs}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> LaneAnchor:
        """Returns the anchor of `get_state`."""
        logs = state["action_logs"]
        return cls(**{**state, "action_logs": logs and [ActionLog(**log) for log in logs]})

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
        names = ("lanes", "episodes", "steps", "observations", "returns", "chain_starts")
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in names
        }
        if parts[0].action_logs is not None:
            joined["action_logs"] = [log for part in parts for log in part.action_logs or ()]
        return cls(parts[0].lockstep, **joined)


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
