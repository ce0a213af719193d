"""The learner of Geoff-PAC, ACE and Off-PAC: the emphatic update over RLlib's Learner.

One lockstep: what is replayed is drawn, the update learns (`updates.emphatic`), then the
transitions enter the replay ring.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import tree
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.utils.annotations import override
from ray.rllib.utils.typing import StateDict

from rllib_geoffpac.connectors import EmphaticTraces, LaneAligner
from rllib_geoffpac.connectors.lane_aligner import CHAIN_START, DISCOUNT, VALID
from rllib_geoffpac.lanes.fragments import Fragment
from rllib_geoffpac.lanes.seeding import action_noise
from rllib_geoffpac.lanes.windows import windows_of
from rllib_geoffpac.learners.lane_learner import COMPONENT_LEARNER_CONNECTOR, LaneLearner
from rllib_geoffpac.maths.action_values import return_range
from rllib_geoffpac.maths.emphatic import fresh_traces
from rllib_geoffpac.maths.moments import Moments, fresh_moments
from rllib_geoffpac.modules import EmphaticRLModule
from rllib_geoffpac.updates.action_values import ActionValueUpdate
from rllib_geoffpac.updates.backend import Chunk, Report
from rllib_geoffpac.updates.emphatic import EmphaticUpdate
from rllib_geoffpac.updates.lockstep import Lockstep, Memory
from rllib_geoffpac.updates.transitions import (
    CHAIN_OBS,
    INTEREST,
    NEXT_INTEREST,
    Transitions,
    Window,
)

_LOOKED_AT = 10  # replayed locksteps, for metrics
_OVERLAP_RATE = 0.01  # step size of eta
_TARGET_RANGE = "target_low", "target_high"


class Seen(NamedTuple):
    """Extremes of the data so far: the lowest reward, the highest, the largest discount."""

    lowest: float = np.inf
    highest: float = -np.inf
    discount: float = 0.0

    def after(self, rewards: np.ndarray, discounts: np.ndarray) -> Seen:
        """With another lockstep."""
        lowest, highest = float(rewards.min()), float(rewards.max())
        largest = max(self.discount, float(discounts.max()))
        return Seen(min(self.lowest, lowest), max(self.highest, highest), largest)


class EmphaticLearner(LaneLearner):
    """Critics, traces and actor, lockstep by lockstep."""

    rl_module: EmphaticRLModule
    chunk_size = 50

    @override(TorchLearner)
    def build(self) -> None:
        super().build()
        self.seen = Seen()
        self.aligner: LaneAligner = self._learner_connector[LaneAligner][0]
        self.traces: EmphaticTraces = self._learner_connector[EmphaticTraces][0]
        self.traces.state = self.backend.get_memory().traces
        self.recent: dict[str, np.ndarray] = {}
        """The latest locksteps, where what is learned looks back: columns [K, L, ...]."""

    @override(LaneLearner)
    def _make_update(self) -> EmphaticUpdate:
        update = ActionValueUpdate if self.config.uses_action_values else EmphaticUpdate
        return update(self.config.update_settings())

    @override(LaneLearner)
    def _fresh_memory(self) -> Memory:
        parameters = self._current_module.parameters_of("pi")
        size = sum(p.numel() for p in parameters)
        dtype = np.dtype(str(parameters[0].dtype).removeprefix("torch."))
        lanes, direction = np.zeros(self.config.num_lanes, dtype), np.zeros(size, dtype)
        settings, second = self.config.update_settings(), self.config.uses_second_trace
        keeps_first = not (settings.weights_scores or self.config.uses_action_values)
        return Memory(
            fresh_traces(lanes, size if second else None),
            fresh_moments(lanes),
            direction if keeps_first else None,
            direction if second else None,
            np.zeros((), dtype) if settings.controls_overlap else None,
        )

    @override(LaneLearner)
    def chunks(self, columns: dict[str, np.ndarray]) -> Iterator[tuple[Chunk, bool]]:
        config, time, total = self.config, 0, len(columns[CHAIN_START])
        while time < total:
            now = self.num_locksteps
            learn = now >= config.learning_starts
            length = min(self.chunk_size, total - time)
            if not learn:
                length = min(length, config.learning_starts - now)
            elif config.replay_batch_size and not self.replay.size:
                length = 1  # There is nothing to replay at the very first lockstep.
            part = {name: column[time : time + length] for name, column in columns.items()}
            part |= self._interests(part)
            replayed = self._replay(part, learn)
            self.num_locksteps += length
            look, current = self._look(), self._current(part)
            inputs = self._lockstep(
                current, part[CHAIN_START], replayed, now, learn, self._return_ranges(part)
            )
            for some in self._cut(inputs):
                yield Chunk(some, len(some.chain_start), look), learn
            time += length

    def _replay(self, part: dict[str, np.ndarray], learn: bool) -> Transitions | None:
        """[U, N, ...] for U updates, drawn before a lockstep's transitions enter the ring.

        A lockstep has `updates_per_lockstep` updates.
        """
        config, count = self.config, self.config.replay_batch_size
        if not count:
            return None
        before, steps = config.window_length, len(part[CHAIN_START])
        unused = set() if before else {CHAIN_START}
        unused |= set() if config.replays_interest else {INTEREST}
        kept = {name: column for name, column in part.items() if name not in unused}
        updates = config.updates_per_lockstep if learn else 1
        if learn and self.replay.size:
            draw = (self.rng, updates * count)
            if not before:
                drawn = self.replay.draw_and_add(*draw, kept)
                return Transitions.of(self.replay.unpack(drawn.reshape(updates * steps, -1)))
            drawn, exists = self.replay.draw_windows_and_add(*draw, before, kept)
        else:
            self.replay.add(kept)
            if learn:
                return None
            # Nobody learns from these: they are there so that the compiled program stays the same.
            drawn = self.replay.blank(steps, count * (before + 1))
            if not before:
                return Transitions.of(self.replay.unpack(drawn))
            exists = np.zeros((steps, before + 1, count), bool)
        # [T, before + 1, U * count] to [T * U, before + 1, count], lanes and columns inside.
        packed, there = (
            np.moveaxis(a.reshape(steps, before + 1, updates, -1), 2, 1).reshape(
                steps * updates, before + 1, -1
            )
            for a in (drawn, exists)
        )
        columns = self.replay.unpack(packed)
        return _with_windows(columns, there.repeat(config.num_lanes, axis=-1))

    def _current(self, part: dict[str, np.ndarray]) -> Transitions:
        """[T, L, ...] the transitions themselves, with those before them where they are needed."""
        length = self.config.window_length
        if not length:
            return Transitions.of(part)
        columns, exists, self.recent = windows_of(self.recent, part, length)
        return _with_windows(columns, exists)

    def _lockstep(
        self,
        current: Transitions,
        chain_start: np.ndarray,
        replayed: Transitions | None,
        now: int,
        learn: bool,
        ranges: Mapping[str, np.ndarray] = MappingProxyType({}),
    ) -> Lockstep:
        """The inputs of all updates of some locksteps: [U, ...]."""
        config, is_last = self.config, None
        updates = config.updates_per_lockstep if learn else 1  # Without learning once is as good.
        if config.updates_per_lockstep > 1:
            current, chain_start = tree.map_structure(
                lambda c: None if c is None else c.repeat(updates, axis=0), (current, chain_start)
            )
            is_last = np.arange(1, len(chain_start) + 1) % updates == 0
        count = len(chain_start)
        after = now * updates + 1 + np.arange(count)
        numbers = self.numbers_at(now + np.arange(count) // updates)
        numbers["target_rate"] = (after % config.target_update_freq == 0).astype(np.float64)
        if config.tau is not None:
            numbers["target_rate"] = np.full(count, float(config.tau))
        numbers |= {name: column.repeat(updates) for name, column in ranges.items()}
        if config.policy_average is not None:
            done = (after - 1 - config.learning_starts * updates) * learn
            numbers["average_rate"] = config.policy_average / (done + config.policy_average)
        due: Any = 1.0
        if config.uses_action_values:
            due = numbers["actor_is_due"] = (after % config.policy_delay == 0).astype(np.float64)
        if config.overlap_target is not None:
            numbers["overlap_rate"] = np.full(count, _OVERLAP_RATE * learn) * due
        noise = self._noise(now, count, updates, replayed is not None)
        return Lockstep(current, chain_start, replayed, numbers, is_last, noise)

    def _cut(self, inputs: Lockstep) -> Iterator[Lockstep]:
        """The updates, not more at once than a chunk has."""
        total, size = len(inputs.chain_start), self.chunk_size
        if total <= size:
            yield inputs
            return
        for first in range(0, total, size):
            part = slice(first, first + size)
            yield tree.map_structure(lambda c: None if c is None else c[part], inputs)  # noqa: B023

    def _noise(self, now: int, count: int, updates: int, with_replayed: bool) -> np.ndarray | None:
        """Uniform numbers [count, M, d] for actions of pi; None: nobody needs them."""
        config, size = self.config, self._current_module.distribution.noise_size
        if not config.uses_action_values or not size:
            return None
        replayed = config.replay_batch_size + config.actor_replay_batch_size
        rows = config.num_lanes * (2 + replayed * with_replayed)
        noise = action_noise(config.seed, now, count // updates, updates * rows * size)
        return noise.reshape(count, rows, size)

    def _return_ranges(self, part: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The range of returns after every lockstep, [T] each; none where nobody asks for it."""
        if not (self.config.uses_action_values and self.config.clip_action_values):
            return {}
        ranges = []
        for rewards, discounts in zip(part[Columns.REWARDS], part[DISCOUNT], strict=True):
            self.seen = self.seen.after(rewards, discounts)
            ranges.append(return_range(*self.seen))
        return dict(zip(_TARGET_RANGE, np.array(ranges).T, strict=True))

    def _interests(self, part: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The columns of i(S_t) and, where it is asked for, of i(S_{t+1})."""
        states = {INTEREST: part[Columns.OBS]}
        if self.config.replays_interest:
            states[NEXT_INTEREST] = part.get(CHAIN_OBS, part[Columns.NEXT_OBS])
        # Lockstep by lockstep: how a fragment was cut must not show in the user's function.
        return {
            name: np.stack([self._interest(observations) for observations in rows])
            for name, rows in states.items()
        }

    def _interest(self, observations: np.ndarray) -> np.ndarray:
        """i(S) [N]: 1, or what the user's `interest_fn` says of observations [N, ...]."""
        if self.config.interest_fn is None:
            return np.ones(len(observations), self.config.dtype)
        if observations.dtype != np.int64:  # which are the states of a Discrete space
            observations = observations.astype(self.config.dtype)
        values = np.asarray(self.config.interest_fn(observations), self.config.dtype)
        return values.reshape(len(observations))

    def _look(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None] | None:
        """Some replayed states, the interest in them and noise for actions, for metrics."""
        if not self.replay.size:
            return None
        # A generator of its own: looking must not change what is learned.
        rng = np.random.default_rng(self.num_locksteps)
        states = self.replay.sample(rng, _LOOKED_AT)[Columns.OBS]
        size = self._current_module.distribution.noise_size
        noise = rng.random((len(states), size)) if self.config.uses_action_values and size else None
        return states, self._interest(states), noise

    @override(LaneLearner)
    def _summarize(self, reports: list[Report]) -> dict[str, float]:
        """Means over the locksteps of one call, and the summary of its last chunk."""
        steps = [report.of_steps() for report in reports]
        names = dict.fromkeys(name for columns in steps for name in columns)
        # Before anything is learned there is no loss.
        metrics = {function.loss: 0.0 for function in self.config.learned_functions}
        for name in names:
            column = np.concatenate([columns[name] for columns in steps if name in columns])
            metrics[name] = float(column.mean(dtype=np.float64))
        square = metrics.pop("rho_square_mean")
        metrics["rho_effective_sample_fraction"] = metrics["rho_mean"] ** 2 / (square or 1.0)
        return metrics | reports[-1].of_chunk()

    def sum_policy_gradient_terms(self, fragments: list[Fragment]) -> np.ndarray:
        """Z1 and Z2 by the code that learns, learning nothing, summed over time: [2, L, P]."""
        columns = self.aligner.align(sorted(fragments, key=lambda f: f.lanes[0]))
        total: Any = 0.0
        for start in range(0, len(columns[CHAIN_START]), self.chunk_size):
            part = {n: c[start : start + self.chunk_size] for n, c in columns.items()}
            inputs = self.probed(part, fragments[0].start + start)
            total = total + self.backend.sum_terms(Chunk(inputs, len(part[CHAIN_START])))
        return total

    def probed(self, part: dict[str, np.ndarray], now: int = 0) -> Lockstep:
        """The inputs for locksteps from which nothing is learned; `now` is the first of them."""
        current = self._current(part | self._interests(part))
        return self._lockstep(current, part[CHAIN_START], None, now, learn=False)

    def get_memory(self) -> Memory:
        """Traces and moments, as numpy arrays."""
        return self.backend.get_memory()

    def set_memory(self, memory: Memory) -> None:
        """Puts traces and moments back."""
        self.backend.set_memory(memory)

    @override(LaneLearner)
    def _get_progress(self) -> dict[str, Any]:
        memory = self.backend.get_memory()
        numbers = {name: float(value) for name, value in memory.moments._asdict().items()}
        progress = {**super()._get_progress(), "moments": numbers, "seen": tuple(self.seen)}
        if memory.multiplier is not None:
            progress["overlap_multiplier"] = float(memory.multiplier)
        if self.recent:
            progress["recent"] = self.recent
        return progress

    @override(LaneLearner)
    def _set_progress(self, progress: dict[str, Any]) -> None:
        super()._set_progress(progress)
        self.seen = Seen(*progress.get("seen", ()))
        self.recent = progress.get("recent", {})
        memory = self.backend.get_memory()
        numbers = (np.asarray(progress["moments"][name]) for name in Moments._fields)
        memory = memory._replace(moments=Moments(*numbers))
        if memory.multiplier is not None:
            multiplier = np.asarray(progress.get("overlap_multiplier", 0.0))
            memory = memory._replace(multiplier=multiplier)
        self.backend.set_memory(memory)

    @override(LaneLearner)
    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> StateDict:
        if self._check_component(COMPONENT_LEARNER_CONNECTOR, components, not_components):
            self.traces.state = self.backend.get_memory().traces
        return super().get_state(components, not_components=not_components, **kwargs)

    @override(LaneLearner)
    def set_state(self, state: StateDict) -> None:
        super().set_state(state)
        if COMPONENT_LEARNER_CONNECTOR in state:
            memory = self.backend.get_memory()
            self.backend.set_memory(memory._replace(traces=self.traces.state))


def _with_windows(columns: dict[str, np.ndarray], exists: np.ndarray) -> Transitions:
    """The last of the rows [T, n + 1, N, ...], with the others as what was before them."""
    earlier = {name: column[:, :-1] for name, column in columns.items()}
    restarts, there = columns[CHAIN_START][:, 1:], exists[:, :-1]
    connected = earlier[VALID] * ~restarts * there
    window = Window(Transitions.of(earlier), connected, there.astype(connected.dtype))
    return Transitions.of({name: column[:, -1] for name, column in columns.items()}, window)
