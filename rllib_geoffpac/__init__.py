"""Geoff-PAC, the Generalized Off-Policy Actor-Critic, as an RLlib plugin.

Importing this package makes the algorithms known to Ray Tune under their names and the two-circle
MDP to gymnasium, whether Ray is imported before or after it. It imports neither Ray nor torch:
every public name is imported when it is first asked for, so that the maths alone (`FiniteMDP`,
`emphatic_traces`) is there at once.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from rllib_geoffpac.registration import register, register_on_import

if TYPE_CHECKING:
    from rllib_geoffpac.algorithms import (
        ACE,
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
    from rllib_geoffpac.maths.emphatic import emphatic_traces
    from rllib_geoffpac.maths.finite_mdp import FiniteMDP
    from rllib_geoffpac.offline_evaluation.checkpoint import evaluate_offline
    from rllib_geoffpac.probe import policy_gradient

__version__ = "2.0.0"

__all__ = [
    "ACE",
    "DDPG",
    "TD3",
    "ACEConfig",
    "DDPGConfig",
    "FiniteMDP",
    "GeoffPAC",
    "GeoffPACConfig",
    "OffPAC",
    "OffPACConfig",
    "TD3Config",
    "__version__",
    "emphatic_traces",
    "evaluate_offline",
    "policy_gradient",
    "register",
]

_HOME_OF = {
    "FiniteMDP": "rllib_geoffpac.maths.finite_mdp",
    "emphatic_traces": "rllib_geoffpac.maths.emphatic",
    "evaluate_offline": "rllib_geoffpac.offline_evaluation.checkpoint",
    "policy_gradient": "rllib_geoffpac.probe",
}


def __getattr__(name: str) -> object:
    """Imports a public name when it is first asked for (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_import_module(_HOME_OF.get(name, "rllib_geoffpac.algorithms")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register_on_import()
