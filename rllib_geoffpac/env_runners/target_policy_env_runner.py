"""Rolls the target policy out for evaluation: whole episodes, each with its own seed."""

from __future__ import annotations

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

from rllib_geoffpac.env_runners.make_env import make_env, observation_dtype, observation_shape
from rllib_geoffpac.lanes import evaluation_stream

# A continuing environment has no end: evaluation episodes are cut here unless told otherwise.
_DEFAULT_HORIZON = 1000


@dataclass
class EvaluationEpisode:
    """One episode of pi."""

    index: int
    rewards: list[float]
    discounts: list[float]

    @property
    def episode_return(self) -> float:
        return float(np.sum(self.rewards))

    def env_steps(self) -> int:
        return len(self.rewards)

    agent_steps = env_steps


class TargetPolicyEnvRunner(EnvRunner, Checkpointable):
    """Runs episode k of an evaluation round as a pure function of (weights, seed, round, k).

    All episodes of a round are rows of one batch of fixed size, episode k in row k, whichever
    runner plays it: the results don't depend on how many evaluation runners there are.
    """

    @override(EnvRunner)
    def __init__(self, *, config: Any, **kwargs: Any):
        super().__init__(config=config, **kwargs)
        self._envs: dict[int, gym.Env] = {}
        self.make_env()
        self.make_module()

    @override(EnvRunner)
    def make_env(self) -> None:
        self.stop()
        self._make_env = partial(make_env, self.config, self.worker_index or 0)
        self.env = self._make_env()

    @override(EnvRunner)
    def make_module(self) -> None:
        spec = self.config.get_rl_module_spec(
            env=self.env, spaces=self.get_spaces(), inference_only=True
        )
        self.module = spec.build()

    @override(EnvRunner)
    def sample(
        self,
        *,
        episodes: list[int] | None = None,
        round_: int = 0,
        num_episodes: int | None = None,
        **kwargs: Any,
    ) -> list[EvaluationEpisode]:
        """Plays the given episodes of a round (or the first `num_episodes`)."""
        if episodes is None:
            episodes = list(range(num_episodes or self.config.evaluation_duration))
        if not episodes:
            return []
        space, rows = self.env.observation_space, self.config.evaluation_duration
        rows = max(rows, max(episodes) + 1)
        batch = np.zeros((rows, *observation_shape(space)), observation_dtype(space))
        playing: dict[int, EvaluationEpisode] = {}
        generators: dict[int, np.random.Generator] = {}
        for index in episodes:
            env = self._envs.setdefault(index, None) or self._make_env()
            self._envs[index] = env
            reset_seed, generators[index] = evaluation_stream(self.config.seed, round_, index)
            observation, _ = env.reset(seed=reset_seed)
            batch[index] = np.reshape(observation, batch.shape[1:])
            playing[index] = EvaluationEpisode(index, [], [])
        done = []
        while playing:
            actions = self._actions(batch, list(playing), generators)
            for action, index in zip(actions, list(playing), strict=True):
                episode = playing[index]
                observation, reward, terminated, truncated, info = self._envs[index].step(action)
                batch[index] = np.reshape(observation, batch.shape[1:])
                episode.rewards.append(float(reward))
                discount = info.get("discount", self.config.gamma)
                episode.discounts.append(0.0 if terminated else float(discount))
                horizon = self._horizon(self._envs[index])
                if terminated or truncated or len(episode.rewards) >= horizon:
                    done.append(playing.pop(index))
        return done

    def _actions(self, batch: np.ndarray, rows: list[int], generators: dict) -> np.ndarray:
        module, distribution = self.module, self.module.distribution
        observations = torch.from_numpy(batch)
        if observations.is_floating_point():
            observations = observations.to(module.dtype)
        outputs = module.forward_inference({Columns.OBS: observations})
        outputs = outputs[Columns.ACTION_DIST_INPUTS].numpy()[rows]
        std = None if module.std_parameter is None else module.std_parameter.detach().numpy()
        if not self.config.explore:  # RLlib: evaluation_config={"explore": False}
            return distribution.to_env(distribution.mode(outputs, std))
        drawn = distribution.sample(outputs, std, [generators[row] for row in rows])
        return distribution.to_env(drawn)

    def _horizon(self, env: gym.Env) -> int:
        if self.config.evaluation_horizon is not None:
            return self.config.evaluation_horizon
        limited = env.spec is not None and env.spec.max_episode_steps is not None
        return np.iinfo(np.int64).max if limited else _DEFAULT_HORIZON

    @override(EnvRunner)
    def get_spaces(self) -> dict:
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
    def get_state(self, components=None, *, not_components=None, **kwargs: Any) -> dict:
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
