"""Keeps MuJoCo's warnings to itself (imports MuJoCo only where it is used)."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym


def uses_mujoco(env: Any) -> bool:
    """Whether a gymnasium id, with or without its module in front, is one of the MuJoCo tasks."""
    spec = gym.registry.get(env.rpartition(":")[2]) if isinstance(env, str) else None
    return spec is not None and "mujoco" in str(spec.entry_point)


def silence_mujoco() -> None:
    """Keeps MuJoCo's deprecation warnings off the screen and MUJOCO_LOG.TXT out of the folder.

    They concern the models that gymnasium ships: a user can't act on them. It is also what Ray's
    workers run first when the `rllib` command trains on MuJoCo.
    """
    import mujoco

    mujoco.set_mju_user_warning(_ignore)


def silence_mujoco_of(env: Any) -> None:
    """Silences MuJoCo if the environment is one of its tasks, or somebody has imported it."""
    if uses_mujoco(env) or "mujoco" in sys.modules:
        silence_mujoco()


def _ignore(message: str) -> None:
    pass
