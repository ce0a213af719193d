"""The equations of DDPG and TD3 (Lillicrap et al., 2015; Fujimoto et al., 2018).

Actions are in the unit box [-1, 1]^d, N is the size of a replay batch, K the number of critics
(1 for DDPG, 2 for TD3).
"""

from __future__ import annotations

from functools import reduce

import torch


def smoothed_target_action(
    action: torch.Tensor, noise: torch.Tensor, std: float, clip: float
) -> torch.Tensor:
    """Target policy smoothing: clip(pi'(S') + clip(std * noise, -clip, clip), -1, 1).

    Args:
        action: pi'(S') [N, d].
        noise: Standard normal numbers [N, d].
        std: Standard deviation of the noise, relative to the half width of the action box.
        clip: Bound of the noise, likewise.
    """
    return (action + (std * noise).clamp(-clip, clip)).clamp(-1, 1)


def q_target(
    rewards: torch.Tensor, discounts: torch.Tensor, next_q: list[torch.Tensor]
) -> torch.Tensor:
    """y = R + gamma min_k Q'_k(S', A'): rewards [N], discounts [N], K times [N] -> [N].

    With two critics that is clipped double Q-learning; the discount is 0 after a termination.
    """
    return torch.addcmul(rewards, discounts, reduce(torch.minimum, next_q))


def critic_loss(q: list[torch.Tensor], target: torch.Tensor) -> torch.Tensor:
    """sum_k mean (Q_k(S, A) - y)^2: K times [N], [N] -> scalar."""
    return sum((values - target).square().mean() for values in q)


def soft_update(targets: list[torch.Tensor], sources: list[torch.Tensor], tau: float) -> None:
    """theta' <- tau theta + (1 - tau) theta', in place."""
    torch._foreach_lerp_(targets, sources, tau)
