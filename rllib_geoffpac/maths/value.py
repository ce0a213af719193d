"""Importance ratios, the TD error and loss of V, and the Monte-Carlo metric J_pi.

The learner's functions work on arrays of any library (`maths.arrays`); N is any number of
transitions.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from rllib_geoffpac.maths.arrays import Array, namespace

MAX_LOG_RHO = 30.0
"""Cap on log rho before exp: e^30 is far above any useful clip of rho and far below overflow."""


def importance_ratio(target_logp: Array, behavior_logp: Array) -> Array:
    """rho_t = pi(A_t|S_t) / mu(A_t|S_t) from the two log-densities: [N], [N] -> [N]."""
    log_rho = (target_logp - behavior_logp).clip(max=MAX_LOG_RHO)
    return namespace(log_rho).exp(log_rho)


def effective_sample_size(rho: Array) -> Array:
    """(sum rho)^2 / sum rho^2: how many equally weighted samples [N] are worth; 0 if all are 0."""
    squares = (rho * rho).sum()
    return rho.sum() ** 2 / (squares + (squares == 0))


def td_error(reward: Array, discount: Array, next_value: Array, value: Array) -> Array:
    """delta_t = R_{t+1} + gamma_{t+1} V'(S_{t+1}) - V(S_t): [N] each.

    Args:
        reward: [N] R_{t+1}.
        discount: [N] gamma_{t+1}, the discount of this transition. The paper's pseudocode prints
            gamma_t, which would bootstrap across terminations.
        next_value: [N] V'(S_{t+1}) of the target network.
        value: [N] V(S_t).
    """
    return reward + discount * next_value - value


def value_loss(weight: Array, td_error: Array) -> Array:
    """Half the mean of weight_t delta_t^2 over [N] transitions; TD's weight is rho_t."""
    return (weight * td_error * td_error).mean() / 2


def monte_carlo_values(rewards: ArrayLike, discounts: ArrayLike) -> np.ndarray:
    """Return the discounted return from every visited state to the end of its episode.

    G_t = R_{t+1} + gamma_{t+1} G_{t+1}, with nothing after the last reward.

    Args:
        rewards: [T] R_{t+1}.
        discounts: [T] gamma_{t+1}.

    Returns:
        [T] float64.
    """
    rewards = np.asarray(rewards, dtype=np.float64)
    discounts = np.asarray(discounts, dtype=np.float64)
    if rewards.ndim != 1 or rewards.shape != discounts.shape:
        raise ValueError(
            "rewards and discounts must both have shape [T]; "
            f"got {rewards.shape} and {discounts.shape}."
        )
    values = np.empty_like(rewards)
    following = 0.0
    for t in range(len(rewards) - 1, -1, -1):
        following = rewards[t] + discounts[t] * following
        values[t] = following
    return values


def j_pi(episodes: Iterable[tuple[ArrayLike, ArrayLike]]) -> float:
    """J_pi, the paper's metric: the mean Monte-Carlo value of all states visited by pi.

    Every visited state counts once, so long episodes weigh more than short ones.

    Args:
        episodes: for each episode of the target policy its rewards [T] and discounts [T].
    """
    values = [monte_carlo_values(rewards, discounts) for rewards, discounts in episodes]
    if sum(map(len, values)) == 0:
        raise ValueError("j_pi needs at least one visited state, got none. Run an episode first.")
    return float(np.concatenate(values).mean())
