"""Where every estimator converges to with linear features, by linear algebra.

A critic is linear, f(s) = phi(s)^T w, with features phi [S, K]; `tabular(S)` gives tables. In the
stationary chain of mu the expected update of w is b - A w for all estimators here, with targets
computed from the same w (a target network changes the way there, not the end). Each function
returns A and b, whose fixed point is A^{-1} b, and which is stable when all eigenvalues of A have
positive real parts. With D = diag(d_mu), w(s, a) = mu(a|s) min(rho, rho_clip) in place of pi(a|s),
P and P_gamma its chains without and with the discounts, r(s) and mass(s) = sum_a w(s, a) its reward
and total (pi: r_pi and 1):

    td       V, E[rho_t delta_t phi_t]              A = Phi^T D (mass - P_gamma) Phi, b = Phi^T D r
    cop_td   the same with weight C(S_t)            D C in place of D
    etd      the same with weight M1_t              D E[M1|s] in place of D
    tdrc     gradient TD with a second critic h     see `tdrc`; w is TD's wherever A is regular
    vtrace   n-step targets                         D sum_{k<n} K^k in place of D
    U        i(S_t) V(S_t) + gamma_hat U(S_{t+1})   A = Phi^T D (mass - gamma_hat P) Phi
    C        gamma_hat rho_t C(S_t) + 1 - gamma_hat A = Phi^T (D - gamma_hat P^T D) Phi
    M        i(S_{t+1}) C(S_{t+1}) + gamma_{t+1} rho_t M(S_t)   A = Phi^T (D - P_gamma^T D) Phi

C and M move the feature of S_{t+1}: they look back along the chain, with teleports.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rllib_geoffpac.maths.finite_mdp import FiniteMDP
from rllib_geoffpac.maths.gradient_limits import geometric_sum
from rllib_geoffpac.maths.tables import check_fraction, checked_table


class LinearRule(NamedTuple):
    """An estimator whose expected update of its weights w is b - A w.

    Attributes:
        matrix: [K, K] A.
        vector: [K] b.
    """

    matrix: np.ndarray
    vector: np.ndarray

    def expected_update(self, weights: ArrayLike) -> np.ndarray:
        """b - A w [K], the mean of the update at `weights` [K] per unit of step size."""
        return self.vector - self.matrix @ np.asarray(weights)

    def fixed_point(self) -> np.ndarray:
        """A^{-1} b [K], or a ValueError where A is singular."""
        if np.linalg.cond(self.matrix) > 1e12:
            raise ValueError(
                "the estimator has no single fixed point with these features: its matrix is "
                f"singular (condition number {np.linalg.cond(self.matrix):.3g}). Drop features "
                "that are combinations of others, or another estimator may have one."
            )
        return np.linalg.solve(self.matrix, self.vector)

    @property
    def is_stable(self) -> bool:
        """True if small enough steps converge to the fixed point; off-policy TD's may not."""
        return bool(np.linalg.eigvals(self.matrix).real.min() > 0)


def tabular(states: int) -> np.ndarray:
    """Features [S, S] that make a table: one weight per state."""
    return np.eye(states)


def td(
    mdp: FiniteMDP, policy: ArrayLike, features: ArrayLike, rho_clip: float = np.inf
) -> LinearRule:
    """Off-policy TD(0): E[rho_t delta_t phi(S_t)] = 0, the paper's V loss.

    A table learns v_pi; with rho clipped, the values of the policy w / mass, which lies between mu
    and pi (V-trace's pi_rho_bar).
    """
    return _weighted_td(mdp, policy, features, np.ones(mdp.num_states), rho_clip)


def cop_td(
    mdp: FiniteMDP,
    policy: ArrayLike,
    features: ArrayLike,
    density_ratio: ArrayLike,
    rho_clip: float = np.inf,
) -> LinearRule:
    """TD weighted with C: E[C(S_t) rho_t delta_t phi(S_t)] = 0.

    The exact c of gamma_hat = 1 makes it on-policy TD, which is stable for a constant gamma.
    """
    weight = checked_table("density_ratio", density_ratio, (mdp.num_states,))
    return _weighted_td(mdp, policy, features, weight, rho_clip)


def etd(
    mdp: FiniteMDP,
    policy: ArrayLike,
    features: ArrayLike,
    density_ratio: ArrayLike | None = None,
    lambda_1: float = 1.0,
    trace_length: int | None = None,
    rho_clip: float = np.inf,
) -> LinearRule:
    """Emphatic TD: E[M1_t rho_t delta_t phi(S_t)] = 0, with `FiniteMDP.emphasis` as E[M1|s].

    `density_ratio` [S] is the C inside of M1; None is 1, ACE's emphasis. With the whole trace and
    lambda_1 = 1 it is stable for any features, because then m = (I - P_gamma^T)^{-1} D i.
    """
    if density_ratio is None:
        density_ratio = np.ones(mdp.num_states)
    weight = mdp.emphasis(
        policy,
        lambda_1=lambda_1,
        density_ratio=density_ratio,
        trace_length=trace_length,
        rho_clip=rho_clip,
    )
    return _weighted_td(mdp, policy, features, weight, rho_clip)


def tdrc(
    mdp: FiniteMDP,
    policy: ArrayLike,
    features: ArrayLike,
    regularization: float = 1.0,
    rho_clip: float = np.inf,
) -> LinearRule:
    """TDRC for the stacked weights [w, h] [2 K], V = phi^T w and h(s) = phi^T h.

        dw = rho_t (delta_t phi(S_t) - gamma_{t+1} h(S_t) phi(S_{t+1}))
        dh = (rho_t delta_t - h(S_t)) phi(S_t) - regularization h

    With TD's A and b, Sigma = Phi^T D Phi and G = E[gamma rho phi(S') phi(S)^T],

        A_w = [[A, G], [A, Sigma + regularization I]], b_w = [b, b].

    Without a clip G = Sigma - A^T, so at the end (A^T + regularization I) h = 0: h = 0, A w = b.
    Where TD is unstable, so is TDRC unless the regularisation is small (one feature: below -A).
    """
    features = _features(mdp, features)
    matrix, vector = td(mdp, policy, features, rho_clip)
    d_mu = mdp.behavior_distribution()[:, None]
    flow = mdp.discounted_chain(mdp.sampled_policy(policy, rho_clip))
    correction = features.T @ flow.T @ (d_mu * features)
    second_moment = features.T @ (d_mu * features)
    regularized = second_moment + regularization * np.eye(len(second_moment))
    stacked = np.block([[matrix, correction], [matrix, regularized]])
    return LinearRule(stacked, np.concatenate([vector, vector]))


def vtrace(
    mdp: FiniteMDP,
    policy: ArrayLike,
    features: ArrayLike,
    *,
    num_steps: int,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> LinearRule:
    """n-step V-trace: E[(v_t - V(S_t)) phi(S_t)] = 0.

    The target is v_t = V(S_t) + sum_{k<n} (prod_{j<k} gamma c)_{t+j} min(rho_bar, rho_{t+k})
    delta_{t+k}, c = min(c_bar, rho). With K[s, s'] = sum_a mu min(c_bar, rho) p gamma,

        A = Phi^T D S (mass - P_gamma) Phi, b = Phi^T D S r, S = sum_{k=0}^{n-1} K^k,

    where mass, P_gamma and r are clipped at rho_bar. A table learns v of pi_rho_bar, w / mass,
    whatever n and c_bar.
    """
    if num_steps < 1:
        raise ValueError(f"num_steps must be 1 or more transitions; got {num_steps!r}.")
    features = _features(mdp, features)
    d_mu = mdp.behavior_distribution()
    kernel = mdp.discounted_chain(mdp.sampled_policy(policy, c_bar))
    # D S, read from the right: S^T D phi = sum_k (K^T)^k (D phi).
    weighted = geometric_sum(kernel.T, d_mu[:, None] * features, num_steps - 1)
    return _projected(mdp, policy, features, weighted, rho_bar)


def counterfactual_values(
    mdp: FiniteMDP,
    policy: ArrayLike,
    features: ArrayLike,
    *,
    gamma_hat: float,
    values: ArrayLike,
    rho_clip: float = np.inf,
) -> LinearRule:
    """U's rule: E[rho_t delta^u_t phi(S_t)] = 0.

    delta^u_t = i(S_t) V(S_t) + gamma_hat U(S_{t+1}) - U(S_t), `values` [S] is V.
    lambda_2 does not enter: it mixes only what the actor sees.
    """
    check_fraction("gamma_hat", gamma_hat)
    features = _features(mdp, features)
    values = checked_table("values", values, (mdp.num_states,))
    sampled = mdp.sampled_policy(policy, rho_clip)
    mass = sampled.sum(axis=1)
    weighted = mdp.behavior_distribution()[:, None] * features
    matrix = weighted.T @ (np.diag(mass) - gamma_hat * mdp.chain(sampled)) @ features
    return LinearRule(matrix, weighted.T @ (mass * mdp.interest * values))


def density_ratio(
    mdp: FiniteMDP,
    policy: ArrayLike,
    features: ArrayLike,
    *,
    gamma_hat: float,
    soft_normalization: float = 0.0,
    rho_clip: float = np.inf,
) -> LinearRule:
    """The discounted COP rule: E[(gamma_hat rho_t C(S_t) + 1 - gamma_hat - C(S')) phi(S')] = 0.

    With `soft_normalization` x the gradient x (E[C] - 1) E[phi] is taken off. A table learns c for
    any x, because d_mu^T c = 1; at gamma_hat = 1 only x > 0 makes the fixed point a single one.
    """
    check_fraction("gamma_hat", gamma_hat)
    features = _features(mdp, features)
    d_mu = mdp.behavior_distribution()
    flow = gamma_hat * mdp.chain(mdp.sampled_policy(policy, rho_clip)).T
    matrix = features.T @ (np.diag(d_mu) - flow * d_mu) @ features
    mean = features.T @ d_mu
    matrix = matrix + soft_normalization * np.outer(mean, mean)
    return LinearRule(matrix, (1 - gamma_hat + soft_normalization) * mean)


def emphasis(
    mdp: FiniteMDP,
    policy: ArrayLike,
    features: ArrayLike,
    *,
    density_ratio: ArrayLike,
    rho_clip: float = np.inf,
) -> LinearRule:
    """M's rule: E[(i(S') C(S') + gamma_{t+1} rho_t M(S_t) - M(S')) phi(S')] = 0.

    `density_ratio` [S] is C. A table learns m / d_mu, the mean of F1 in every state.
    """
    features = _features(mdp, features)
    ratio = checked_table("density_ratio", density_ratio, (mdp.num_states,))
    d_mu = mdp.behavior_distribution()
    flow = mdp.discounted_chain(mdp.sampled_policy(policy, rho_clip)).T
    matrix = features.T @ (np.diag(d_mu) - flow * d_mu) @ features
    return LinearRule(matrix, features.T @ (d_mu * mdp.interest * ratio))


def action_values(mdp: FiniteMDP, policy: ArrayLike, features: ArrayLike) -> LinearRule:
    """Q's rule: E[(R + gamma Q(S', A') - Q(S, A)) phi(S, A)] = 0 with A' from pi; no ratio.

    `features` [S, A, K]; the data still weight the pairs by d_mu(s) mu(a|s).
    """
    return _pair_rule(mdp, policy, features, mdp.discounts, mdp.rewards)


def counterfactual_action_values(
    mdp: FiniteMDP,
    policy: ArrayLike,
    features: ArrayLike,
    *,
    gamma_hat: float,
    action_values: ArrayLike,
) -> LinearRule:
    """Q_u's rule: the target is gamma_hat (i(S') Q(S', A') + Q_u(S', A')), A' from pi.

    `features` [S, A, K]; `action_values` [S, A] is Q. A table learns q_u from the exact q.
    """
    check_fraction("gamma_hat", gamma_hat)
    q = checked_table("action_values", action_values, mdp.behavior.shape)
    reward = gamma_hat * mdp.interest * (mdp.checked_policy(policy) * q).sum(axis=1)
    shape = mdp.transitions.shape
    discounts, rewards = np.full(shape, gamma_hat), np.broadcast_to(reward, shape)
    return _pair_rule(mdp, policy, features, discounts, rewards)


def _weighted_td(
    mdp: FiniteMDP, policy: ArrayLike, features: ArrayLike, weight: np.ndarray, rho_clip: float
) -> LinearRule:
    features = _features(mdp, features)
    weighted = (mdp.behavior_distribution() * weight)[:, None] * features
    return _projected(mdp, policy, features, weighted, rho_clip)


def _projected(
    mdp: FiniteMDP, policy: ArrayLike, features: np.ndarray, weighted: np.ndarray, rho_clip: float
) -> LinearRule:
    """A = weighted^T (mass - P_gamma) Phi, b = weighted^T r."""
    sampled = mdp.sampled_policy(policy, rho_clip)
    reward = np.einsum("sa,sat,sat->s", sampled, mdp.transitions, mdp.rewards)
    error = np.diag(sampled.sum(axis=1)) - mdp.discounted_chain(sampled)
    return LinearRule(weighted.T @ error @ features, weighted.T @ reward)


def _pair_rule(
    mdp: FiniteMDP,
    policy: ArrayLike,
    features: ArrayLike,
    discounts: np.ndarray,
    rewards: np.ndarray,
) -> LinearRule:
    """Expected SARSA on state-action pairs drawn by mu, for any discounts and rewards."""
    features = np.asarray(features, dtype=np.float64)
    features = checked_table("features", features, (*mdp.behavior.shape, *features.shape[2:]))
    weight = mdp.behavior_distribution()[:, None] * mdp.behavior
    following = np.einsum("tb,tbk->tk", mdp.checked_policy(policy), features)
    expected = np.einsum("sat,sat,tk->sak", mdp.transitions, discounts, following)
    reward = np.einsum("sat,sat->sa", mdp.transitions, rewards)
    matrix = np.einsum("sa,sak,sal->kl", weight, features, features - expected)
    return LinearRule(matrix, np.einsum("sa,sak,sa->k", weight, features, reward))


def _features(mdp: FiniteMDP, features: ArrayLike) -> np.ndarray:
    features = np.asarray(features, dtype=np.float64)
    if features.ndim != 2:
        raise ValueError(f"features must have shape [S, K]; got {features.shape}.")
    return checked_table("features", features, (mdp.num_states, features.shape[1]))
