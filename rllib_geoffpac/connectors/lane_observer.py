"""What the learner sees of the lanes, where there are env-to-module connectors.

The pipeline runs at one place, over all lanes in lockstep and in lane order. With fixed behaviour
data its statistics are a function of the stream alone: the same for any number of env runners and
for any fragment length. Everything behind it, the replay ring included, holds what the module saw
at the time.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rllib_geoffpac.connectors.observer import Observer
from rllib_geoffpac.connectors.pipelines import Spaces
from rllib_geoffpac.lanes.fragments import Fragment

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.core.rl_module.torch import TorchRLModule


class LaneObserver(Observer):
    """An episode of every lane, whose observations pass the pipeline once, in the order of time.

    Attributes:
        latest: [lanes, ...] what the module sees where the lanes stand; None before they move.
    """

    def __init__(self, config: AlgorithmConfig, spaces: Spaces, module: TorchRLModule):
        self.logged = MetricsLogger(root=False)
        super().__init__(config, spaces, module, metrics=self.logged)
        self.latest: np.ndarray | None = None
        self._arrived: np.ndarray | None = None  # [lanes, ...] the same as it travelled

    def transform(self, fragments: list[Fragment]) -> list[Fragment]:
        """The next fragments of all lanes, with the observations that the module sees."""
        fragments = sorted(fragments, key=lambda fragment: fragment.lanes[0])
        count = fragments[0].num_locksteps
        lanes = sum(len(fragment.lanes) for fragment in fragments)
        seen = np.empty((count + 1, lanes, *self.shape), self.dtype)
        final: dict[tuple[int, int], np.ndarray] = {}
        stream = _Joined(fragments)
        for t in range(count):
            self._restart(stream, t)
            seen[t] = self.latest
            self._finish(stream, t, final)
            self._advance(stream, t)
            seen[t + 1] = self.latest
            for lane in stream.failed(t):
                final[t, lane] = seen[t + 1, lane].copy()
        return stream.replaced(seen, final)

    def _restart(self, stream: _Joined, t: int) -> None:
        """Begins the episodes of lanes to whose state no transition leads."""
        arrived = stream.observations[t]
        rows = []
        for lane in np.flatnonzero(stream.chain_start[t] | (self.latest is None)).tolist():
            # A lane whose reset failed is here twice: where its episode ended, and now.
            before = self._arrived if self._arrived is not None else arrived
            fresh = lane in self.episodes and not len(self.episodes[lane])
            if not (fresh and np.array_equal(before[lane], arrived[lane])):
                self.start(lane, arrived[lane])
                rows.append(lane)
        if rows:
            self._look(rows, arrived)

    def _finish(self, stream: _Joined, t: int, final: dict[tuple[int, int], np.ndarray]) -> None:
        """Looks at the final observations of episodes that a time limit has ended."""
        rows = [lane for lane in stream.final[t] if stream.truncated[t, lane]]
        for lane in rows:
            self._step(stream, t, lane, stream.final[t][lane])
            self.episodes[lane].is_truncated = True
        if rows:
            final.update(
                {(t, lane): row for lane, row in zip(rows, self.observe(rows), strict=True)}
            )

    def _advance(self, stream: _Joined, t: int) -> None:
        """Looks at the states that the lanes go to."""
        arrived = stream.observations[t + 1].copy()
        ended = stream.terminated[t] | stream.truncated[t]
        for lane in range(len(arrived)):
            if ended[lane]:
                self.start(lane, arrived[lane])
            else:
                # Where the environment failed the lane will go on somewhere else, but it was here.
                arrived[lane] = stream.final[t].get(lane, arrived[lane])
                self._step(stream, t, lane, arrived[lane])
        self._look(list(range(len(arrived))), arrived)

    def _step(self, stream: _Joined, t: int, lane: int, observation: np.ndarray) -> None:
        self.step(lane, observation, stream.actions[t, lane], float(stream.rewards[t, lane]))

    def _look(self, rows: list[int], arrived: np.ndarray) -> None:
        seen = self.observe(rows)
        if self.latest is None or self._arrived is None:
            self.latest, self._arrived = seen, arrived.copy()
        else:
            self.latest, self._arrived = self.latest.copy(), self._arrived.copy()
            self.latest[rows], self._arrived[rows] = seen, arrived[rows]

    def get_progress(self) -> dict[str, Any]:
        """Everything that exact resume needs."""
        return {
            "pieces": self.get_state(),
            "episodes": [self.episodes[lane].get_state() for lane in sorted(self.episodes)],
            "latest": self.latest,
            "arrived": self._arrived,
        }

    def set_progress(self, progress: dict[str, Any]) -> None:
        """Goes on from `get_progress`."""
        self.set_state(progress["pieces"])
        self.episodes = {
            lane: SingleAgentEpisode.from_state(state)
            for lane, state in enumerate(progress["episodes"])
        }
        self.latest, self._arrived = progress["latest"], progress["arrived"]


class _Joined:
    """The fragments of all lanes, side by side."""

    def __init__(self, fragments: list[Fragment]):
        self._fragments = fragments

        def joined(name: str) -> np.ndarray:
            return np.concatenate([getattr(fragment, name) for fragment in fragments], axis=1)

        self.observations, self.actions = joined("observations"), joined("actions")
        self.rewards, self.chain_start = joined("rewards"), joined("chain_start")
        self.terminated, self.truncated = joined("terminated"), joined("truncated")
        self.final: list[dict[int, np.ndarray]] = [{} for _ in self.rewards]
        """By row and lane: the final observations that are not where the lane goes on."""
        first = 0
        for fragment in fragments:
            for (t, lane), observation in zip(
                fragment.final_index.tolist(), fragment.final_observations, strict=True
            ):
                self.final[t][first + lane] = observation
            first += len(fragment.lanes)

    def failed(self, t: int) -> list[int]:
        """The lanes whose environment failed after the transition."""
        return [lane for lane in self.final[t] if not self.truncated[t, lane]]

    def replaced(
        self, seen: np.ndarray, final: dict[tuple[int, int], np.ndarray]
    ) -> list[Fragment]:
        """The fragments with what was seen [T + 1, lanes, ...], and of final observations."""
        fragments, first = [], 0
        for fragment in self._fragments:
            width = len(fragment.lanes)
            own = [final[t, first + lane] for t, lane in fragment.final_index.tolist()]
            fragments.append(
                dataclasses.replace(
                    fragment,
                    observations=seen[:, first : first + width],
                    final_observations=np.array(own, seen.dtype).reshape(len(own), *seen.shape[2:]),
                )
            )
            first += width
        return fragments
