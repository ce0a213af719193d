"""Rolls the target policy out for evaluation: whole episodes, each with its own seed."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import ray
import torch
from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env import INPUT_ENV_SPACES
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.utils.annotations import override
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.metrics import RLMODULE_INFERENCE_TIMER
from ray.rllib.utils.typing import StateDict

from rllib_geoffpac.connectors.observer import Observer, PiecesState
from rllib_geoffpac.connectors.pipelines import (
    CONNECTOR_COMPONENTS,
    has_env_to_module,
    has_module_to_env,
    spaces_of,
)
from rllib_geoffpac.env_runners.callbacks import RunnerCallbacks, WatchedEnv
from rllib_geoffpac.env_runners.episode_metrics import EpisodeMetrics
from rllib_geoffpac.env_runners.episodes_of_pi import EpisodesOfPi
from rllib_geoffpac.env_runners.incarnation import Incarnated
from rllib_geoffpac.envs.make_env import make_env
from rllib_geoffpac.envs.observations import make_encoder, observation_dtype, observation_shape
from rllib_geoffpac.lanes.fragments import Spent
from rllib_geoffpac.lanes.seeding import DrawnAhead, evaluation_stream
from rllib_geoffpac.lanes.simulated import EnvironmentFailure
from rllib_geoffpac.learners.threads import use_one_thread
from rllib_geoffpac.maths.distributions import PolicyDistribution
from rllib_geoffpac.modules.numpy_forward import Forward, numpy_policy

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

logger = logging.getLogger(__name__)

# A continuing environment has no end: evaluation episodes are cut here unless told otherwise.
_DEFAULT_HORIZON = 1000

EPISODES_AT_ONCE = 10
"""Rows of a batch where the number of episodes is not known before."""


@dataclass
class EvaluationEpisode:
    """One episode of pi."""

    index: int
    rewards: list[float]
    discounts: list[float]
    round_: int = 0
    row: int = 0  # of the batch
    failures: int = 0  # how often its environment failed before the episode was played to its end
    seconds: float = field(default=0.0, compare=False)  # from its start to its end

    @property
    def episode_return(self) -> float:
        return float(np.sum(self.rewards))

    def env_steps(self) -> int:
        return len(self.rewards)

    agent_steps = env_steps


class TargetPolicyEnvRunner(EpisodesOfPi, Incarnated, EnvRunner, Checkpointable):
    """Runs episode k of an evaluation round as a pure function of (weights, seed, round, k).

    All episodes of a round are rows of one batch of fixed size, episode k in row k, whichever
    runner plays it: the results don't depend on how many evaluation runners there are.
    """

    @override(EnvRunner)
    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any):
        super().__init__(config=config, **kwargs)
        self.env: gym.Env | None = None
        use_one_thread()  # the number of threads changes the last bits of large batches
        self._envs: dict[int, gym.Env] = {}  # by row
        self._watched_envs: dict[int, gym.Env] = {}  # of episodes that are handed out
        self._always_watched = False
        self._acting, self._spent = 0.0, Spent()  # seconds of the latest call
        self._num_samples = 0
        self.callbacks = RunnerCallbacks(self)
        self._forward: Forward = self._torch_forward
        self.make_env()
        self.make_module()

    @override(EnvRunner)
    def make_env(self) -> None:
        self.stop()
        self._make_env = partial(
            make_env, self.config, self.worker_index or 0, self.num_workers or 0
        )
        self.env = self._make_env()
        self._encode = make_encoder(self.env.observation_space)
        self._horizon, self._gamma = self._longest_episode(), self.config.gamma

    @override(EnvRunner)
    def make_module(self) -> None:
        spec = self.config.get_rl_module_spec(
            env=self.env, spaces=self.get_spaces(), inference_only=True
        )
        self.module = spec.build()
        self.observer: Observer | None = None
        if has_env_to_module(self.config) or has_module_to_env(self.config):
            spaces = self.get_spaces()[INPUT_ENV_SPACES]
            self.observer = Observer(
                self.config, spaces, self.module, frozen=True, metrics=self.metrics
            )
        # Here, once: RLlib's forward passes would switch it to and fro in every step.
        self.module.eval()

    @override(EnvRunner)
    def sample(
        self,
        *,
        episodes: list[int] | None = None,
        round_: int = 0,
        weights: StateDict | None = None,
        rows: int | None = None,
        connectors: PiecesState | None = None,
        **rllibs: Any,
    ) -> Any:
        """Plays the given episodes of a round.

        Args:
            episodes: Their numbers. None: RLlib's way, see `sample_episodes`.
            round_: The evaluation round.
            weights: Of the module; None: those that it has.
            rows: Of a batch, on which the last bits of pi's outputs depend; episode k is in row
                k modulo this. None: as many as there are episodes in an evaluation.
            connectors: The state of their pieces; None: that which they have.
            rllibs: The arguments of `sample_episodes`.
        """
        if connectors is not None and self.observer is not None:
            self.observer.set_state(connectors)
        if weights is not None:
            self.set_state({COMPONENT_RL_MODULE: weights})
        if episodes is None:
            return self.sample_episodes(**rllibs)
        if not episodes:
            return []
        return self._play_round(episodes, round_, rows)

    def _play_round(
        self, episodes: list[int], round_: int, rows: int | None
    ) -> list[EvaluationEpisode]:
        began, module = time.perf_counter(), self.module
        self._forward = numpy_policy(module) or self._torch_forward
        std = module.acting_std_parameter
        self._std = None if std is None else std.detach().numpy()
        rows = rows or max(self._episodes_at_once(), max(episodes) + 1)
        assert self.env is not None
        space = self.env.observation_space
        batch = np.zeros((rows, *observation_shape(space)), observation_dtype(space))
        playing = {k % rows: EvaluationEpisode(k, [], [], round_, k % rows) for k in episodes}
        self._acting, self._spent = 0.0, Spent()
        played = self._play(playing, batch)
        self.callbacks.sample_end()
        self._log_times(time.perf_counter() - began, played)
        return played

    def _log_times(self, seconds: float, played: list[EvaluationEpisode]) -> None:
        metrics = EpisodeMetrics(self.metrics)
        metrics.times(seconds, self._spent, sum(episode.env_steps() for episode in played))
        forwards = max(episode.env_steps() for episode in played)
        metrics.log(RLMODULE_INFERENCE_TIMER, self._acting / forwards, reduce="ema")

    def _episodes_at_once(self) -> int:
        by_episodes = self.config.evaluation_duration_unit == "episodes"
        duration = self.config.evaluation_duration
        return duration if by_episodes and duration != "auto" else EPISODES_AT_ONCE

    def _play(
        self, playing: dict[int, EvaluationEpisode], batch: np.ndarray
    ) -> list[EvaluationEpisode]:
        """Plays the episodes, each in its row of the batch, in lockstep until all have ended."""
        began = time.perf_counter()
        draws = {row: self._start(episode, batch) for row, episode in playing.items()}
        done = []
        while playing:
            self._check_observations(playing, batch)
            actions = self._actions(batch, draws)
            for action, episode in zip(actions, list(playing.values()), strict=True):
                try:
                    ended = self._step(episode, action, batch)
                except EnvironmentFailure:
                    raise
                except Exception as error:
                    self._fail(episode, error, "step")
                    draws[episode.row] = self._start(episode, batch)
                    continue
                if ended:
                    self._check_observations({episode.row: episode}, batch)
                    if self.callbacks or self._always_watched:
                        self._end_watched(self._envs[episode.row])
                    episode.seconds = time.perf_counter() - began
                    done.append(playing.pop(episode.row))
                    del draws[episode.row]
        return done

    def _start(self, episode: EvaluationEpisode, batch: np.ndarray) -> DrawnAhead:
        """Resets an episode's environment, and says how its actions are drawn."""
        row, seed = episode.row, self.config.seed
        while True:
            reset_seed, generator = evaluation_stream(seed, episode.round_, episode.index)
            try:
                self._envs[row] = self._envs.get(row) or self._make_env_of(row)
                began = time.perf_counter()
                observation, _ = self._envs[row].reset(seed=reset_seed)
                self._spent += Spent(0.0, time.perf_counter() - began, 1)
                batch[row] = self._encode(observation)
            except Exception as error:
                self._fail(episode, error, "reset")
                continue
            if self.observer is not None:
                self.observer.start(row, batch[row])
            return DrawnAhead(generator)

    def _make_env_of(self, row: int) -> gym.Env:
        return self.callbacks.watched(self._make_env, row, always=self._always_watched)()

    def _end_watched(self, env: gym.Env) -> None:
        if isinstance(env, WatchedEnv):
            env.cut()  # at the horizon: its own end is told already

    def _step(self, episode: EvaluationEpisode, action: Any, batch: np.ndarray) -> bool:
        """Makes one transition; returns whether it was the last."""
        began = time.perf_counter()
        observation, reward, terminated, truncated, info = self._envs[episode.row].step(action)
        self._spent.steps += time.perf_counter() - began
        batch[episode.row] = self._encode(observation)
        reward = float(reward)
        discount = 0.0 if terminated else float(info.get("discount", self._gamma))
        episode.rewards.append(reward)
        episode.discounts.append(discount)
        # What would make J_pi meaningless is refused.
        if not math.isfinite(reward):
            raise self._failure(episode, f"the reward is {reward}")
        if not 0 <= discount <= 1:
            raise self._failure(episode, f"the discount is {discount}, not in [0, 1]")
        if self.observer is not None:
            row = episode.row
            self.observer.step(row, batch[row], self._taken[row], reward)
        return terminated or truncated or len(episode.rewards) >= self._horizon

    def _check_observations(self, playing: dict[int, EvaluationEpisode], batch: np.ndarray) -> None:
        """Refuses what pi can't act on."""
        if np.isfinite(batch).all():  # at once: it takes as long as looking at one row
            return
        for row, episode in playing.items():
            if not np.isfinite(batch[row]).all():
                raise self._failure(episode, f"the observation is {batch[row]}")

    def _fail(self, episode: EvaluationEpisode, error: Exception, where: str) -> None:
        """Prepares an episode to be played again in a fresh environment, if that is configured."""
        episode.failures += 1
        config = self.config
        allowed = config.max_env_failures_in_a_row if config.restart_failed_sub_environments else 0
        if episode.failures > allowed:
            what = f"{where} raised {type(error).__name__}: {error}"
            raise self._failure(episode, what) from error
        logger.warning("%s; it is played again.", self._failure(episode, f"{where} raised {error}"))
        env = self._envs.pop(episode.row, None)
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

    def _actions(self, batch: np.ndarray, draws: dict[int, DrawnAhead]) -> Sequence[Any]:
        distribution, std = self.module.distribution, self._std
        rows = list(draws)
        seen, began = self._seen(rows, batch), time.perf_counter()
        outputs = self._forward(seen)[rows]
        if self.config.explore:
            actions = distribution.sample(outputs, std, list(draws.values()))
        else:  # RLlib: evaluation_config={"explore": False}
            actions = distribution.mode(outputs, std)
        actions = distribution.to_env(actions)
        self._acting += time.perf_counter() - began
        if self.callbacks.see_episodes or self._always_watched:
            self._tell_outputs(rows, outputs, actions)
        if self.observer is None:
            return actions
        taken, actions = self.observer.act(rows, outputs, actions)
        self._taken = dict(zip(rows, taken, strict=True))
        return actions

    def _tell_outputs(self, rows: list[int], outputs: np.ndarray, actions: np.ndarray) -> None:
        """Gives watched episodes what those of RLlib's env runners hold of an action."""
        distribution, inputs = self.module.distribution, outputs
        if self._std is not None:
            inputs = np.hstack([outputs, np.tile(self._std, (len(outputs), 1))])
        columns = {Columns.ACTION_DIST_INPUTS: inputs}
        if isinstance(distribution, PolicyDistribution):
            columns[Columns.ACTION_LOGP] = distribution.log_prob(outputs, self._std, actions)
        for k, row in enumerate(rows):
            told = {name: values[k] for name, values in columns.items()}
            self._envs[row].set_wrapper_attr("model_outputs", told)

    def _seen(self, rows: list[int], batch: np.ndarray) -> np.ndarray:
        """What pi acts on, in a batch of as many rows."""
        if self.observer is None:
            return batch
        seen = np.zeros((len(batch), *self.observer.shape), self.observer.dtype)
        seen[rows] = self.observer.observe(rows)
        return seen

    def _torch_forward(self, batch: np.ndarray) -> np.ndarray:
        observations = torch.from_numpy(batch)
        if batch.dtype != np.int64:
            observations = observations.to(self.module.dtype)
        outputs = self.module.forward_inference({Columns.OBS: observations})
        inputs = outputs[Columns.ACTION_DIST_INPUTS]
        return inputs[:, : self.module.distribution.num_outputs].numpy()

    def _longest_episode(self) -> float:
        if self.config.evaluation_horizon is not None:
            return self.config.evaluation_horizon
        spec = None if self.env is None else self.env.spec
        limited = spec is not None and spec.max_episode_steps is not None
        return math.inf if limited else _DEFAULT_HORIZON

    @property
    def acting_module(self) -> Any:
        """The module that acts here: pi."""
        return self.module

    @property
    def pipelines(self) -> dict[str, ConnectorPipelineV2]:
        """The connectors by their place in a checkpoint, if there are any."""
        if self.observer is None:
            return {}
        pipelines = self.observer.env_to_module, self.observer.module_to_env
        return dict(zip(CONNECTOR_COMPONENTS, pipelines, strict=True))

    @override(EnvRunner)
    def get_spaces(self) -> dict:
        assert self.env is not None
        return spaces_of(self.config, (self.env.observation_space, self.env.action_space))

    @override(EnvRunner)
    def get_metrics(self) -> dict:
        return self.metrics.reduce()

    @override(EnvRunner)
    def assert_healthy(self) -> None:
        assert self.env is not None and self.module is not None

    @override(EnvRunner)
    def stop(self) -> None:
        for env in [self.env, *self._envs.values(), *self._watched_envs.values()]:
            if env is not None:
                env.close()
        self.env, self._envs, self._watched_envs = None, {}, {}

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
        if self.observer is not None:
            for name, pipeline in self.pipelines.items():
                pipeline.set_state(state.get(name, {}))
            self.observer.set_state(self.observer.get_state())

    @override(Checkpointable)
    def get_ctor_args_and_kwargs(self) -> tuple:
        return (), {"config": self.config, "worker_index": self.worker_index}
