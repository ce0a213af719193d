"""Settings that are schedules: which may be, and what a config says at an environment step.

Any number that an update takes per lockstep, and any learning rate, can be a schedule. The code
that reads settings knows none: it is asked of a config in which they are numbers.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rllib_geoffpac.maths.schedules import is_schedule, piecewise_linear

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

ALLOWED = " (or a schedule [[0, a], [1e6, b]] of such, in env steps from 0 on)"


def is_rate(key: str) -> bool:
    """Whether a key is that of a learning rate."""
    return key == "lr" or key.endswith("_lr")


def can_be_scheduled(config: AlgorithmConfig) -> set[str]:
    """The keys that may be schedules."""
    try:
        numbers = _at(config, _look_like_schedules(config), 0).numbers()
    except (TypeError, ValueError):  # One is no number: the checks will name it.
        numbers = {}
    return {*numbers, *filter(is_rate, vars(config))} & set(vars(config))


def schedules_of(config: AlgorithmConfig) -> dict[str, Any]:
    """The settings that are schedules."""
    found = _look_like_schedules(config)
    allowed = can_be_scheduled(config) if found else set()
    return {key: schedule for key, schedule in found.items() if key in allowed}


def _look_like_schedules(config: AlgorithmConfig) -> dict[str, Any]:
    return {key: value for key, value in vars(config).items() if is_schedule(value)}


def _at(config: AlgorithmConfig, schedules: dict[str, Any], env_step: int) -> Any:
    """A shallow copy of the config with the schedules' values at an environment step."""
    view = copy.copy(config)
    vars(view).update(_values(schedules, env_step))
    return view


def _values(schedules: dict[str, Any], env_step: int) -> dict[str, float]:
    step = np.array([env_step])
    return {key: float(piecewise_linear(s, step)[0]) for key, s in schedules.items()}


@contextlib.contextmanager
def held_at(config: AlgorithmConfig, env_step: float) -> Iterator[None]:
    """Lets the config hold its schedules' values at an environment step, for a while."""
    schedules = schedules_of(config)
    vars(config).update(_values(schedules, int(env_step)))
    try:
        yield
    finally:
        vars(config).update(schedules)


def turning_points(config: AlgorithmConfig) -> list[float]:
    """The environment steps at which schedules turn: what holds there holds in between."""
    steps = {step for schedule in schedules_of(config).values() for step, _ in schedule}
    return sorted(steps | {0})


def numbers_at(config: AlgorithmConfig, env_steps: np.ndarray) -> dict[str, np.ndarray]:
    """`config.numbers()` at each of some environment steps: [T] -> [T] each."""
    schedules = schedules_of(config)
    if not schedules:
        return {name: np.full(len(env_steps), value) for name, value in config.numbers().items()}
    columns = {key: piecewise_linear(s, env_steps).tolist() for key, s in schedules.items()}
    view = copy.copy(config)
    rows = []
    for t in range(len(env_steps)):
        vars(view).update({key: column[t] for key, column in columns.items()})
        rows.append(view.numbers())
    return {name: np.array([row[name] for row in rows], np.float64) for name in rows[0]}
