"""Geoff-PAC, the Generalized Off-Policy Actor-Critic, as an RLlib plugin.

Importing this package registers the algorithms with Ray Tune under their names and the two-circle
MDP with gymnasium.
"""

from ray.tune import register_trainable as _register_trainable

from rllib_geoffpac import envs as _envs  # noqa: F401  (registers TwoCircle-v0)
from rllib_geoffpac.algorithms import (
    ACE,
    ALGORITHMS,
    DDPG,
    TD3,
    ACEConfig,
    DDPGConfig,
    GeoffPAC,
    GeoffPACConfig,
    OffPAC,
    OffPACConfig,
    TD3Config,
)

__version__ = "1.0.0"

for _name, _algorithm in ALGORITHMS.items():
    _register_trainable(_name, _algorithm)

__all__ = [
    "ACE",
    "DDPG",
    "TD3",
    "ACEConfig",
    "DDPGConfig",
    "GeoffPAC",
    "GeoffPACConfig",
    "OffPAC",
    "OffPACConfig",
    "TD3Config",
]
