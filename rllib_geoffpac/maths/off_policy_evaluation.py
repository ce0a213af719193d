"""What logged data say of the objectives of a target policy: estimators with their influence.

The chain is that of the paper: episodes joined by teleports. An episode's end, by termination or by
a time limit, is a transition with discount 0 to a start state that does not depend on the past. So
the episodes are independent, and J_gamma_hat, for every gamma_hat in [0, 1], is made of four means
over single episodes. With

    u(s) = i(s) v(s) + gamma_hat E_pi[u(S'); not the end],  l(s) = 1 + gamma_hat E_pi[l(S'); ...]

the value of the values and the number of visits up to the episode's end,

    J_gamma_hat = (1 - gamma_hat) E_mu[u] + (1 - (1 - gamma_hat) E_mu[l]) E_0[u] / E_0[l]:

E_mu is the mean over the states of the data, E_0 that over first states. J_mu = E_mu[u] is its case
gamma_hat = 0, and J_pi = E_0[u] / E_0[l] its case 1.

Everything is numpy, float64; N transitions of n episodes (`Episodes`). Every estimate carries its
influence [n]: what each episode contributes to the error, which gives the standard error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from rllib_geoffpac.maths.episodes import Episodes


class Data(NamedTuple):
    """Logged transitions, with all that an objective of pi needs to know of them: [N] each."""

    episodes: Episodes
    rewards: np.ndarray  # R_{t+1}
    discounts: np.ndarray  # gamma_{t+1}, 0 where an episode ends
    rho: np.ndarray  # pi(A_t|S_t) / mu(A_t|S_t)
    interest: np.ndarray  # i(S_t)


class Fits(NamedTuple):
    """Functions that were fitted for one gamma_hat, at the data: [N] each.

    q is the action value. q_u and q_l are what an action is worth through the states that follow it
    in its episode, gamma_hat E[u(S')] and gamma_hat E[l(S')]; so v = E_pi[q], u = i v + E_pi[q_u]
    and l = 1 + E_pi[q_l].
    """

    v: np.ndarray  # v(S_t)
    q: np.ndarray  # q(S_t, A_t)
    u: np.ndarray
    q_u: np.ndarray
    l: np.ndarray  # noqa: E741  (visits)
    q_l: np.ndarray
    density_ratio: np.ndarray  # c(S_t), up to a factor
    emphasis: np.ndarray  # m(S_t) of that c, up to a factor


class Estimate(NamedTuple):
    """An estimate and the influence [n] of each episode on it; its mean is about 0."""

    value: float
    influence: np.ndarray

    @property
    def standard_error(self) -> float:
        """Of the value, over independent episodes; NaN for a single one."""
        count = len(self.influence)
        if count < 2:
            return float("nan")
        return float(self.influence.std(ddof=1) / np.sqrt(count))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Confidence interval by Student's t with n - 1 degrees of freedom."""
        quantile = stdtrit(len(self.influence) - 1, (1 + confidence) / 2)
        margin = quantile * self.standard_error
        return float(self.value - margin), float(self.value + margin)


def state_mean(x: np.ndarray, episodes: Episodes) -> Estimate:
    """E_mu[x], the mean over all states: [N]. Long episodes weigh more, so it is a ratio."""
    mean = x.mean()
    residual = episodes.sums(x) - mean * episodes.lengths
    return Estimate(float(mean), residual / episodes.lengths.mean())


def start_mean(x: np.ndarray, episodes: Episodes) -> Estimate:
    """E_0[x], the mean over first states: [N]."""
    first = x[episodes.starts]
    return Estimate(float(first.mean()), first - first.mean())


class Means(NamedTuple):
    """The four means of which an objective is made."""

    u: Estimate  # E_mu[u]
    l: Estimate  # noqa: E741  E_mu[l]
    start_u: Estimate  # E_0[u]
    start_l: Estimate  # E_0[l]


def means(u: np.ndarray, l: np.ndarray, episodes: Episodes) -> Means:  # noqa: E741
    """The four means of u and l at the data: [N], [N]."""
    return Means(
        state_mean(u, episodes),
        state_mean(l, episodes),
        start_mean(u, episodes),
        start_mean(l, episodes),
    )


def objective(means: Means, gamma_hat: float) -> Estimate:
    """J_gamma_hat from the four means (this module's formula), and its influence (delta method)."""
    restart = 1 - gamma_hat
    per_cycle = means.start_u.value / means.start_l.value  # J_pi's form, whatever gamma_hat
    share = 1 - restart * means.l.value
    value = restart * means.u.value + share * per_cycle
    cycle_influence = means.start_u.influence - per_cycle * means.start_l.influence
    influence = restart * (means.u.influence - per_cycle * means.l.influence)
    return Estimate(value, influence + share / means.start_l.value * cycle_influence)


def per_decision_values(data: Data, gamma_hat: float) -> tuple[np.ndarray, np.ndarray]:
    """u and l [N] by per-decision importance sampling, from the rest of each episode.

        v_t = rho_t (R_{t+1} + gamma_{t+1} v_{t+1}),
        u_t = i(S_t) v_t + gamma_hat rho_t u_{t+1},  l_t = 1 + gamma_hat rho_t l_{t+1}

    are unbiased for v(S_t), u(S_t) and l(S_t); no function is fitted.
    """
    backward, rho = data.episodes.backward, data.rho
    v = backward(rho * data.rewards, rho * data.discounts)
    u = backward(data.interest * v, gamma_hat * rho)
    return u, backward(np.ones_like(rho), gamma_hat * rho)


def per_decision(data: Data, gamma_hat: float) -> Estimate:
    """J_gamma_hat by per-decision importance sampling."""
    u, l = per_decision_values(data, gamma_hat)  # noqa: E741
    return objective(means(u, l, data.episodes), gamma_hat)


def per_decision_weights(data: Data, gamma_hat: float) -> np.ndarray:
    """M_t rho_t [N], with which per-decision importance sampling weighs R_{t+1}.

    The backward view of the same estimate: J = mean of M_t rho_t R_{t+1}, with the traces

        C_t = gamma_hat rho_{t-1} C_{t-1} + (1 - gamma_hat) + start_t,
        M_t = gamma_t rho_{t-1} M_{t-1} + i(S_t) C_t,

    where start_t, not 0 at first states alone, is what the teleports carry there on average.
    """
    episodes, rho = data.episodes, data.rho
    _, l = per_decision_values(data, gamma_hat)  # noqa: E741
    restart = np.full_like(rho, 1 - gamma_hat)
    share = 1 - (1 - gamma_hat) * l.mean()
    restart[episodes.starts] += share * episodes.lengths.mean() / l[episodes.starts].mean()
    ratio = episodes.forward(restart, gamma_hat * rho)
    return rho * episodes.forward(data.interest * ratio, data.discounts * rho)


def reward_mass(data: Data, weights: np.ndarray) -> float:
    """What weights [N] of the rewards add up to, as a fraction of what they must: 1 if all is well.

    E_mu[M_t rho_t (1 - gamma_{t+1})] = E[i], with the same i in all states: what enters at every
    state leaves by the discounts. Heavy tails that no sample has hit are missing here.
    """
    return float((weights * (1 - data.discounts)).mean() / data.interest.mean())


def fitted_q(data: Data, gamma_hat: float, fits: Fits) -> Estimate:
    """J_gamma_hat by fitted Q evaluation: the four means of the fitted u and l.

    Its influence has the temporal-difference errors of the fits in it, as that of the doubly robust
    estimator has: for fits as flexible as tables both are the same to first order.
    """
    plug_in = objective(means(fits.u, fits.l, data.episodes), gamma_hat)
    correction = _correction(data, gamma_hat, fits)
    return Estimate(plug_in.value, plug_in.influence + correction.influence)


def doubly_robust(data: Data, gamma_hat: float, fits: Fits) -> Estimate:
    """Fitted Q evaluation plus its weighted temporal-difference errors.

        mean of c(S) rho [gamma_hat w(S') - q_w(S, A)] + m(S) rho [R + gamma v(S') - q(S, A)],

    w = u - J l with J = E_0[u] / E_0[l], whose mean over first states is 0. Exact if q, q_u and q_l
    are exact, whatever c and m, and if c and m are, whatever the others.
    """
    plug_in = objective(means(fits.u, fits.l, data.episodes), gamma_hat)
    correction = _correction(data, gamma_hat, fits)
    return Estimate(plug_in.value + correction.value, plug_in.influence + correction.influence)


def _correction(data: Data, gamma_hat: float, fits: Fits) -> Estimate:
    following, (c, m) = data.episodes.following, normalised_weights(data, fits)
    w, per_cycle = _relative(data, fits)
    q_w = fits.q_u - per_cycle * fits.q_l
    counterfactual = c * data.rho * (gamma_hat * following(w) - q_w)
    delta = data.rewards + data.discounts * following(fits.v) - fits.q
    return state_mean(counterfactual + m * data.rho * delta, data.episodes)


def density_ratio_weighting(data: Data, gamma_hat: float, fits: Fits) -> Estimate:
    """J_gamma_hat = E_mu[m rho R], with the emphasis m of c; neither v nor q enter it.

    They enter its influence, that of c and m fitted with ratios (their rules know no q):

        c (i v - J + gamma_hat rho w(S') - w) + m (rho (R + gamma v(S')) - v - k (rho - 1)),

    w and J as for the doubly robust estimator, k = E_mu[m rho R] / E_mu[i c] from normalising m,
    beside the influence of the first states. Below gamma_hat = 1, where c passes through the
    teleports with their ratios, it has -c gamma_hat (rho - 1) E_mu[w], too.
    """
    following, (c, m) = data.episodes.following, normalised_weights(data, fits)
    value = float((m * data.rho * data.rewards).mean())
    w, per_cycle = _relative(data, fits)
    visits = data.interest * fits.v - per_cycle + gamma_hat * data.rho * following(w) - w
    if gamma_hat < 1:
        visits -= gamma_hat * (data.rho - 1) * w.mean()
    rewards = data.rho * (data.rewards + data.discounts * following(fits.v)) - fits.v
    rewards -= value / (data.interest * c).mean() * (data.rho - 1)
    errors = state_mean(c * visits + m * rewards, data.episodes)
    plug_in = objective(means(fits.u, fits.l, data.episodes), gamma_hat)
    return Estimate(value, plug_in.influence + errors.influence)


def normalised_weights(data: Data, fits: Fits) -> tuple[np.ndarray, np.ndarray]:
    """c and m [N] with the means that they must have.

    E_mu[c] = 1 and E_mu[m rho (1 - gamma)] = E_mu[i c], which is the sum of m's rule over all
    states: what enters by i c leaves by the discounts.
    """
    c = fits.density_ratio / fits.density_ratio.mean()
    leaving = (fits.emphasis * data.rho * (1 - data.discounts)).mean()
    return c, fits.emphasis * (data.interest * c).mean() / leaving


def _relative(data: Data, fits: Fits) -> tuple[np.ndarray, float]:
    """w [N] = u - J l, whose mean over first states is 0, and that J."""
    first = data.episodes.starts
    per_cycle = fits.u[first].mean() / fits.l[first].mean()
    return fits.u - per_cycle * fits.l, float(per_cycle)
