"""ACE: Actor-Critic with Emphatic weightings (Imani et al., 2018)."""

from __future__ import annotations

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.utils.annotations import override

from rllib_geoffpac.algorithms.config_checks import Check
from rllib_geoffpac.algorithms.geoff_pac import GeoffPAC, GeoffPACConfig


class ACEConfig(GeoffPACConfig):
    """Geoff-PAC with gamma_hat = 0: C is 1 everywhere, so there is no C network, and Z2 vanishes.

        F1_t = gamma_t rho_{t-1} F1_{t-1} + i(S_t),  M1_t = (1 - lambda_1) i(S_t) + lambda_1 F1_t
        theta <- theta + alpha rho_t M1_t delta_t grad log pi(A_t|S_t)

    follows the gradient of the excursion objective J_mu. The paper's lambda_1 for ACE is 0.
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or ACE)
        self.gamma_hat = 0.0
        self.lambda_1 = 0.0

    @override(GeoffPACConfig)
    def _checks(self) -> list[Check]:
        name = self.algo_class.__name__
        why = f"0, because {name} is Geoff-PAC at gamma_hat = 0; use GeoffPAC for another value"
        return [*super()._checks(), ("gamma_hat", self.gamma_hat, self.gamma_hat == 0, why)]


class ACE(GeoffPAC):
    """Actor-Critic with Emphatic weightings."""

    @classmethod
    @override(Algorithm)
    def get_default_config(cls) -> ACEConfig:
        return ACEConfig()
