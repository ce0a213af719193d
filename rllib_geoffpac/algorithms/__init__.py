"""The paper's algorithms as RLlib algorithms: one file each, Config and Algorithm."""

from rllib_geoffpac.algorithms.ace import ACE, ACEConfig
from rllib_geoffpac.algorithms.ddpg import DDPG, DDPGConfig
from rllib_geoffpac.algorithms.geoff_pac import GeoffPAC, GeoffPACConfig
from rllib_geoffpac.algorithms.off_pac import OffPAC, OffPACConfig
from rllib_geoffpac.algorithms.td3 import TD3, TD3Config

ALGORITHMS = {"GeoffPAC": GeoffPAC, "ACE": ACE, "OffPAC": OffPAC, "DDPG": DDPG, "TD3": TD3}

__all__ = [
    "ACE",
    "ALGORITHMS",
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
