"""One update of DDPG or TD3 from a replay batch, in torch.

Read it beside Fujimoto et al.'s Algorithm 1; DDPG is the same with one critic, an actor update
every time and no noise on the target action.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ray.rllib.core.columns import Columns
from torch import nn

from rllib_geoffpac.connectors.lane_aligner import DISCOUNT
from rllib_geoffpac.deterministic import (
    critic_loss,
    q_target,
    smoothed_target_action,
    soft_update,
)
from rllib_geoffpac.modules.deterministic_actor_critic import DeterministicActorCriticRLModule

Batch = dict[str, torch.Tensor]

STATISTICS = ("critic_loss", "q_mean", "q_target_mean", "actor_objective", "action_saturation")
_STATISTICS_WINDOW = 100
_SATURATED = 0.99  # of the half box width


class DeterministicUpdate:
    """Everything that one update does to the parameters; serves any device.

    Args:
        module: pi, the critics and their target copies.
        config: The DDPGConfig or TD3Config.
        optimizers: "pi" and "q".
    """

    def __init__(
        self,
        module: DeterministicActorCriticRLModule,
        config: Any,
        optimizers: dict[str, torch.optim.Optimizer],
    ):
        self.module, self.config, self.optimizers = module, config, optimizers
        self.actor, self.critics = list(module.pi.parameters()), list(module.q.parameters())
        self.device = self.actor[0].device
        self.count = 0
        # Of the latest updates; NaN where the actor was left alone. Kept as a tensor, because
        # reading a number out of one after every update would cost more than computing it.
        self._statistics = torch.full((_STATISTICS_WINDOW, len(STATISTICS)), torch.nan)

    def step(self, replayed: dict[str, np.ndarray], rng: np.random.Generator) -> None:
        """One update from replayed transitions [N, ...], actions in the unit box."""
        batch = {name: self._to_tensor(column) for name, column in replayed.items()}
        row = self._statistics[self.count % _STATISTICS_WINDOW].fill_(torch.nan)
        self.count += 1
        self.learn_critics(batch, self.critic_target(batch, rng), row)
        if self.count % self.config.policy_delay == 0:
            self.learn_actor(batch, row)
            self.update_targets()

    @torch.no_grad()
    def critic_target(self, batch: Batch, rng: np.random.Generator) -> torch.Tensor:
        """y of every transition, [N]."""
        module, config = self.module, self.config
        action = module.policy(batch[Columns.NEXT_OBS], target=True)
        if config.target_noise > 0:
            noise = self._to_tensor(rng.standard_normal(action.shape, np.float32))
            action = smoothed_target_action(
                action, noise, config.target_noise, config.target_noise_clip
            )
        next_q = module.q_values(batch[Columns.NEXT_OBS], action, target=True)
        return q_target(batch[Columns.REWARDS], batch[DISCOUNT], next_q)

    def learn_critics(self, batch: Batch, target: torch.Tensor, row: torch.Tensor) -> None:
        """Descends the squared error of all critics."""
        q = self.module.q_values(batch[Columns.OBS], batch[Columns.ACTIONS])
        loss = critic_loss(q, target)
        self._descend("q", loss, self.critics)
        row[0], row[1], row[2] = loss.detach(), q[0].detach().mean(), target.mean()

    def learn_actor(self, batch: Batch, row: torch.Tensor) -> None:
        """Ascends the mean of Q_1(S, pi(S)): the deterministic policy gradient."""
        module, observations = self.module, module_input(batch)
        action = module.policy(observations)
        objective = module.q[0](module.features(observations), action).mean()
        self._descend("pi", -objective, self.actor)
        row[3], row[4] = objective.detach(), (action.detach().abs() > _SATURATED).float().mean()

    def update_targets(self) -> None:
        """Moves all target copies by tau."""
        for network, copied in self.module.get_target_network_pairs():
            soft_update(list(copied.parameters()), list(network.parameters()), self.config.tau)

    def statistics(self) -> dict[str, float]:
        """Means over the latest updates; names without a value are left out."""
        means = self._statistics.nanmean(0).tolist()
        return {name: mean for name, mean in zip(STATISTICS, means, strict=True) if mean == mean}
