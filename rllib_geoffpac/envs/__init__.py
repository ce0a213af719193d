"""Gymnasium environments of the package; importing it registers `TwoCircle-v0`."""

import gymnasium as gym

from rllib_geoffpac.envs.finite_mdp_env import FiniteMDPEnv, make_two_circle

__all__ = ["FiniteMDPEnv", "make_two_circle", "register_envs"]


def register_envs() -> None:
    """Register `TwoCircle-v0` with gymnasium; calling it again changes nothing."""
    if "TwoCircle-v0" not in gym.registry:
        gym.register(
            "TwoCircle-v0", entry_point="rllib_geoffpac.envs.finite_mdp_env:make_two_circle"
        )


register_envs()
