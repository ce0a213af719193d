"""Collects experience with the learned policy plus noise: the usual exploration of DDPG and TD3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.utils.annotations import override

from rllib_geoffpac.env_runners.behavior_env_runner import BehaviorEnvRunner
from rllib_geoffpac.envs.observations import observation_dtype, observation_shape
from rllib_geoffpac.lanes.behavior import BehaviorPolicy, UniformBehavior
from rllib_geoffpac.lanes.positions import ActionLog, LaneAnchor, LanePosition
from rllib_geoffpac.lanes.simulated import SimulatedLane
from rllib_geoffpac.learners.threads import use_one_thread

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

_FIRST_ALLOCATION = 64


class NoisyPolicy:
    """clip(pi(s) + noise), noise ~ N(0, std) times the half width of the box; uniform at first.

    Args:
        env: The environment; its actions are a bounded Box.
        std: Standard deviation of the noise, relative to the half width of the box.
    """

    def __init__(self, env: gym.Env, std: float):
        self.std, self.uniform = std, UniformBehavior(env.action_space)
        space = env.observation_space
        self._shape, self._dtype = (1, *observation_shape(space)), observation_dtype(space)
        self.module: Any = None
        """The policy to explore around; None: uniform actions."""

    def sample(self, observation: Any, rng: np.random.Generator) -> tuple[Any, float]:
        """Returns an action. Its density is neither known (clipping) nor used: log 1."""
        if self.module is None:
            return self.uniform.sample(observation, rng)[0], 0.0
        # In the dtype in which observations travel: pi acts on what it learns from.
        row = torch.from_numpy(np.asarray(observation, self._dtype).reshape(self._shape))
        row = row.to(self.module.dtype)
        mean = self.module.forward_inference({Columns.OBS: row})[Columns.ACTION_DIST_INPUTS]
        noise = self.std * rng.standard_normal(mean.shape)
        return self.module.distribution.mode((mean.numpy() + noise).clip(-1, 1))[0], 0.0


class RepeatedActions:
    """Actions that were taken before, once more."""

    def __init__(self, actions: np.ndarray):
        self._actions = iter(actions)

    def sample(self, observation: Any, rng: np.random.Generator) -> tuple[Any, float]:
        """Returns the next of them."""
        return next(self._actions), 0.0


class ExploringLane(SimulatedLane):
    """A lane that logs the actions of its episode, as they can't be drawn again from a seed."""

    _taken: np.ndarray

    def action_log(self) -> ActionLog:
        """What brings the lane back to where it stands."""
        return ActionLog(self._taken[: self.step], self._rng.bit_generator.state)

    @override(SimulatedLane)
    def seek(self, position: LanePosition, log: ActionLog | None = None) -> None:
        exploring = self.behavior
        if log is not None:
            self.behavior = RepeatedActions(log.actions)
        super().seek(position)
        self.behavior = exploring
        if log is not None and (self.episode, self.step) == position[:2]:
            self._rng.bit_generator.state = log.rng_state

    @override(SimulatedLane)
    def _next_action(self) -> tuple[Any, float]:
        action, log_density = self.behavior.sample(self._observation, self._rng)
        if self.step == len(self._taken):
            self._taken = np.concatenate([self._taken, np.empty_like(self._taken)])
        self._taken[self.step] = action
        return action, log_density

    @override(SimulatedLane)
    def _reset(self) -> None:
        # A new array for every episode: the logs of earlier anchors stay as they are.
        space = self.env.action_space
        self._taken = np.empty((_FIRST_ALLOCATION, *(space.shape or ())), space.dtype)
        super()._reset()


class ExploringEnvRunner(BehaviorEnvRunner):
    """Steps its share of the lanes with the policy of the weights that come with each request.

    The data depend on the weights, but still on nothing else: a runner that was lost and rebuilt
    gets the same weights and the lanes' action logs, and answers with the same data.
    """

    lane_class = ExploringLane

    @override(EnvRunner)
    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any):
        super().__init__(config=config, **kwargs)
        use_one_thread()
        if self._lanes:
            spec = self.config.get_rl_module_spec(
                env=self._simulated_lanes[0].env, spaces=self.get_spaces(), inference_only=True
            )
            self.acting_module = spec.build()

    @property
    def _exploring_lanes(self) -> list[ExploringLane]:
        """The lanes, as what they are here."""
        return cast("list[ExploringLane]", self._lanes)

    @override(BehaviorEnvRunner)
    def _make_behavior(self, env: gym.Env) -> BehaviorPolicy:
        # RLlib: explore=False takes the policy's own actions.
        return NoisyPolicy(env, self.config.exploration_noise if self.config.explore else 0.0)

    @override(BehaviorEnvRunner)
    def behavior_of_samples(self, env: gym.Env, explore: bool) -> BehaviorPolicy:
        policy = NoisyPolicy(env, self.config.exploration_noise if explore else 0.0)
        policy.module = self.acting_module
        return policy

    @override(BehaviorEnvRunner)
    def sample(
        self,
        *,
        start: int | None = None,
        num_locksteps: int = 0,
        anchor: LaneAnchor | None = None,
        weights: list[np.ndarray] | None = None,
        **rllibs: Any,
    ) -> Any:
        """Returns the fragment of locksteps [start, start + num_locksteps) of this runner's lanes.

        Args:
            start: First lockstep. A fragment lies wholly in the warm-up or wholly after it. None:
                RLlib's way, a list of episodes.
            num_locksteps: How many.
            anchor: The position of these lanes at `start`.
            weights: pi's parameters at `start`.
            rllibs: The arguments of `sample_episodes`.
        """
        if start is None or weights is None:
            return self.sample_episodes(**rllibs)
        with torch.no_grad():
            for parameter, values in zip(self.acting_module.pi.parameters(), weights, strict=True):
                parameter.copy_(torch.as_tensor(values))
        explores = start >= self.config.warm_up_locksteps
        for lane in self._exploring_lanes:
            assert isinstance(lane.behavior, NoisyPolicy)
            lane.behavior.module = self.acting_module if explores else None
        fragment = super().sample(start=start, num_locksteps=num_locksteps, anchor=anchor)
        fragment.end.action_logs = [lane.action_log() for lane in self._exploring_lanes]
        return fragment

    @override(BehaviorEnvRunner)
    def _seek_lane(self, index: int, anchor: LaneAnchor) -> None:
        log = None if anchor.action_logs is None else anchor.action_logs[index]
        self._exploring_lanes[index].seek(anchor.position(index), log)
