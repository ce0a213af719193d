"""What code written for RLlib's env runners finds in one of lanes: `module`, `env`, `sample()`.

Episodes that are asked for are played in a lane of their own: no lane that is learned from moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_geoffpac.env_runners.callbacks import LaneEnvs, RunnerCallbacks, WatchedEnv, WatchedLane
from rllib_geoffpac.lanes.behavior import BehaviorPolicy, UniformBehavior
from rllib_geoffpac.lanes.simulated import SimulatedLane

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig


class RLlibView:
    """The part of an env runner of lanes that its own algorithm does not need.

    Attributes:
        acting_module: The module that acts here; none, where mu is fixed.
        target_policy: Gives pi with its present weights, in the algorithm's own process.
    """

    acting_module: Any = None
    target_policy: Callable[[], Any] | None = None
    lane_class: type[SimulatedLane]
    config: AlgorithmConfig
    worker_index: int | None
    callbacks: RunnerCallbacks
    lane_numbers: range
    _lanes: list[Any]
    _extra_lane: ExtraLane | None = None

    @property
    def module(self) -> Any:
        """pi with its present weights, or the module that acts."""
        if self.acting_module is not None:
            return self.acting_module
        if self.target_policy is None:
            # The kind of error that asking for what is not there has.
            raise AttributeError(
                "An env runner of a fixed behaviour policy has no module: `algorithm.get_module()` "
                "gives the target policy with its present weights."
            )
        return self.target_policy()

    @property
    def num_envs(self) -> int:
        """How many lanes there are here."""
        return len(self.lane_numbers)

    @property
    def env(self) -> LaneEnvs | None:
        """The lanes' environments in the form of RLlib's; None where nothing is simulated."""
        envs = [lane.env for lane in self._lanes if isinstance(lane, SimulatedLane)]
        return LaneEnvs(envs) if envs else None

    @env.setter
    def env(self, env: None) -> None:
        """Nothing: RLlib's constructor begins with None."""

    def sample_episodes(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> list[SingleAgentEpisode]:
        """Returns episodes of the behaviour policy, as RLlib's env runners do.

        Args:
            num_timesteps: How many steps; the last episode may go on in the next call.
            num_episodes: How many whole episodes. None for both: as many steps as a fragment has.
            explore: Whether there is noise on the actions of the learned policy, if it acts; None:
                as configured.
            random_actions: Uniform actions.
            force_reset: Begin with a new episode.
        """
        if num_timesteps is not None and num_episodes is not None:
            raise ValueError("`num_timesteps` and `num_episodes` are given; allowed is one.")
        if num_timesteps is None and num_episodes is None:
            num_timesteps = self.config.fragment_length(0) * max(1, self.num_envs)
        if self._extra_lane is None:
            self._extra_lane = self._make_extra_lane()
        lane = self._extra_lane.lane
        if random_actions:
            lane.behavior = UniformBehavior(lane.env.action_space)
        else:
            explore = self.config.explore if explore is None else explore
            lane.behavior = self.behavior_of_samples(lane.env, explore)
        return self._extra_lane.sample(num_timesteps, num_episodes, force_reset)

    def _make_extra_lane(self) -> ExtraLane:
        # Its number is no lane's, and another one in each env runner.
        number = self.config.num_lanes + (self.worker_index or 0)
        lane_class = WatchedLane if self.lane_class is SimulatedLane else self.lane_class

        def make_lane(make_env: Callable[[], gym.Env]) -> SimulatedLane:
            return lane_class(make_env, self._make_behavior, self.config.seed, number)

        return ExtraLane(self._make_one_env, make_lane, self.callbacks)

    def close_extra_lane(self) -> None:
        """Closes the environment of the episodes that were asked for."""
        if self._extra_lane is not None:
            self._extra_lane.lane.close()
            self._extra_lane = None

    def behavior_of_samples(self, env: gym.Env, explore: bool) -> BehaviorPolicy:
        """The behaviour policy of episodes that are asked for; a fixed one has no noise."""
        return self._make_behavior(env)

    def _make_one_env(self) -> gym.Env:
        """Makes an environment."""
        raise NotImplementedError

    def _make_behavior(self, env: gym.Env) -> BehaviorPolicy:
        """Makes the behaviour policy of an environment."""
        raise NotImplementedError


class ExtraLane:
    """A lane whose episodes are handed out, with what RLlib's hold.

    Args:
        make_env: Makes the environment.
        make_lane: Makes a lane of the environments that a function makes.
        callbacks: Of the env runner: they are told about these episodes as about others.
    """

    def __init__(
        self,
        make_env: Callable[[], gym.Env],
        make_lane: Callable[[Callable[[], gym.Env]], SimulatedLane],
        callbacks: RunnerCallbacks,
    ):
        self._callbacks = callbacks
        self._ended: list[SingleAgentEpisode] = []
        self._begun = False
        self.lane = make_lane(lambda: WatchedEnv(make_env(), self, 0))

    def episode(self, hook: str, episode: SingleAgentEpisode, index: int) -> None:
        """Hears of an episode, and passes it on."""
        self._callbacks.episode(hook, episode, index)
        if hook == "on_episode_end":
            self._ended.append(episode)

    def sample(
        self, num_timesteps: int | None, num_episodes: int | None, force_reset: bool
    ) -> list[SingleAgentEpisode]:
        """The next steps, or the next whole episodes."""
        if self._begun and (force_reset or num_timesteps is None):
            self.lane.skip_episode()
        self._begun, self._ended = True, []
        if num_timesteps is not None:
            self.lane.run(num_timesteps)
            episodes = [*self._ended, *self._so_far()]
        else:
            while len(self._ended) < (num_episodes or 0):
                self.lane.run(1)
            episodes = self._ended
        self._callbacks.sample_end()
        return episodes

    def _so_far(self) -> list[SingleAgentEpisode]:
        """The steps of the episode that goes on; it continues in another object, as in RLlib."""
        env: Any = self.lane.env
        episode = env.episode
        if not len(episode):
            return []
        env.episode = episode.cut()
        return [episode]
