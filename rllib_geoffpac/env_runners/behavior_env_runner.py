"""Collects the behaviour policy's experience: own lanes, no weights, no RLModule."""

from __future__ import annotations

import time
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import gymnasium as gym
import numpy as np
from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.utils.annotations import override
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.debug import update_global_seed_if_necessary

from rllib_geoffpac.connectors.pipelines import spaces_of
from rllib_geoffpac.env_runners.callbacks import (
    RunnerCallbacks,
    WatchedLane,
    WatchedRecordingLane,
)
from rllib_geoffpac.env_runners.incarnation import Incarnated
from rllib_geoffpac.env_runners.rllib_view import RLlibView
from rllib_geoffpac.envs.make_env import make_env
from rllib_geoffpac.lanes.behavior import BehaviorPolicy, make_behavior
from rllib_geoffpac.lanes.fragments import Fragment, LaneColumns, Spent
from rllib_geoffpac.lanes.logged import LoggedLane
from rllib_geoffpac.lanes.positions import LaneAnchor, split_lanes
from rllib_geoffpac.lanes.recorded import RecordedLane
from rllib_geoffpac.lanes.recorded_stream import RecordedStream
from rllib_geoffpac.lanes.recording import EpisodeRecorder, RecordedEpisode, RecordingLane
from rllib_geoffpac.lanes.simulated import SimulatedLane
from rllib_geoffpac.lanes.stream_identity import describe_stream

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig


class BehaviorEnvRunner(RLlibView, Incarnated, EnvRunner, Checkpointable):
    """Steps its share of the lanes with the behaviour policy.

    A request says which locksteps it wants and carries an anchor, a place from where they can be
    simulated. So a runner that was lost and rebuilt answers the same request with the same data.
    """

    lane_class = SimulatedLane
    _env_of_spaces: gym.Env | None = None
    """An environment for its spaces, where the lanes may have none."""

    @override(EnvRunner)
    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any):
        self._lanes: list[SimulatedLane] | list[RecordedLane] | list[LoggedLane] = []
        # With a seed the base class would make torch deterministic, which imports torch's compiler:
        # 1.5 s of CPU time in every env runner, and nothing here computes with torch.
        unseeded = config.copy(copy_frozen=False)
        unseeded.seed = None
        super().__init__(config=unseeded, **kwargs)
        self.config.seed = config.seed
        update_global_seed_if_necessary(seed=config.seed + (self.worker_index or 0))
        self.callbacks = RunnerCallbacks(self)
        self.pipelines: dict[str, ConnectorPipelineV2] = {}
        self._lockstep: int | None = 0
        num_lanes = self.config.num_lanes
        if not self.num_workers:
            self.lane_numbers = range(num_lanes)
        elif self.worker_index:
            self.lane_numbers = split_lanes(num_lanes, self.num_workers)[self.worker_index - 1]
        else:  # The local runner beside remote ones owns nothing.
            self.lane_numbers = range(0)
        self.make_env()

    @override(EnvRunner)
    def make_env(self) -> None:
        self.stop()
        self._lanes = self._make_lanes()
        self._lockstep = 0

    def _make_lanes(self) -> list[SimulatedLane] | list[RecordedLane]:
        config, lanes = self.config, self.lane_numbers
        if config.experience_cache is None or not lanes:
            return [self._make_lane(lane) for lane in lanes]
        # An environment for its spaces; whether the lanes need any of their own is still open.
        self._env_of_spaces = self._make_one_env()
        description = describe_stream(config, self._env_of_spaces)
        limit = config.experience_cache_max_gb * 1e9
        stream = RecordedStream(config.experience_cache, description, limit)
        return [RecordedLane(partial(self._make_lane, lane), stream, lane) for lane in lanes]

    def _make_one_env(self) -> gym.Env:
        return make_env(self.config, self.worker_index or 0, self.num_workers or 0)

    def _make_lane(self, lane: int) -> SimulatedLane:
        config = self.config
        index = lane - self.lane_numbers.start
        env_factory = self.callbacks.watched(self._make_one_env, index)
        failures = config.max_env_failures_in_a_row if config.restart_failed_sub_environments else 0
        watched = self.callbacks.see_episodes
        if config.output is not None:
            recording_class = WatchedRecordingLane if watched else RecordingLane
            return recording_class(
                lambda: EpisodeRecorder(env_factory()),
                self._make_behavior,
                config.seed,
                lane,
                failures,
            )
        lane_class = self.lane_class
        if watched and lane_class is SimulatedLane:  # noise around pi has no known density
            lane_class = WatchedLane
        return lane_class(env_factory, self._make_behavior, config.seed, lane, failures)

    def _make_behavior(self, env: gym.Env) -> BehaviorPolicy:
        return make_behavior(self.config.behavior, env)

    @override(EnvRunner)
    def sample(
        self,
        *,
        start: int | None = None,
        num_locksteps: int = 0,
        anchor: LaneAnchor | None = None,
        **rllibs: Any,
    ) -> Any:
        """Returns the fragment of locksteps [start, start + num_locksteps) of this runner's lanes.

        Args:
            start: First lockstep. None: RLlib's way, a list of episodes; see `sample_episodes`.
            num_locksteps: How many.
            anchor: A position of these lanes at or before `start`.
            rllibs: The arguments of `sample_episodes`.
        """
        if start is None or anchor is None:
            return self.sample_episodes(**rllibs)
        began = time.perf_counter()
        if start != self._lockstep:
            with self.callbacks.silent():
                self._seek(start, anchor)
            self._take_episodes()  # handed out before
        fragment = self._run(num_locksteps)
        # Here, and not in `_run`: a seek that runs on from its anchor hands out no fragment.
        for lane in self._lanes:
            fragment.events.update(lane.events.take())
        fragment.episodes = self._take_episodes()
        if self.callbacks:
            self.callbacks.sample_end()
            fragment.metrics = self.metrics.reduce()
        fragment.seconds = time.perf_counter() - began
        return fragment

    def _seek(self, start: int, anchor: LaneAnchor) -> None:
        for index in range(len(self._lanes)):
            self._seek_lane(index, anchor)
        self._lockstep = anchor.lockstep
        if start > anchor.lockstep:
            self._run(start - anchor.lockstep)

    def _seek_lane(self, index: int, anchor: LaneAnchor) -> None:
        lane = self._lanes[index]
        if isinstance(lane, RecordedLane):
            lane.lockstep = anchor.lockstep
        lane.seek(anchor.position(index))

    @property
    def recording_lanes(self) -> list[RecordingLane]:
        """The lanes, where their episodes are to be written (`output`)."""
        return [lane for lane in self._lanes if isinstance(lane, RecordingLane)]

    def _take_episodes(self) -> list[RecordedEpisode]:
        return [episode for lane in self.recording_lanes for episode in lane.take()]

    @property
    def _simulated_lanes(self) -> list[SimulatedLane]:
        """The lanes, where nothing is recorded."""
        return cast("list[SimulatedLane]", self._lanes)

    def _run(self, num_locksteps: int) -> Fragment:
        # Nowhere, if one of the lanes fails: then they don't stand at the same lockstep any more.
        start, self._lockstep = self._lockstep, None
        assert start is not None
        columns = [lane.run(num_locksteps) for lane in self._lanes]
        fragment = _pack(start, self._lanes, columns)
        self._lockstep = start + num_locksteps
        fragment.end.lockstep = self._lockstep
        sources = {lane.data_source for lane in self._lanes}
        fragment.data_source = sources.pop() if len(sources) == 1 else "mixed"
        return fragment

    @override(EnvRunner)
    def get_spaces(self) -> dict:
        env = self._env_of_spaces or self._simulated_lanes[0].env
        return spaces_of(self.config, (env.observation_space, env.action_space))

    @override(EnvRunner)
    def get_metrics(self) -> dict:
        return self.metrics.reduce()

    @override(EnvRunner)
    def assert_healthy(self) -> None:
        assert len(self._lanes) == len(self.lane_numbers)

    @override(EnvRunner)
    def stop(self) -> None:
        for lane in self._lanes:
            lane.close()
        if self._env_of_spaces is not None:
            self._env_of_spaces.close()
        self.close_extra_lane()
        self._lanes, self._env_of_spaces = [], None

    # The runner has no state of its own: the algorithm keeps the lanes' anchor, and the pipelines
    # are the algorithm's, which lie here because RLlib's checkpoints have them here.
    @override(Checkpointable)
    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict:
        return {
            name: pipeline.get_state()
            for name, pipeline in self.pipelines.items()
            if self._check_component(name, components, not_components)
        }

    @override(Checkpointable)
    def set_state(self, state: dict) -> None:
        for name, pipeline in self.pipelines.items():
            if name in state:
                pipeline.set_state(state[name])

    @override(Checkpointable)
    def get_checkpointable_components(self) -> list:
        return list(self.pipelines.items())

    @override(Checkpointable)
    def get_ctor_args_and_kwargs(self) -> tuple:
        return (), {"config": self.config, "worker_index": self.worker_index}


def _pack(start: int, lanes: list, columns: list[LaneColumns]) -> Fragment:
    """Packs the lanes' columns into contiguous time-major arrays."""
    numbers = np.array([lane.lane for lane in lanes])
    final = [(t, index) for index, c in enumerate(columns) for t in sorted(c.final)]
    first = columns[0].observations
    finals = [columns[index].final[t] for t, index in final]
    return Fragment(
        start=start,
        lanes=numbers,
        observations=np.stack([c.observations for c in columns], axis=1),
        actions=np.stack([c.actions for c in columns], axis=1),
        rewards=np.array([c.rewards for c in columns], np.float32).T.copy(),
        discounts=np.array([c.discounts for c in columns], np.float32).T.copy(),
        behavior_logp=np.array([c.behavior_logp for c in columns], np.float32).T.copy(),
        terminated=np.stack([c.terminated for c in columns], axis=1),
        truncated=np.stack([c.truncated for c in columns], axis=1),
        chain_start=np.stack([c.chain_start for c in columns], axis=1),
        spent=sum((c.spent for c in columns), Spent()),
        final_index=np.array(final, np.int64).reshape(len(final), 2),
        final_observations=np.array(finals, first.dtype).reshape(len(final), *first.shape[1:]),
        end=LaneAnchor.of(start, numbers, [lane.position for lane in lanes]),
        finished=sorted(
            (start + t, lane.lane, ret, length)
            for lane, c in zip(lanes, columns, strict=True)
            for t, ret, length in c.finished
        ),
    )
