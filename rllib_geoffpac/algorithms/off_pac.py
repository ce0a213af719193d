"""Off-PAC: the Off-Policy Actor-Critic (Degris et al., 2012)."""

from __future__ import annotations

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.utils.annotations import override

from rllib_geoffpac.algorithms.ace import ACE, ACEConfig
from rllib_geoffpac.algorithms.config_checks import Check
from rllib_geoffpac.algorithms.geoff_pac import GeoffPACConfig


class OffPACConfig(ACEConfig):
    """ACE with lambda_1 = 0: the emphasis is the interest, M1_t = i(S_t).

    theta <- theta + alpha rho_t i(S_t) delta_t grad log pi(A_t|S_t)
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or OffPAC)

    @override(GeoffPACConfig)
    def _checks(self) -> list[Check]:
        why = "0, because Off-PAC is ACE at lambda_1 = 0; use ACE for another value"
        return [*super()._checks(), ("lambda_1", self.lambda_1, self.lambda_1 == 0, why)]


class OffPAC(ACE):
    """Off-Policy Actor-Critic."""

    @classmethod
    @override(Algorithm)
    def get_default_config(cls) -> OffPACConfig:
        return OffPACConfig()
