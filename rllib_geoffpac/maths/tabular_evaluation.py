"""The fitted functions of off-policy evaluation as tables, by linear algebra on what was counted.

q, u and l are those of the chain that the data show, pi restricted to the actions that they have in
each state. c and m solve their rules (`maths.density_ratio`, `maths.emphasis`) on the average of
all transitions into a state; what a teleport carries to a first state is averaged over all
teleports, since it does not depend on where the next episode begins.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rllib_geoffpac.maths.off_policy_evaluation import Data, Fits


def fit_tables(
    data: Data, states: np.ndarray, actions: np.ndarray, policy: np.ndarray, gamma_hat: float
) -> Fits:
    """Fits all functions for one gamma_hat.

    Args:
        data: N logged transitions.
        states: [N] S_t, from 0 to S - 1, each of them in the data.
        actions: [N] A_t, from 0 to A - 1.
        policy: [S, A] pi(a|s).
        gamma_hat: in [0, 1].
    """
    size = len(policy)
    visits = np.bincount(states, minlength=size)
    interest = np.bincount(states, data.interest, size) / visits
    within = np.ones(len(states), bool)
    within[data.episodes.ends] = False
    step = (states[within], states[np.flatnonzero(within) + 1])

    def flow(weights: np.ndarray) -> np.ndarray:
        """[S, S] sum of the weights of the transitions from s to s' inside episodes."""
        table = np.zeros((size, size))
        np.add.at(table, step, weights[within])
        return table

    counts = np.zeros(policy.shape)
    np.add.at(counts, (states, actions), 1)
    seen = np.where(counts > 0, policy, 0)
    seen = seen / np.maximum(seen.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    share = (seen / np.maximum(counts, 1))[states, actions]
    identity = np.eye(size)
    reward = np.bincount(states, share * data.rewards, size)
    v = np.linalg.solve(identity - flow(share * data.discounts), reward)
    onwards = identity - gamma_hat * flow(share)
    u = np.linalg.solve(onwards, interest * v)
    l = np.linalg.solve(onwards, np.ones(size))  # noqa: E741
    following = data.episodes.following

    def action_mean(x: np.ndarray) -> np.ndarray:
        """[N] the mean of x over all transitions of the same state and action."""
        total = np.zeros(policy.shape)
        np.add.at(total, (states, actions), x)
        return (total / np.maximum(counts, 1))[states, actions]

    ratio, emphasis = _weights(data, states, visits, interest, flow, gamma_hat)
    return Fits(
        v=v[states],
        q=action_mean(data.rewards + data.discounts * following(v[states])),
        u=u[states],
        q_u=action_mean(gamma_hat * following(u[states])),
        l=l[states],
        q_l=action_mean(gamma_hat * following(l[states])),
        density_ratio=ratio[states],
        emphasis=emphasis[states],
    )


def _weights(
    data: Data,
    states: np.ndarray,
    visits: np.ndarray,
    interest: np.ndarray,
    flow: Callable[[np.ndarray], np.ndarray],
    gamma_hat: float,
) -> tuple[np.ndarray, np.ndarray]:
    """c and m [S]: at gamma_hat = 1 c counts the visits of pi in an episode for each one of mu."""
    size, episodes = len(visits), data.episodes
    starts = np.bincount(states[episodes.starts], minlength=size)
    system = np.diag(visits) - gamma_hat * flow(data.rho).T
    if gamma_hat < 1:
        ends = np.bincount(states[episodes.ends], data.rho[episodes.ends], size)
        system = system - gamma_hat * np.outer(starts, ends) / episodes.num_episodes
        ratio = np.linalg.solve(system, (1 - gamma_hat) * visits)
    else:
        ratio = np.linalg.solve(system, starts)
    system = np.diag(visits) - flow(data.rho * data.discounts).T
    return ratio, np.linalg.solve(system, visits * interest * ratio)
