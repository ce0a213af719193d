"""Makes environments: by name, by class, from an AlgorithmConfig (imports RLlib)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from rllib_geoffpac.compat import registered_env_creator
from rllib_geoffpac.envs.mujoco import silence_mujoco_of
from rllib_geoffpac.envs.observations import check_observation_space
from rllib_geoffpac.maths.action_spaces import check_action_space
from rllib_geoffpac.validation import import_by_name


def make_env(config: AlgorithmConfig, worker_index: int = 0, num_workers: int = 0) -> gym.Env:
    """Makes the environment of a config, one that lanes can be made of.

    Raises:
        ValueError: for a multi-agent environment or an unsupported space.
    """
    if config.env is None:
        raise ValueError("`env` is None: name one with `.environment('HalfCheetah-v5')`.")
    made = create_env(config.env, config.env_config, worker_index, num_workers)
    check_env(made, config.env)
    for key in ("observation_space", "action_space"):
        given, own = getattr(config, key), getattr(made, key)
        if given is not None and given != own:
            raise ValueError(
                f"`{key}` is {given}, and the environment {config.env!r} has {own}; allowed is "
                "the environment's own, or None: wrap the environment to change it."
            )
    return made


def create_env(
    env: Any,
    env_config: Mapping[str, Any] | None = None,
    worker_index: int = 0,
    num_workers: int = 0,
    **more: Any,
) -> Any:
    """Creates an environment as RLlib would; `package.module:name` is understood as well.

    Args:
        env: A class or function of an `EnvContext`, or a name: registered with Tune, a gymnasium
            id, or `package.module:name` of a class or function.
        env_config: The arguments.
        worker_index: Of the env runner.
        num_workers: How many remote env runners there are.
        more: Further arguments, such as `render_mode`.
    """
    arguments = {**(env_config or {}), **more}
    context = EnvContext(arguments, worker_index=worker_index, num_workers=num_workers)
    if callable(env):
        silence_mujoco_of(env)
        return env(context)
    creator = registered_env_creator(env)
    if creator is not None:
        silence_mujoco_of(env)
        return creator(context)
    return create_env_by_name(env, context)


def create_env_by_name(env: str, context: EnvContext) -> Any:
    """Creates an environment without asking Tune's registry, in which this may be the creator."""
    silence_mujoco_of(env)
    creator = env_reference(env)
    return gym.make(env, **context) if creator is None else creator(context)


def env_reference(env: str) -> Callable[[EnvContext], Any] | None:
    """What `package.module:name` names; None for a gymnasium id (`module:Id-v0` is one, too).

    Raises:
        ValueError: If it is neither.
    """
    _, colon, name = env.partition(":")
    if not colon or not name.replace(".", "_").isidentifier():
        return None
    try:
        return import_by_name(env, "env")
    except ValueError:
        if name in gym.registry:  # by its module, which has just been imported
            return None
        raise


def check_env(env: Any, name: Any) -> None:
    """Raises ValueError if lanes can't be made of this environment, called by its name."""
    if isinstance(env, MultiAgentEnv) or not isinstance(env, gym.Env):
        raise ValueError(
            f"The environment {name!r} is a {type(env).__name__}: only single-agent gymnasium "
            "environments are supported. Wrap it into a gymnasium.Env with one agent."
        )
    check_observation_space(env.observation_space)
    check_action_space(env.action_space, bounded=False)  # the behaviour and pi may say more
