"""The paper's algorithms as RLlib algorithms: one file each, Config and Algorithm."""

from rllib_geoffpac.algorithms.ace import ACE, ACEConfig
from rllib_geoffpac.algorithms.geoff_pac import GeoffPAC, GeoffPACConfig
from rllib_geoffpac.algorithms.off_pac import OffPAC, OffPACConfig

ALGORITHMS = {"GeoffPAC": GeoffPAC, "ACE": ACE, "OffPAC": OffPAC}

__all__ = [
    "ACE",
    "ALGORITHMS",
    "ACEConfig",
    "GeoffPAC",
    "GeoffPACConfig",
    "OffPAC",
    "OffPACConfig",
]
