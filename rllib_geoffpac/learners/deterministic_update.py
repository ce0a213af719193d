"""One update of DDPG or TD3 from a replay batch.

Read it beside the papers' pseudocode, Algorithm 1 in both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rllib_geoffpac.learners.deterministic_networks import KernelNetworks, TorchNetworks
from rllib_geoffpac.maths.deterministic import critic_loss, q_target, smoothed_target_action

_SATURATED = 0.99  # of the half width of the action box
_WINDOW = 100


class LatestBatches:
    """Some numbers per transition of the latest updates, for metrics.

    They are kept as they are until they are asked for: means after every update would cost a
    twelfth of it.
    """

    def __init__(self):
        self._rows: torch.Tensor | None = None  # [window, N, columns]
        self._count = 0

    def add(self, *columns: torch.Tensor) -> None:
        """Adds an update's columns, [N] or [N, d] each."""
        if self._rows is None:
            width = torch.column_stack(columns).shape[1]
            self._rows = columns[0].new_zeros(_WINDOW, len(columns[0]), width)
        torch.column_stack(columns, out=self._rows[self._count % _WINDOW])
        self._count += 1

    def columns(self) -> tuple[torch.Tensor, ...]:
        """Every column of the latest updates one after the other, [M]; none before the first."""
        if self._rows is None:
            return ()
        return self._rows[: self._count].flatten(0, 1).unbind(1)


class DDPGUpdate:
    """Everything that one update of DDPG does.

    Args:
        networks: pi, the critics and their target copies.
        config: The DDPGConfig.
    """

    def __init__(self, networks: TorchNetworks | KernelNetworks, config: Any):
        self.networks, self.config = networks, config
        self.count = 0
        self._of_critics, self._of_actor = LatestBatches(), LatestBatches()

    def step(self, replayed: dict[str, np.ndarray], rng: np.random.Generator) -> None:
        """One update from replayed transitions [N, ...], actions in the unit box."""
        networks = self.networks
        rewards, discounts = networks.load(replayed)
        next_q = networks.target_values(self.target_action(rng))
        target = q_target(rewards, discounts, next_q)
        q = networks.learn_critics(target)
        self._of_critics.add(target, *q)
        self.count += 1
        if self.actor_is_due():
            action, values = networks.learn_actor()
            self._of_actor.add(values, action)
            networks.update_targets()

    def target_action(self, rng: np.random.Generator) -> torch.Tensor:
        """The action [N, d] at which the target looks: pi'(S')."""
        return self.networks.target_action()

    def actor_is_due(self) -> bool:
        """Whether pi and the target copies learn in this update."""
        return True

    def metrics(self) -> dict[str, float]:
        """Means over the latest updates of the critics and of pi; nothing before the first."""
        metrics = {}
        if columns := self._of_critics.columns():
            target, *q = columns
            metrics["critic_loss"] = critic_loss(q, target)
            metrics["q_mean"] = q[0].mean()
            metrics["q_target_mean"] = target.mean()
        if columns := self._of_actor.columns():
            values, *actions = columns
            metrics["actor_objective"] = values.mean()
            saturated = torch.stack(actions).abs() > _SATURATED
            metrics["action_saturation_share"] = saturated.to(values.dtype).mean()
        return {name: float(value) for name, value in metrics.items()}


class TD3Update(DDPGUpdate):
    """TD3's update: a smoothed target action, and pi and the targets learn more rarely.

    Of its two critics, `q_target` takes the lower one.
    """

    def target_action(self, rng):
        config, action = self.config, super().target_action(rng)
        noise = torch.from_numpy(rng.standard_normal(action.shape, np.float32)).to(action)
        return smoothed_target_action(action, noise, config.target_noise, config.target_noise_clip)

    def actor_is_due(self):
        return self.count % self.config.policy_delay == 0
