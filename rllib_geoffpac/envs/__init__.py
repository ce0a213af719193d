"""Gymnasium environments of the package."""

from rllib_geoffpac.envs.finite_mdp_env import FiniteMDPEnv, make_two_circle

__all__ = ["FiniteMDPEnv", "make_two_circle"]
