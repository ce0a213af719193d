"""What lanes produce: consecutive transitions, of one lane or of several in lockstep.

A *lane* is one environment instance with its own emphatic traces. The behaviour policy is fixed,
so what happens in a lane never depends on the learned weights: episode k of a lane is seeded from
`(seed, lane, k)`, both the environment's `reset(seed=)` and the stream of behaviour actions.
A *lockstep* is one transition of every lane; the learner counts time in locksteps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rllib_geoffpac.lanes.events import EventCounts
from rllib_geoffpac.lanes.positions import LaneAnchor

if TYPE_CHECKING:
    from rllib_geoffpac.lanes.recording import RecordedEpisode


@dataclass
class Spent:
    """Seconds that environments took: how long RLlib's users see their simulator take."""

    steps: float = 0.0
    resets: float = 0.0
    num_resets: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.steps + other.steps, self.resets + other.resets, self.num_resets + other.num_resets
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
    spent: Spent = field(default_factory=Spent, compare=False)

    def __len__(self) -> int:
        return len(self.actions)

    def part(self, first: int, stop: int) -> LaneColumns:
        """Returns the transitions [first, stop), as views."""
        rows = slice(first, stop)
        return LaneColumns(
            self.observations[first : stop + 1],
            **{name: getattr(self, name)[rows] for name in _ROW_COLUMNS},
            final={row - first: f for row, f in self.final.items() if first <= row < stop},
            finished=[
                (row - first, total, length)
                for row, total, length in self.finished
                if first <= row < stop
            ],
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
            finished=[
                (start + row, total, length)
                for start, part in placed
                for row, total, length in part.finished
            ],
            spent=sum((part.spent for part in parts), Spent()),
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
    episodes: list[RecordedEpisode] = field(default_factory=list)
    """The same episodes whole, if they are to be written (`output`)."""
    events: EventCounts = field(default_factory=EventCounts)
    """What happened in the lanes since the last fragment."""
    seconds: float = 0.0
    """Time spent simulating."""
    spent: Spent = field(default_factory=Spent)
    """How much of it in the environments; nothing where the data were not simulated now."""
    metrics: Any = None
    """What callbacks logged while it was simulated, as RLlib's MetricsLogger reduces it."""
    data_source: str = "simulated"
    """'simulated', 'replayed' (from a recorded stream) or 'mixed'."""

    def __len__(self) -> int:
        return self.rewards.size

    @property
    def num_locksteps(self) -> int:
        return self.rewards.shape[0]
