"""What an update of DDPG or TD3 asks of the networks: by autograd, or by the closed-form kernel.

Both have the same methods, of which all but `load` work on the transitions loaded last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ray.rllib.core.columns import Columns
from torch import nn

from rllib_geoffpac.connectors.lane_aligner import DISCOUNT
from rllib_geoffpac.kernels import DeterministicSettings, FastDeterministic
from rllib_geoffpac.maths.deterministic import critic_loss, soft_update
from rllib_geoffpac.modules.deterministic_actor_critic import DeterministicActorCriticRLModule
from rllib_geoffpac.modules.mlp import OneHot


class TorchNetworks:
    """By autograd: the readable truth, for any module and device.

    Args:
        module: pi, the critics and their target copies.
        config: The DDPGConfig.
        optimizers: "pi" and "q".
    """

    name = "torch"

    def __init__(
        self,
        module: DeterministicActorCriticRLModule,
        config: Any,
        optimizers: dict[str, torch.optim.Optimizer],
    ):
        self.module, self.config, self.optimizers = module, config, optimizers
        self.parameters = {"pi": list(module.pi.parameters()), "q": list(module.q.parameters())}
        pairs = module.get_target_network_pairs()
        self._sources = [p.detach() for network, _ in pairs for p in network.parameters()]
        self._targets = [p for _, copied in pairs for p in copied.parameters()]
        self.device = self._sources[0].device

    def load(self, replayed: dict[str, np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
        """Takes replayed transitions [N, ...]; returns their rewards and discounts [N]."""
        self._batch = {name: self._to_tensor(column) for name, column in replayed.items()}
        return self._batch[Columns.REWARDS], self._batch[DISCOUNT]

    @torch.no_grad()
    def target_action(self) -> torch.Tensor:
        """pi'(S') [N, d]."""
        return self.module.policy(self._batch[Columns.NEXT_OBS], target=True)

    @torch.no_grad()
    def target_values(self, action: torch.Tensor) -> list[torch.Tensor]:
        """Q'_k(S', action): [N, d] -> K times [N]."""
        return self.module.q_values(self._batch[Columns.NEXT_OBS], action, target=True)

    def learn_critics(self, target: torch.Tensor) -> list[torch.Tensor]:
        """Descends `critic_loss`; returns Q_k(S, A) before it, K times [N]."""
        q = self.module.q_values(self._batch[Columns.OBS], self._batch[Columns.ACTIONS])
        self._descend("q", critic_loss(q, target))
        return [values.detach() for values in q]

    def learn_actor(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Ascends mean Q_1(S, pi(S)); returns pi(S) [N, d] and Q_1(S, pi(S)) [N] before it."""
        module, observations = self.module, self._batch[Columns.OBS]
        action = module.policy(observations)
        values = module.q[0](module.features(observations), action)
        self._descend("pi", -values.mean())
        return action.detach(), values.detach()

    def update_targets(self) -> None:
        """theta' <- tau theta + (1 - tau) theta' for pi' and all Q'."""
        soft_update(self._targets, self._sources, self.config.tau)

    def _descend(self, name: str, loss: torch.Tensor) -> None:
        parameters = self.parameters[name]
        gradients = torch.autograd.grad(loss, parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        if self.config.grad_clip is not None:
            nn.utils.clip_grad_norm_(parameters, self.config.grad_clip)
        self.optimizers[name].step()

    def _to_tensor(self, column: np.ndarray) -> torch.Tensor:
        tensor = torch.as_tensor(column)
        dtype = self.module.dtype if tensor.is_floating_point() else tensor.dtype
        # Copied into torch's aligned memory: the last bits of a matrix product may depend on
        # where its operands begin.
        return torch.empty(tensor.shape, dtype=dtype, device=self.device).copy_(tensor)

    def store_state(self) -> None:
        """Nothing to do: the optimizers hold the state."""

    def load_state(self) -> None:
        """Nothing to do: the optimizers hold the state."""


class KernelNetworks(FastDeterministic):
    """`TorchNetworks`' interface over the closed-form kernel; same arguments."""

    name = "fast"

    def __init__(
        self,
        module: DeterministicActorCriticRLModule,
        config: Any,
        optimizers: dict[str, torch.optim.Optimizer],
    ):
        super().__init__(
            list(module.pi.parameters()),
            [list(critic.parameters()) for critic in module.q],
            list(module.pi_target.parameters()),
            [list(critic.parameters()) for critic in module.q_target],
            DeterministicSettings(
                batch_size=config.replay_batch_size,
                action_layer=module.q[0].action_layer,
                learning_rates={name: config.learning_rate(name) for name in ("pi", "q")},
                tau=config.tau,
                critic_weight_decay=config.critic_weight_decay,
                grad_clip=config.grad_clip,
                first_state=module.features.start if isinstance(module.features, OneHot) else None,
            ),
        )
        self._optimizers = optimizers

    def store_state(self) -> None:
        """Brings the torch optimizers up to date, for a checkpoint."""
        self.policy_optimizer.store(self._optimizers["pi"])
        self.critics_optimizer.store(self._optimizers["q"])

    def load_state(self) -> None:
        """Takes over the torch optimizers, after a restore."""
        self.policy_optimizer.load(self._optimizers["pi"])
        self.critics_optimizer.load(self._optimizers["q"])
