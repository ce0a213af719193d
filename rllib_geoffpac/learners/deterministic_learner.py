"""The learner of DDPG and TD3 over RLlib's Learner.

One lockstep: the transitions enter the replay ring, then there is one update for each of them,
from single transitions drawn from the ring.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.utils.annotations import override

from rllib_geoffpac.connectors.lane_aligner import DISCOUNT
from rllib_geoffpac.learners.lane_learner import LaneLearner
from rllib_geoffpac.updates.backend import Chunk, Report
from rllib_geoffpac.updates.deterministic import ACTOR_METRICS, DeterministicUpdate, Replayed
from rllib_geoffpac.updates.transitions import Transitions

_REPLAYED = (Columns.OBS, Columns.ACTIONS, Columns.REWARDS, Columns.NEXT_OBS, DISCOUNT)
_REPORTED = 100  # updates that the metrics are means over


class DDPGLearner(LaneLearner):
    """As many updates as transitions, once `learning_starts` of them are there."""

    chunk_size = 20

    @override(LaneLearner)
    def build(self) -> None:
        self.num_updates = 0
        self._reported: dict[str, deque[float]] = {}
        self._due: list[np.ndarray] = []  # of the chunks that have not been reported yet
        super().build()

    @override(LaneLearner)
    def _make_update(self) -> DeterministicUpdate:
        return DeterministicUpdate()

    @override(LaneLearner)
    def _fresh_memory(self) -> tuple:
        return ()

    @override(LaneLearner)
    def _steps(self) -> int:
        return self.num_updates

    @override(LaneLearner)
    def chunks(self, columns: dict[str, np.ndarray]) -> Iterator[tuple[Chunk, bool]]:
        columns = {name: columns[name] for name in _REPLAYED}
        columns[Columns.ACTIONS] = self._current_module.distribution.to_unit(
            columns[Columns.ACTIONS]
        )
        drawn: list[np.ndarray] = []
        noise: list[np.ndarray | None] = []
        locksteps: list[int] = []
        for t in range(len(columns[Columns.REWARDS])):
            self.replay.add({name: column[t : t + 1] for name, column in columns.items()})
            learns = self.num_locksteps >= self.config.warm_up_locksteps
            for _ in range(self.config.num_lanes if learns else 0):
                drawn.append(self.replay.draw_transitions(self.rng, self.config.replay_batch_size))
                noise.append(self._target_noise())
                locksteps.append(self.num_locksteps)
                if len(drawn) == self.chunk_size:
                    yield self._chunk(drawn, noise, locksteps), True
                    drawn, noise, locksteps = [], [], []
            self.num_locksteps += 1
        if drawn:
            yield self._chunk(drawn, noise, locksteps), True

    def _target_noise(self) -> np.ndarray | None:
        """Standard normal numbers for the target action [N, d]; DDPG has none."""
        return None

    def _chunk(
        self, drawn: list[np.ndarray], noise: list[np.ndarray | None], locksteps: list[int]
    ) -> Chunk:
        count, config = len(drawn), self.config
        numbers = self.numbers_at(np.array(locksteps))
        # The behaviour's density and whether a transition is one of the chain matter to nobody.
        unpacked = self.replay.unpack(np.stack(drawn))
        batch = Transitions.of({Columns.ACTION_LOGP: None, "valid": None, **unpacked})
        due = (self.num_updates + 1 + np.arange(count)) % config.actor_interval == 0
        self.num_updates += count
        self._due.append(due)
        noises = np.stack([n for n in noise if n is not None]) if noise[0] is not None else None
        return Chunk(Replayed(batch, noises, due, numbers), count)

    @override(LaneLearner)
    def _summarize(self, reports: list[Report]) -> dict[str, float]:
        """Means over the latest updates of the critics and of pi; nothing before the first."""
        for report, due in zip(reports, self._due, strict=True):
            for name, column in report.of_steps().items():
                values = column[due] if name in ACTOR_METRICS else column
                self._reported.setdefault(name, deque(maxlen=_REPORTED)).extend(values.tolist())
        count = sum(map(len, self._due))
        self.metrics.log_value((DEFAULT_MODULE_ID, "num_updates"), count, reduce="lifetime_sum")
        self._due.clear()
        return {name: float(np.mean(values)) for name, values in self._reported.items() if values}

    def policy_weights(self) -> list[np.ndarray]:
        """pi's parameters, for env runners that explore around it."""
        self.backend.store()
        return [p.detach().cpu().numpy() for p in self._current_module.pi.parameters()]

    @override(LaneLearner)
    def _get_progress(self) -> dict[str, Any]:
        return super()._get_progress() | {"num_updates": self.num_updates}

    @override(LaneLearner)
    def _set_progress(self, progress: dict[str, Any]) -> None:
        super()._set_progress(progress)
        self.num_updates = progress["num_updates"]


class TD3Learner(DDPGLearner):
    """The same with TD3's noise on the target action."""

    @override(DDPGLearner)
    def _target_noise(self) -> np.ndarray:
        shape = (self.config.replay_batch_size, self._current_module.distribution.num_outputs)
        return self.rng.standard_normal(shape, np.float32)
