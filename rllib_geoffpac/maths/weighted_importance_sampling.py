"""Weighted (self-normalised) per-decision importance sampling of the objectives.

From a start point p of the data, any state of an episode or its first, the reward n transitions
later has the weight w_n = rho_p ... rho_{p+n}, whose mean is 1. Weighted importance sampling
divides by the mean that it really has, lag by lag:

    E[u] = sum_n (sum_p w_n g_n R_{p+n+1}) / (sum_p w_n),  g_n = gamma_{p+n} g_{n-1} + gamma_hat^n i

After an episode's end w_n stays what it was, so that every start point counts in every mean. That
is biased for few episodes and consistent, and can't leave the range of the rewards by one huge w.
"""

from __future__ import annotations

import numpy as np

from rllib_geoffpac.maths.off_policy_evaluation import Data, Estimate, Means, objective


def weighted(data: Data, gamma_hat: float) -> Estimate:
    """J_gamma_hat by weighted per-decision importance sampling."""
    episodes = data.episodes
    start_u, start_l = _weighted_means(data, gamma_hat, episodes.starts)
    if gamma_hat == 1:  # E_mu is not in it, and the costly part
        return objective(Means(start_u, start_l, start_u, start_l), gamma_hat)
    u, l = _weighted_means(data, gamma_hat, np.arange(episodes.num_transitions))  # noqa: E741
    return objective(Means(u, l, start_u, start_l), gamma_hat)


def _weighted_means(data: Data, gamma_hat: float, points: np.ndarray) -> tuple[Estimate, Estimate]:
    """E[u] and E[l] from the given start points [P] (in order)."""
    episodes = data.episodes
    count = episodes.num_episodes
    owner = np.repeat(np.arange(count), episodes.lengths)[points]
    left = episodes.ends[owner] - points  # transitions after this one
    log_rho = np.log(data.rho, where=data.rho > 0, out=np.full_like(data.rho, -np.inf))
    log_weight, payoff = np.zeros(len(points)), np.zeros(len(points))
    ended = _Ended(count)
    u, l = _Sum(count), _Sum(count)  # noqa: E741
    survival = 1.0
    for lag in range(int(episodes.lengths.max())):
        alive = left >= lag
        if not alive.all():
            ended.add(log_weight[~alive], owner[~alive])
            points, owner, left = points[alive], owner[alive], left[alive]
            log_weight, payoff = log_weight[alive], payoff[alive]
        here = points + lag
        l.add(survival, log_weight, owner, ended)
        into = data.discounts[here - 1] if lag else 0.0
        payoff = into * payoff + survival * data.interest[here]
        log_weight = log_weight + log_rho[here]
        u.add(payoff * data.rewards[here], log_weight, owner, ended)
        survival *= gamma_hat
    return u.estimate(), l.estimate()


class _Ended:
    """Sums of the weights of start points whose episode is over: per episode, in logarithms."""

    def __init__(self, count: int):
        self.log_sums = np.full(count, -np.inf)

    def add(self, log_weight: np.ndarray, owner: np.ndarray) -> None:
        np.logaddexp.at(self.log_sums, owner, log_weight)


class _Sum:
    """sum over lags of (sum_p w x) / (sum_p w), and the influence of each episode on it."""

    def __init__(self, count: int):
        self.value, self.influence = 0.0, np.zeros(count)

    def add(
        self, x: np.ndarray | float, log_weight: np.ndarray, owner: np.ndarray, ended: _Ended
    ) -> None:
        # Products of hundreds of ratios leave the range of floats; a common factor cancels.
        highest = max(log_weight.max(initial=-np.inf), ended.log_sums.max())
        if np.isneginf(highest):
            return  # no start point can follow pi so far: nothing is known of what comes
        count = len(self.influence)
        weight = np.exp(log_weight - highest)
        payoffs = np.bincount(owner, weight * x, count)
        weights = np.bincount(owner, weight, count) + np.exp(ended.log_sums - highest)
        ratio = payoffs.sum() / weights.sum()
        self.value += ratio
        self.influence += (payoffs - ratio * weights) / weights.mean()

    def estimate(self) -> Estimate:
        return Estimate(float(self.value), self.influence)
