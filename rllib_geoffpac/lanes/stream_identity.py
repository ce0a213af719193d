"""What a recorded stream is the stream of: everything that the behaviour data depend on.

The name of a recorded stream is a digest of this description, so two trials find the same stream
exactly if they would simulate the same data.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import json
import pickle
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from rllib_geoffpac.compat import registered_env_creator

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

STREAM_FORMAT = 2
"""Of the files and of how a lane's data follow from its seed; a new one starts new streams."""

_LIBRARIES = ("gymnasium", "mujoco", "numpy")


class UnnamedError(ValueError):
    """Something has no name or content that would stand for the same thing in another process."""


def why_not_recordable(config: AlgorithmConfig) -> str | None:
    """Returns why the streams of this config can't be recorded, or None if they can."""
    if isinstance(config.behavior, str) and config.behavior == "noise":
        return (
            "`behavior`='noise' follows the learned weights, so no two trials see the same data. "
            "Leave `experience_cache` out, or use a fixed behaviour policy"
        )
    try:
        _identify_settings(config)
    except UnnamedError as error:
        return str(error)
    return None


def describe_stream(config: AlgorithmConfig, env: gym.Env) -> dict[str, Any]:
    """Returns, as JSON values, everything that the lanes' data depend on, apart from the lane.

    Args:
        config: The algorithm's config.
        env: One environment made from it.
    """
    classes, layer = [], env
    while isinstance(layer, gym.Wrapper):
        classes.append(_identify(type(layer), "a wrapper of the environment"))
        layer = layer.env
    classes.append(_identify(type(layer), "the environment"))
    spec = env.spec
    return {
        "format": STREAM_FORMAT,
        "seed": config.seed,
        **_identify_settings(config),
        "env_classes": classes,
        "env_kwargs": _identify(spec.kwargs, "the environment's kwargs") if spec else None,
        "max_episode_steps": spec.max_episode_steps if spec else None,
        "spaces": [repr(env.observation_space), repr(env.action_space)],
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "machine": platform.machine(),
    }


def stream_name(description: dict[str, Any]) -> str:
    """Returns the digest that names the stream of this description."""
    text = json.dumps(description, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _identify_settings(config: AlgorithmConfig) -> dict[str, Any]:
    env, maker = config.env, config.env
    if (creator := registered_env_creator(env)) is not None:
        maker = creator
    elif isinstance(env, str) and env in gym.registry:
        maker = gym.spec(env).entry_point
    return {
        "env": env if isinstance(env, str) else None,
        "env_maker": _identify(maker, f"`env`={env!r}"),
        "env_config": _identify(dict(config.env_config), "`env_config`"),
        "behavior": _identify(config.behavior, "`behavior`"),
    }


def _identify(value: Any, what: str) -> Any:
    """Returns a JSON value that is equal for equal things, in every process."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_identify(item, what) for item in value]
    if isinstance(value, dict):
        return {str(key): _identify(item, f"{what} ({key})") for key, item in value.items()}
    if isinstance(value, type) or inspect.isroutine(value):
        return _identify_code(value, what)
    try:
        content = hashlib.sha256(pickle.dumps(value, protocol=4)).hexdigest()
    except Exception as error:
        raise UnnamedError(
            f"{what} holds {value!r}, whose content can't be compared between trials ({error}). "
            "Use plain values and picklable objects, or leave `experience_cache` out"
        ) from None
    return [_identify_code(type(value), what), content]


def _identify_code(code: Any, what: str) -> list[str]:
    """The name of a class or function, and a digest of its file: edited code is other code."""
    if "<" in code.__qualname__ or code.__module__ == "__main__":
        raise UnnamedError(
            f"{what} is or holds {code.__qualname__!r}, which has no name of its own outside this "
            "process. Define it at the top level of an importable module, or leave "
            "`experience_cache` out"
        )
    try:
        module: Any = inspect.getmodule(code)  # None: a TypeError, too
        source = Path(inspect.getfile(module)).read_bytes()
    except (TypeError, OSError):  # built into the interpreter
        source = b""
    return [f"{code.__module__}.{code.__qualname__}", hashlib.sha256(source).hexdigest()]


def _version(library: str) -> str | None:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None
