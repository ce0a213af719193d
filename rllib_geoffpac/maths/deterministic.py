"""The equations of DDPG and TD3 (Lillicrap et al., 2015; Fujimoto et al., 2018).

Actions are in the unit box [-1, 1]^d, N is the size of a replay batch, K the number of critics
(1 for DDPG, 2 for TD3). Everything works on arrays of any library (`maths.arrays`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from rllib_geoffpac.maths.arrays import Array, namespace


def smoothed_target_action(action: Array, noise: Array, std: float, clip: float) -> Array:
    """Target policy smoothing: clip(pi'(S') + clip(std * noise, -clip, clip), -1, 1).

    Args:
        action: pi'(S') [N, d].
        noise: Standard normal numbers [N, d].
        std: Standard deviation of the noise, relative to the half width of the action box.
        clip: Bound of the noise, likewise.
    """
    return (action + (std * noise).clip(-clip, clip)).clip(-1, 1)


def q_target(rewards: Array, discounts: Array, next_q: Sequence[Array]) -> Array:
    """y = R + gamma min_k Q'_k(S', A'): rewards [N], discounts [N], K times [N] -> [N].

    With two critics that is clipped double Q-learning; the discount is 0 after a termination.
    """
    return rewards + discounts * reduce(namespace(rewards).minimum, next_q)


def critic_loss(q: Sequence[Array], target: Array) -> Array:
    """sum_k mean (Q_k(S, A) - y)^2: K times [N], [N] -> scalar."""
    return sum(((values - target) ** 2).mean() for values in q)
