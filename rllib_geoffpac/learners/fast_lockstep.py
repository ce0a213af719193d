"""The closed-form kernel as the learner's lockstep."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from rllib_geoffpac.connectors import EmphaticTraces
from rllib_geoffpac.kernels import FastLockstep, LockstepSettings
from rllib_geoffpac.learners.torch_lockstep import PolicyGradientTerms
from rllib_geoffpac.maths.moments import RunningMoments
from rllib_geoffpac.modules import EmphaticRLModule
from rllib_geoffpac.modules.mlp import OneHot


class KernelLockstep(FastLockstep):
    """`TorchLockstep`'s interface over the closed-form kernel; same arguments."""

    name = "fast"

    def __init__(
        self,
        module: EmphaticRLModule,
        config: Any,
        traces: EmphaticTraces,
        optimizers: dict[str, torch.optim.Optimizer],
        moments: RunningMoments,
    ):
        first_layer = module.pi[0]
        critics, targets = zip(*module.get_target_network_pairs(), strict=True)
        super().__init__(
            module.policy_parameters(),
            [_parameters(network) for network in critics],
            [_parameters(network) for network in targets],
            module.distribution,
            LockstepSettings(
                num_lanes=config.num_lanes,
                gamma_hat=traces.gamma_hat,
                lambda_1=config.lambda_1,
                lambda_2=config.lambda_2,
                rho_clip=config.rho_clip,
                density_ratio_clip=config.density_ratio_clip,
                sn_loss_coeff=config.sn_loss_coeff,
                uses_second_trace=config.uses_second_trace,
                learning_rates={name: config.learning_rate(name) for name in ("pi", "v", "c")},
                grad_clip=config.grad_clip,
                value_baseline=config.value_baseline,
                overlap_coeff=config.overlap_coeff,
                optimizer=config.optimizer_type,
                interest_fn=config.interest_fn,
                first_state=first_layer.start if isinstance(first_layer, OneHot) else None,
            ),
            moments,
        )
        self._traces, self._optimizers = traces, optimizers
        self.store_state()

    def terms(self, row: dict[str, Any]) -> PolicyGradientTerms:
        """Z1 and Z2, means over the lanes [1, P], by a lockstep that learns nothing."""
        self.step(row, None, learn=False)
        z1, z2 = (self.policy.to_torch_order(z[None]) for z in (self.z1, self.z2))
        return PolicyGradientTerms(z1, None if self.f2 is None else z2)

    def store_state(self) -> None:
        """Brings the connector's traces and the torch optimizers up to date, for a checkpoint."""
        self._traces.state = self.trace_state()
        self.store_optimizers(self._optimizers)

    def load_state(self) -> None:
        """Takes over the connector's traces and the torch optimizers, after a restore."""
        self.set_trace_state(self._traces.state)
        self.load_optimizers(self._optimizers)


def _parameters(network: nn.Module) -> list[nn.Parameter]:
    return list(network.parameters())
