"""The lanes' fragments in lockstep order, simulated ahead of the learner by remote env runners."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import ray
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from rllib_geoffpac.env_runners.remote_runners import RemoteRunners
from rllib_geoffpac.lanes.events import SAMPLING_EVENTS, EventCounts
from rllib_geoffpac.lanes.fragments import Fragment
from rllib_geoffpac.lanes.positions import LaneAnchor, split_lanes

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

logger = logging.getLogger(__name__)


class LaneStream:
    """Hands out the fragments of all lanes, one group of locksteps after the other.

    With remote env runners up to `sample_ahead` groups are under way while the learner works.
    Every request can be answered by any incarnation of its runner (see `BehaviorEnvRunner`), so a
    lost runner costs time and nothing else.

    Args:
        group: The training EnvRunnerGroup.
        config: The algorithm's config.
        recreated: Called with the index of a runner that was lost and answers again.
        carried: What every request carries beside its place in the lanes.
    """

    def __init__(
        self,
        group: EnvRunnerGroup,
        config: AlgorithmConfig,
        recreated: Callable[[int], None] = lambda runner: None,
        carried: dict[str, Any] | None = None,
    ):
        self.group, self.config = group, config
        self.anchor = LaneAnchor.start(range(config.num_lanes))
        self.events = EventCounts(SAMPLING_EVENTS)
        self.runners = RemoteRunners(group, config, self.events, recreated)
        actors = self.runners.actors()
        lanes = split_lanes(config.num_lanes, len(actors)) if actors else []
        self._lanes = dict(zip(actors, lanes, strict=True))
        self._pending: dict[tuple[int, int], ray.ObjectRef] = {}
        self._carried: dict[str, Any] = {
            name: ray.put(value) if actors else value for name, value in (carried or {}).items()
        }
        self._replacements: dict[int, Any] = {}  # of remote runners that are gone for good

    def next(self, lengths: Iterator[int], weights: Any = None) -> list[Fragment]:
        """Returns the next locksteps of all lanes, in lane order.

        Args:
            lengths: Locksteps of the next group, of the one after it, and so on; endless.
            weights: Of the policy that the env runners explore around, if they do. Such data
                can't be simulated ahead of the learner.
        """
        start = self.anchor.lockstep
        if weights is not None:
            self._carried["weights"] = weights
        if self._lanes:
            ahead = [(start, next(lengths))]
            for _ in range(self.config.sample_ahead if weights is None else 0):
                ahead.append((ahead[-1][0] + ahead[-1][1], next(lengths)))
            for runner in self._lanes:
                for first, length in ahead:
                    self._request(runner, first, length)
            fragments = [self._answer(runner, *ahead[0]) for runner in self._lanes]
        else:
            runner = self.group.local_env_runner
            fragments = [
                runner.sample(
                    start=start,
                    num_locksteps=next(lengths),
                    anchor=self.anchor,
                    **self._carried,
                )
            ]
        for fragment in fragments:
            self.events.update(fragment.events)
        self.anchor = LaneAnchor.concatenate([fragment.end for fragment in fragments])
        return fragments

    def restart_from(self, anchor: LaneAnchor) -> None:
        """Goes on from a checkpoint's anchor; what was simulated ahead is forgotten."""
        self._pending.clear()
        self.anchor = anchor

    def _request(self, runner: int, start: int, length: int) -> None:
        if (runner, start) not in self._pending and runner not in self._replacements:
            actor = self.runners.actors()[runner]
            request = self._arguments(runner, start, length)
            self._pending[runner, start] = actor.answer.remote(**request)

    def _arguments(self, runner: int, start: int, length: int) -> dict[str, Any]:
        return {
            "start": start,
            "num_locksteps": length,
            "anchor": self.anchor.select(self._lanes[runner]),
            **self._carried,
        }

    def _answer(self, runner: int, start: int, length: int) -> Fragment:
        def ask() -> ray.ObjectRef:
            self._request(runner, start, length)
            return self._pending[runner, start]

        def forget() -> None:
            self._pending = {key: ref for key, ref in self._pending.items() if key[0] != runner}

        limit = self.config.env_hang_timeout_s
        if runner not in self._replacements:
            try:
                fragment = self.runners.answer(runner, ask, forget=forget, time_limit=limit)
                del self._pending[runner, start]
                return fragment
            except TimeoutError as error:
                if not self.config.ignore_env_runner_failures:
                    raise
                logger.warning("%s From now on its lanes are simulated in this process.", error)
                self._replacements[runner] = self.config.env_runner_cls(
                    config=self.config, worker_index=runner, num_workers=len(self._lanes)
                )
        request = self._arguments(runner, start, length)
        here = {n: ray.get(v) if isinstance(v, ray.ObjectRef) else v for n, v in request.items()}
        return self._replacements[runner].sample(**here)
