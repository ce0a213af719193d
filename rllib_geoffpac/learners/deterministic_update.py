"""One update of DDPG or TD3 from a replay batch, in torch.

Read it beside the papers' pseudocode, Algorithm 1 in both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ray.rllib.core.columns import Columns
from torch import nn

from rllib_geoffpac.connectors.lane_aligner import DISCOUNT
from rllib_geoffpac.deterministic import critic_loss, q_target, smoothed_target_action, soft_update
from rllib_geoffpac.modules.deterministic_actor_critic import DeterministicActorCriticRLModule

Batch = dict[str, torch.Tensor]

_SATURATED = 0.99  # of the half width of the action box


class LatestMeans:
    """Means of some numbers over the latest updates.

    The numbers stay in a tensor until they are asked for: reading each of them after every update
    would cost more than computing it.

    Args:
        names: What the numbers are called.
        window: Over how many updates the means go.
    """

    def __init__(self, *names: str, window: int = 100):
        self.names, self._count = names, 0
        self._rows = torch.zeros(window, len(names), dtype=torch.float64)

    def add(self, *numbers: torch.Tensor) -> None:
        """Adds one scalar tensor per name."""
        torch.stack(numbers, out=self._rows[self._count % len(self._rows)])
        self._count += 1

    def means(self) -> dict[str, float]:
        """The means by name; nothing before the first update."""
        if not self._count:
            return {}
        means = self._rows[: self._count].mean(0).tolist()
        return dict(zip(self.names, means, strict=True))


class DDPGUpdate:
    """Everything that one update of DDPG does to the parameters; serves any device.

    Args:
        module: pi, the critics and their target copies.
        config: The DDPGConfig.
        optimizers: "pi" and "q".
    """

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
        self.count = 0
        self.of_critics = LatestMeans("critic_loss", "q_mean", "q_target_mean")
        self.of_actor = LatestMeans("actor_objective", "action_saturation_share")

    def step(self, replayed: dict[str, np.ndarray], rng: np.random.Generator) -> None:
        """One update from replayed transitions [N, ...], actions in the unit box."""
        batch = {name: self._to_tensor(column) for name, column in replayed.items()}
        self.learn_critics(batch, self.critic_target(batch, rng))
        self.count += 1
        if self.actor_is_due():
            self.learn_actor(batch)
            soft_update(self._targets, self._sources, self.config.tau)

    @torch.no_grad()
    def critic_target(self, batch: Batch, rng: np.random.Generator) -> torch.Tensor:
        """y of every transition, [N]."""
        next_observations = batch[Columns.NEXT_OBS]
        action = self.target_action(next_observations, rng)
        next_q = self.module.q_values(next_observations, action, target=True)
        return q_target(batch[Columns.REWARDS], batch[DISCOUNT], next_q)

    def target_action(self, observations: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        """The action [N, d] at which the target looks: pi'(S')."""
        return self.module.policy(observations, target=True)

    def actor_is_due(self) -> bool:
        """Whether pi and the target copies learn in this update."""
        return True

    def learn_critics(self, batch: Batch, target: torch.Tensor) -> None:
        """Descends the squared error of all critics."""
        q = self.module.q_values(batch[Columns.OBS], batch[Columns.ACTIONS])
        loss = critic_loss(q, target)
        self._descend("q", loss)
        self.of_critics.add(loss.detach(), q[0].detach().mean(), target.mean())

    def learn_actor(self, batch: Batch) -> None:
        """Ascends the mean of Q_1(S, pi(S)): the deterministic policy gradient."""
        module, observations = self.module, batch[Columns.OBS]
        action = module.policy(observations)
        objective = module.q[0](module.features(observations), action).mean()
        self._descend("pi", -objective)
        saturated = (action.detach().abs() > _SATURATED).to(action.dtype).mean()
        self.of_actor.add(objective.detach(), saturated)

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


class TD3Update(DDPGUpdate):
    """TD3's update: a smoothed target action, and pi and the targets learn more rarely.

    Of its two critics, `q_target` takes the lower one.
    """

    def target_action(self, observations, rng):
        config, action = self.config, super().target_action(observations, rng)
        noise = self._to_tensor(rng.standard_normal(action.shape, np.float32))
        return smoothed_target_action(action, noise, config.target_noise, config.target_noise_clip)

    def actor_is_due(self):
        return self.count % self.config.policy_delay == 0
