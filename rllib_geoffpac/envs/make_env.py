"""Builds one plain gymnasium environment from an AlgorithmConfig."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.tune.registry import ENV_CREATOR, _global_registry

from rllib_geoffpac.lanes.behavior import check_action_space


def _silence_mujoco() -> None:
    """Keeps MuJoCo's deprecation warnings and its MUJOCO_LOG.TXT away from users."""
    try:
        import mujoco
    except ImportError:
        return
    mujoco.set_mju_user_warning(lambda message: None)


def make_env(config: AlgorithmConfig, worker_index: int = 0) -> gym.Env:
    """Makes one environment as RLlib would: Tune-registered name, class, or gymnasium id.

    Raises:
        ValueError: for a multi-agent environment or an unsupported space.
    """
    _silence_mujoco()
    env, env_config = config.env, dict(config.env_config)
    context = EnvContext(env_config, worker_index=worker_index)
    if env is None:
        raise ValueError("`env` is None: name one with `.environment('HalfCheetah-v5')`.")
    if isinstance(env, str) and _global_registry.contains(ENV_CREATOR, env):
        made = _global_registry.get(ENV_CREATOR, env)(context)
    elif callable(env):
        made = env(context)
    else:
        made = gym.make(env, **env_config)
    check_env(made, env)
    return made


def check_env(env: Any, name: Any) -> None:
    """Raises ValueError if lanes can't be made of this environment, called by its name."""
    if isinstance(env, MultiAgentEnv) or not isinstance(env, gym.Env):
        raise ValueError(
            f"The environment {name!r} is a {type(env).__name__}: only single-agent gymnasium "
            "environments are supported. Wrap it into a gymnasium.Env with one agent."
        )
    check_observation_space(env.observation_space)
    check_action_space(env.action_space)


def check_observation_space(space: gym.Space) -> gym.Space:
    """Returns the observation space, or says what is allowed."""
    if isinstance(space, gym.spaces.Box | gym.spaces.Discrete):
        return space
    raise ValueError(
        f"The observation space {space} is not supported: allowed are Box (flattened) and "
        "Discrete. Use gymnasium.wrappers.FlattenObservation for Dict and Tuple observations."
    )


def observation_dtype(space: gym.Space) -> np.dtype:
    """Returns the dtype in which observations travel: int64 for Discrete, else float32."""
    return np.dtype(np.int64 if isinstance(space, gym.spaces.Discrete) else np.float32)


def observation_shape(space: gym.Space) -> tuple[int, ...]:
    """Returns the shape in which observations travel: () for Discrete, else flat."""
    return () if isinstance(space, gym.spaces.Discrete) else (int(np.prod(space.shape)),)
