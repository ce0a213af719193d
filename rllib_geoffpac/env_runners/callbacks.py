"""RLlib's callbacks on environments, episodes and samples, for lanes and for episodes of pi.

An environment is watched by a wrapper, and only if a callback asks for it: without one, nothing
here costs anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium as gym
from gymnasium.vector.utils import batch_space
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.callbacks.utils import make_callback
from ray.rllib.core.columns import Columns
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils import force_list

from rllib_geoffpac.lanes.recording import RecordingLane
from rllib_geoffpac.lanes.simulated import SimulatedLane

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

EPISODE_HOOKS = ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")
_ENV_HOOK, _SAMPLE_HOOK = "on_environment_created", "on_sample_end"


def sampling_hooks(config: AlgorithmConfig) -> set[str]:
    """The names of the callbacks of env runners that somebody has given to this config."""
    classes = force_list(config.callbacks_class)
    return {
        hook
        for hook in (_ENV_HOOK, _SAMPLE_HOOK, *EPISODE_HOOKS)
        if getattr(config, f"callbacks_{hook}")
        or any(getattr(c, hook, None) is not getattr(RLlibCallback, hook) for c in classes)
    }


class RunnerCallbacks:
    """Calls the callbacks of one env runner.

    Args:
        runner: The env runner, with `config`, `metrics` and `acting_module`.
    """

    def __init__(self, runner: Any):
        self.runner = runner
        self.hooks = sampling_hooks(runner.config)
        classes = force_list(runner.config.callbacks_class) if self.hooks else []
        self._objects = [callback_class() for callback_class in classes]
        self.envs = LaneEnvs()
        self._silent = False
        self._sampled: dict[str, SingleAgentEpisode] = {}

    def __bool__(self) -> bool:
        return bool(self.hooks)

    @property
    def see_episodes(self) -> bool:
        """Whether any of them gets episodes."""
        return bool(self.hooks & {*EPISODE_HOOKS, _SAMPLE_HOOK})

    def watched(
        self, make_env: Callable[[], gym.Env], index: int, always: bool = False
    ) -> Callable[[], gym.Env]:
        """Makes the same environments, which tell what happens in them if anybody wants to know."""
        if not self.hooks and not always:
            return make_env

        def make() -> gym.Env:
            env = make_env()
            if self.see_episodes or always:
                env = WatchedEnv(env, self, index)
            self.envs.put(index, env)
            config, worker = self.runner.config, self.runner.worker_index or 0
            context = EnvContext(config.env_config, worker, num_workers=self.runner.num_workers)
            self._call(_ENV_HOOK, env=self.envs, env_context=context)
            return env

        return make

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """What is simulated again has been told before."""
        self._silent = True
        try:
            yield
        finally:
            self._silent = False

    def episode(self, hook: str, episode: SingleAgentEpisode, index: int) -> None:
        """Tells about an episode."""
        if self._silent:
            return
        if _SAMPLE_HOOK in self.hooks:
            self._sampled[episode.id_] = episode
        if hook in self.hooks:
            more: dict[str, Any] = {"prev_episode_chunks": []} if hook == "on_episode_end" else {}
            self._call(
                hook,
                episode=episode,
                env=self.envs,
                env_index=index,
                rl_module=self.runner.acting_module,
                **more,
            )

    def sample_end(self) -> None:
        """Tells that a request is answered, with the episodes that went on meanwhile."""
        if _SAMPLE_HOOK in self.hooks:
            samples, self._sampled = list(self._sampled.values()), {}
            self._call(_SAMPLE_HOOK, samples=samples)

    def _call(self, hook: str, **arguments: Any) -> None:
        if hook in self.hooks:
            make_callback(
                hook,
                callbacks_objects=self._objects,
                callbacks_functions=getattr(self.runner.config, f"callbacks_{hook}"),
                kwargs={
                    "env_runner": self.runner,
                    "metrics_logger": self.runner.metrics,
                    **arguments,
                },
            )


class LaneEnvs(gym.vector.VectorEnv):
    """Environments in the form of RLlib's vector environment: `envs[env_index]` is the one.

    They are stepped by their lanes, one after the other, and not from here.
    """

    def __init__(self, envs: list[gym.Env] | None = None):
        self.envs: list[gym.Env] = []
        for index, env in enumerate(envs or []):
            self.put(index, env)

    def put(self, index: int, env: gym.Env) -> None:
        """Adds an environment, or replaces one that failed."""
        while len(self.envs) <= index:
            self.envs.append(env)
        self.envs[index] = env
        self.num_envs, self.spec, self.metadata = len(self.envs), env.spec, env.metadata
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space

    @property
    def observation_space(self) -> gym.Space:  # type: ignore[override]
        """Of all of them together."""
        return batch_space(self.single_observation_space, self.num_envs)

    @property
    def action_space(self) -> gym.Space:  # type: ignore[override]
        """Of all of them together."""
        return batch_space(self.single_action_space, self.num_envs)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method of every environment, or gets an attribute."""
        found = [env.get_wrapper_attr(name) for env in self.envs]
        return tuple(one(*args, **kwargs) if callable(one) else one for one in found)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of every environment."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of every environment, to one value or to one value each."""
        if not isinstance(values, list | tuple):
            values = [values] * self.num_envs
        for env, value in zip(self.envs, values, strict=True):
            env.set_wrapper_attr(name, value)

    def render(self) -> tuple[Any, ...]:
        """The pictures of all of them."""
        return self.call("render")

    def close(self, **kwargs: Any) -> None:
        """Nothing: the lanes close their environments."""


class Listener(Protocol):
    """Who is told about episodes."""

    def episode(self, hook: str, episode: SingleAgentEpisode, index: int) -> None:
        """Hears of an episode, by the name of the callback."""


class WatchedEnv(gym.Wrapper):
    """Keeps the current episode as RLlib's env runners do, and tells the callbacks about it.

    Attributes:
        model_outputs: What the next action comes with, such as its log-density.
    """

    def __init__(self, env: gym.Env, callbacks: Listener, index: int):
        super().__init__(env)
        self.model_outputs: dict[str, Any] = {}
        self._callbacks, self._index = callbacks, index
        self.episode = self._new_episode()

    def _new_episode(self) -> SingleAgentEpisode:
        return SingleAgentEpisode(
            observation_space=self.observation_space, action_space=self.action_space
        )

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        """Starts an episode."""
        self.episode = self._new_episode()
        self._tell("on_episode_created")
        observation, info = self.env.reset(seed=seed, options=options)
        self.episode.add_env_reset(observation, info)
        self._tell("on_episode_start")
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """Makes a transition."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.episode.add_env_step(
            observation=observation,
            action=action,
            reward=float(reward),
            infos=info,
            terminated=bool(terminated),
            truncated=bool(truncated) and not terminated,
            extra_model_outputs=self.model_outputs,
        )
        self._tell("on_episode_step")
        if self.episode.is_done:
            self._tell("on_episode_end")
        return observation, reward, terminated, truncated, info

    def cut(self) -> None:
        """Ends an episode that the environment would go on with."""
        if not self.episode.is_done:
            self.episode.is_truncated = True
            self._tell("on_episode_end")

    def _tell(self, hook: str) -> None:
        self._callbacks.episode(hook, self.episode, self._index)


class WatchedLane(SimulatedLane):
    """A lane whose episodes hold log mu(A|S), as those of RLlib's env runners do."""

    def _next_action(self) -> tuple[Any, float]:
        action, logp = super()._next_action()
        self.env.set_wrapper_attr("model_outputs", {Columns.ACTION_LOGP: logp})
        return action, logp


class WatchedRecordingLane(RecordingLane, WatchedLane):
    """The same for a lane that keeps its episodes."""
