"""Rolls the target policy out for evaluation: whole episodes, each with its own seed."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import ray
import torch
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env import INPUT_ENV_SPACES
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.utils.annotations import override
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.typing import StateDict

from rllib_geoffpac.env_runners.incarnation import Incarnated
from rllib_geoffpac.envs.make_env import make_env, observation_dtype, observation_shape
from rllib_geoffpac.lanes.seeding import DrawnAhead, evaluation_stream
from rllib_geoffpac.lanes.simulated import EnvironmentFailure
from rllib_geoffpac.learners.threads import use_one_thread
from rllib_geoffpac.modules.numpy_forward import Forward, numpy_policy

logger = logging.getLogger(__name__)

# A continuing environment has no end: evaluation episodes are cut here unless told otherwise.
_DEFAULT_HORIZON = 1000


@dataclass
class EvaluationEpisode:
    """One episode of pi."""

    index: int
    rewards: list[float]
    discounts: list[float]
    round_: int = 0
    failures: int = 0  # how often its environment failed before the episode was played to its end

    @property
    def episode_return(self) -> float:
        return float(np.sum(self.rewards))

    def env_steps(self) -> int:
        return len(self.rewards)

    agent_steps = env_steps


class TargetPolicyEnvRunner(Incarnated, EnvRunner, Checkpointable):
    """Runs episode k of an evaluation round as a pure function of (weights, seed, round, k).

    All episodes of a round are rows of one batch of fixed size, episode k in row k, whichever
    runner plays it: the results don't depend on how many evaluation runners there are.
    """

    @override(EnvRunner)
    def __init__(self, *, config: Any, **kwargs: Any):
        super().__init__(config=config, **kwargs)
        self.env: gym.Env | None = None
        use_one_thread()  # the number of threads changes the last bits of large batches
        self._envs: dict[int, gym.Env] = {}
        self._forward: Forward = self._torch_forward
        self.make_env()
        self.make_module()

    @override(EnvRunner)
    def make_env(self) -> None:
        self.stop()
        self._make_env = partial(make_env, self.config, self.worker_index or 0)
        self.env = self._make_env()
        self._horizon, self._gamma = self._longest_episode(), self.config.gamma

    @override(EnvRunner)
    def make_module(self) -> None:
        spec = self.config.get_rl_module_spec(
            env=self.env, spaces=self.get_spaces(), inference_only=True
        )
        self.module = spec.build()
        # Here, once: RLlib's forward passes would switch it to and fro in every step.
        self.module.eval()

    @override(EnvRunner)
    def sample(
        self,
        *,
        episodes: list[int] | None = None,
        round_: int = 0,
        num_episodes: int | None = None,
        weights: StateDict | None = None,
        **kwargs: Any,
    ) -> list[EvaluationEpisode]:
        """Plays the given episodes of a round (or the first `num_episodes`).

        Args:
            episodes: Their numbers.
            round_: The evaluation round.
            num_episodes: How many, if `episodes` is None.
            weights: Of the module; None: those that it has.
        """
        if weights is not None:
            self.set_state({COMPONENT_RL_MODULE: weights})
        if episodes is None:
            episodes = list(range(num_episodes or self.config.evaluation_duration))
        if not episodes:
            return []
        module = self.module
        self._forward = numpy_policy(module) or self._torch_forward
        self._std = None if module.std_parameter is None else module.std_parameter.detach().numpy()
        space, rows = self.get_spaces()[DEFAULT_MODULE_ID][0], self.config.evaluation_duration
        rows = max(rows, max(episodes) + 1)
        batch = np.zeros((rows, *observation_shape(space)), observation_dtype(space))
        playing = {index: EvaluationEpisode(index, [], [], round_) for index in episodes}
        draws = {index: self._start(playing[index], batch) for index in episodes}
        done = []
        while playing:
            self._check_observations(playing, batch)
            actions = self._actions(batch, draws)
            for action, episode in zip(actions, list(playing.values()), strict=True):
                index = episode.index
                try:
                    ended = self._step(episode, action, batch)
                except EnvironmentFailure:
                    raise
                except Exception as error:
                    self._fail(episode, error, "step")
                    draws[index] = self._start(episode, batch)
                    continue
                if ended:
                    self._check_observations({index: episode}, batch)
                    done.append(playing.pop(index))
                    del draws[index]
        return done

    def _start(self, episode: EvaluationEpisode, batch: np.ndarray) -> DrawnAhead:
        """Resets an episode's environment, and says how its actions are drawn."""
        index = episode.index
        while True:
            reset_seed, generator = evaluation_stream(self.config.seed, episode.round_, index)
            try:
                self._envs[index] = self._envs.get(index) or self._make_env()
                observation, _ = self._envs[index].reset(seed=reset_seed)
                batch[index] = np.reshape(observation, batch.shape[1:])
            except Exception as error:
                self._fail(episode, error, "reset")
                continue
            return DrawnAhead(generator)

    def _step(self, episode: EvaluationEpisode, action: Any, batch: np.ndarray) -> bool:
        """Makes one transition; returns whether it was the last."""
        observation, reward, terminated, truncated, info = self._envs[episode.index].step(action)
        batch[episode.index] = np.reshape(observation, batch.shape[1:])
        reward = float(reward)
        discount = 0.0 if terminated else float(info.get("discount", self._gamma))
        episode.rewards.append(reward)
        episode.discounts.append(discount)
        # What would make J_pi meaningless is refused.
        if not math.isfinite(reward):
            raise self._failure(episode, f"the reward is {reward}")
        if not 0 <= discount <= 1:
            raise self._failure(episode, f"the discount is {discount}, not in [0, 1]")
        return terminated or truncated or len(episode.rewards) >= self._horizon

    def _check_observations(self, playing: dict[int, EvaluationEpisode], batch: np.ndarray) -> None:
        """Refuses what pi can't act on."""
        if np.isfinite(batch).all():  # at once: it takes as long as looking at one row
            return
        for index, episode in playing.items():
            if not np.isfinite(batch[index]).all():
                raise self._failure(episode, f"the observation is {batch[index]}")

    def _fail(self, episode: EvaluationEpisode, error: Exception, where: str) -> None:
        """Prepares an episode to be played again in a fresh environment, if that is configured."""
        episode.failures += 1
        config = self.config
        allowed = config.max_env_failures_in_a_row if config.restart_failed_sub_environments else 0
        if episode.failures > allowed:
            what = f"{where} raised {type(error).__name__}: {error}"
            raise self._failure(episode, what) from error
        logger.warning("%s; it is played again.", self._failure(episode, f"{where} raised {error}"))
        env = self._envs.pop(episode.index, None)
        if env is not None:
            env.close()
        episode.rewards, episode.discounts = [], []

    def _failure(self, episode: EvaluationEpisode, what: str) -> EnvironmentFailure:
        reset_seed, _ = evaluation_stream(self.config.seed, episode.round_, episode.index)
        return EnvironmentFailure(
            f"{self.config.env}, evaluation round {episode.round_}, episode {episode.index}, step "
            f"{len(episode.rewards)}: {what}. To reproduce: reset(seed={reset_seed}), then the "
            "policy's actions"
        )

    def _actions(self, batch: np.ndarray, draws: dict[int, DrawnAhead]) -> np.ndarray:
        distribution, std = self.module.distribution, self._std
        outputs = self._forward(batch)[list(draws)]
        if not self.config.explore:  # RLlib: evaluation_config={"explore": False}
            return distribution.to_env(distribution.mode(outputs, std))
        return distribution.to_env(distribution.sample(outputs, std, list(draws.values())))

    def _torch_forward(self, batch: np.ndarray) -> np.ndarray:
        observations = torch.from_numpy(batch)
        if observations.is_floating_point():
            observations = observations.to(self.module.dtype)
        outputs = self.module.forward_inference({Columns.OBS: observations})
        return outputs[Columns.ACTION_DIST_INPUTS].numpy()

    def _longest_episode(self) -> float:
        if self.config.evaluation_horizon is not None:
            return self.config.evaluation_horizon
        spec = None if self.env is None else self.env.spec
        limited = spec is not None and spec.max_episode_steps is not None
        return math.inf if limited else _DEFAULT_HORIZON

    @override(EnvRunner)
    def get_spaces(self) -> dict:
        assert self.env is not None
        spaces = (self.env.observation_space, self.env.action_space)
        return {INPUT_ENV_SPACES: spaces, DEFAULT_MODULE_ID: spaces}

    @override(EnvRunner)
    def get_metrics(self) -> dict:
        return self.metrics.reduce()

    @override(EnvRunner)
    def assert_healthy(self) -> None:
        assert self.env is not None and self.module is not None

    @override(EnvRunner)
    def stop(self) -> None:
        for env in [self.env, *self._envs.values()]:
            if env is not None:
                env.close()
        self.env, self._envs = None, {}

    @override(Checkpointable)
    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict:
        return {}  # the weights are the learner's

    @override(Checkpointable)
    def set_state(self, state: dict) -> None:
        weights = state.get(COMPONENT_RL_MODULE)
        if isinstance(weights, ray.ObjectRef):
            weights = ray.get(weights)
        if weights is not None:
            self.module.set_state(weights.get(DEFAULT_MODULE_ID, weights))

    @override(Checkpointable)
    def get_ctor_args_and_kwargs(self) -> tuple:
        return (), {"config": self.config, "worker_index": self.worker_index}
