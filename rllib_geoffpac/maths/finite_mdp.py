"""Finite MDPs in which every quantity of the paper is exact linear algebra (float64 numpy).

S states, A actions, P = S * A parameters: the logits [S, A] of a softmax policy, flattened in C
order, so that parameter s * A + a is the logit of action a in state s. Matrices are written as in
the paper: P_pi[s, s'] = sum_a pi(a|s) p(s'|s, a), and P_{pi,gamma} the same with the discounts
gamma(s, a, s') inside.

An episodic task is a continuing one here: the transition that ends an episode leads to a start
state and has the discount 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rllib_geoffpac.maths import gradient_limits
from rllib_geoffpac.maths.gradient_limits import PolicyGradientTerms
from rllib_geoffpac.maths.tables import (
    TOLERANCE,
    check_distributions,
    check_every_state_is_reachable,
    check_fraction,
    checked_table,
    softmax_policy,
    stationary_distribution,
)

if TYPE_CHECKING:
    from rllib_geoffpac.envs.finite_mdp_env import FiniteMDPEnv


class TraceRadius(NamedTuple):
    """Growth per step of the second moments of F1 and F2; finite only below 1."""

    first: float
    second: float


class FiniteMDP:
    """A finite MDP with transition-based discounts, a fixed behaviour policy and an interest.

    Args:
        transitions: [S, A, S] p(s'|s, a).
        rewards: [S, A, S] r(s, a, s').
        discounts: [S, A, S] gamma(s, a, s'), in [0, 1]; 0 ends an episode.
        behavior: [S, A] mu(a|s). Its chain must reach every state from every other. It may be
            periodic: averages over time converge all the same.
        interest: [S] i(s) >= 0; None is 1 everywhere.
        start: state, or distribution [S], in which `as_env()` begins; None is the stationary
            distribution of the behaviour policy.

    Policies are tables [S, A]. They may be complex, so that derivatives can be taken by a complex
    step.

    Example:
        >>> mdp = FiniteMDP.two_circle()
        >>> logits = np.zeros((11, 2))
        >>> bool(mdp.gradient(logits, gamma_hat=0.9).total[0] > 0)  # towards the outer circle
        True
    """

    def __init__(
        self,
        transitions: ArrayLike,
        rewards: ArrayLike,
        discounts: ArrayLike,
        behavior: ArrayLike,
        interest: ArrayLike | None = None,
        start: int | ArrayLike | None = None,
    ):
        self.transitions = np.array(transitions, dtype=np.float64)
        shape = self.transitions.shape
        if len(shape) != 3 or shape[0] != shape[2] or 0 in shape:
            raise ValueError(f"transitions must have shape [S, A, S]; got {shape}.")
        self.num_states, self.num_actions, _ = shape
        check_distributions("transitions", self.transitions)
        self.rewards = checked_table("rewards", rewards, shape)
        self.discounts = checked_table("discounts", discounts, shape)
        if (self.discounts < 0).any() or (self.discounts > 1).any():
            raise ValueError(
                "discounts must lie between 0 and 1; got values from "
                f"{self.discounts.min()} to {self.discounts.max()}."
            )
        self.behavior = checked_table("behavior", behavior, shape[:2])
        check_distributions("behavior", self.behavior)
        interest = np.ones(self.num_states) if interest is None else interest
        self.interest = checked_table("interest", interest, shape[:1])
        if (self.interest < 0).any():
            raise ValueError(
                f"interest must not be negative; got the smallest value {self.interest.min()}."
            )
        check_every_state_is_reachable(self.chain(self.behavior))
        self._behavior_distribution = stationary_distribution(self.chain(self.behavior))
        self.start = None if start is None else self._start_distribution(start)

    @classmethod
    def two_circle(cls) -> FiniteMDP:
        """Return the two-circle MDP of the paper (Figure 1): 11 states, 2 actions, gamma 0.6.

        In A = 0 action 0 leads to B = 1, the outer circle 1, 2, 3, where leaving 3 pays 10, and
        action 1 to C = 4, the inner circle 4, 5, 6, where leaving 4 pays 5. Both go on to 7, 8, 9,
        10 and back to A. Elsewhere both actions do the same; mu is uniform. It begins in A.
        """
        successor = {1: 2, 2: 3, 3: 7, 4: 5, 5: 6, 6: 7, 7: 8, 8: 9, 9: 10, 10: 0}
        transitions = np.zeros((11, 2, 11))
        transitions[0, 0, 1] = transitions[0, 1, 4] = 1
        for state, following in successor.items():
            transitions[state, :, following] = 1
        rewards = np.zeros((11, 2, 11))
        rewards[3, :, 7] = 10
        rewards[4, :, 5] = 5
        return cls(transitions, rewards, np.full((11, 2, 11), 0.6), np.full((11, 2), 0.5), start=0)

    def behavior_distribution(self) -> np.ndarray:
        """d_mu [S], the stationary distribution of the behaviour policy."""
        return self._behavior_distribution.copy()

    def target_distribution(self, policy: ArrayLike) -> np.ndarray:
        """d_pi [S], the stationary distribution of `policy`."""
        return self.counterfactual_distribution(policy, 1.0)

    def counterfactual_distribution(self, policy: ArrayLike, gamma_hat: float) -> np.ndarray:
        """d_gamma_hat [S] (paper, Eq. d_gamma); d_mu for gamma_hat = 0 and d_pi for 1."""
        check_fraction("gamma_hat", gamma_hat)
        chain = self.chain(self.checked_policy(policy))
        if gamma_hat == 1:
            return stationary_distribution(chain)
        system = np.eye(self.num_states) - gamma_hat * chain.T
        return np.linalg.solve(system, (1 - gamma_hat) * self._behavior_distribution)

    def density_ratio(self, policy: ArrayLike, gamma_hat: float) -> np.ndarray:
        """c [S] = d_gamma_hat / d_mu."""
        return self.counterfactual_distribution(policy, gamma_hat) / self._behavior_distribution

    def values(self, policy: ArrayLike) -> np.ndarray:
        """v_pi [S], the solution of v = r_pi + P_{pi,gamma} v."""
        policy = self.checked_policy(policy)
        reward = np.einsum("sa,sat,sat->s", policy, self.transitions, self.rewards)
        return np.linalg.solve(np.eye(self.num_states) - self.discounted_chain(policy), reward)

    def action_values(self, policy: ArrayLike) -> np.ndarray:
        """q_pi [S, A] = sum_s' p(s'|s, a) (r(s, a, s') + gamma(s, a, s') v_pi(s'))."""
        return self.backup(self.values(policy))

    def backup(self, values: ArrayLike) -> np.ndarray:
        """q_V [S, A]: the action values when every state is worth `values` [S]."""
        target = self.rewards + self.discounts * np.asarray(values)
        return np.einsum("sat,sat->sa", self.transitions, target)

    def counterfactual_values(self, policy: ArrayLike, gamma_hat: float) -> np.ndarray:
        """u [S], the value of the values: u = i v_pi + gamma_hat P_pi u, for gamma_hat < 1.

        S' goes along the chain with its teleports and no gamma enters, so that J_gamma_hat =
        (1 - gamma_hat) sum_s d_mu(s) u(s). At gamma_hat = 1 u is infinite; see
        `relative_counterfactual_values`.
        """
        check_fraction("gamma_hat", gamma_hat)
        if gamma_hat == 1:
            raise ValueError(
                "gamma_hat must be below 1, where u is a finite sum; got 1. Only differences of u "
                "exist there: ask for relative_counterfactual_values()."
            )
        policy = self.checked_policy(policy)
        system = np.eye(self.num_states) - gamma_hat * self.chain(policy)
        return np.linalg.solve(system, self.interest * self.values(policy))

    def relative_counterfactual_values(
        self, policy: ArrayLike, gamma_hat: float, values: ArrayLike | None = None
    ) -> np.ndarray:
        """u [S] up to a constant, also for gamma_hat = 1: x = i v + gamma_hat P_pi x - d_mu^T x.

        The policy gradient does not see the constant. `values` [S] take the place of v_pi.
        """
        check_fraction("gamma_hat", gamma_hat)
        policy = self.checked_policy(policy)
        values = self.values(policy) if values is None else np.asarray(values)
        system = np.eye(self.num_states) - gamma_hat * self.chain(policy)
        return np.linalg.solve(system + self._behavior_distribution, self.interest * values)

    def counterfactual_action_values(self, policy: ArrayLike, gamma_hat: float) -> np.ndarray:
        """q_u [S, A] = gamma_hat E[i(S') q(S', A') + q_u(S', A') | s, a], A' drawn from pi.

        It is gamma_hat E[u(S')|s, a], what an action is worth through the states that follow it.
        Therefore u(s) = i(s) v(s) + sum_a pi(a|s) q_u(s, a): the interest of s itself is outside.
        """
        return gamma_hat * self.transitions @ self.counterfactual_values(policy, gamma_hat)

    def emphasis(
        self,
        policy: ArrayLike,
        *,
        gamma_hat: float = 0.0,
        lambda_1: float = 1.0,
        density_ratio: ArrayLike | None = None,
        trace_length: int | None = None,
        rho_clip: float = np.inf,
    ) -> np.ndarray:
        """E[M1_t | S_t = s] [S] in the limit: m / d_mu for lambda_1 = 1.

        With D = diag(d_mu), m = sum_{k=0}^n (P_{pi,gamma}^T)^k D (i C), which for n -> infinity is
        (I - P_{pi,gamma}^T)^{-1} D (i C), and M1 = (1 - lambda_1) i C + lambda_1 m / d_mu.

        Args:
            policy: [S, A].
            gamma_hat: of the exact c; not used where `density_ratio` is given.
            lambda_1: in [0, 1].
            density_ratio: [S] C; None is the exact c.
            trace_length: n, how many transitions F1 remembers; None is all of them.
            rho_clip: the largest rho that enters F1.
        """
        check_fraction("lambda_1", lambda_1)
        sampled = self.sampled_policy(policy, rho_clip)
        if density_ratio is None:
            density_ratio = self.density_ratio(policy, gamma_hat)
        density_ratio = checked_table("density_ratio", density_ratio, (self.num_states,))
        start = self._behavior_distribution * self.interest * density_ratio
        flow = self.discounted_chain(sampled).T
        followon = gradient_limits.geometric_sum(flow, start, trace_length)
        return ((1 - lambda_1) * start + lambda_1 * followon) / self._behavior_distribution

    def overlap(self, policy: ArrayLike, rho_clip: float) -> float:
        """E_mu[min(rho, k)] = sum_s d_mu(s) sum_a min(pi(a|s), k mu(a|s)), k = `rho_clip`.

        The mass of pi that the data can speak about, in (0, 1] for k >= 1.
        """
        weights = np.minimum(self.checked_policy(policy), rho_clip * self.behavior)
        return float(self._behavior_distribution @ weights.sum(axis=1))

    def objective(self, policy: ArrayLike, gamma_hat: float) -> float:
        """J_gamma_hat = sum_s d_gamma_hat(s) i(s) v_pi(s); J_mu for gamma_hat = 0, J_pi for 1."""
        weight = self.counterfactual_distribution(policy, gamma_hat) * self.interest
        return (weight * self.values(policy)).sum()

    def gradient(self, logits: ArrayLike, gamma_hat: float) -> PolicyGradientTerms:
        """Return the two terms of the policy gradient theorem at the softmax `logits` [S, A].

        The theorem asks for gamma_hat < 1; at 1 these are its limits, the gradient of J_pi.
        """
        policy = softmax_policy(checked_table("logits", logits, self.behavior.shape))
        return self.limits(policy, gamma_hat=gamma_hat, lambda_1=1.0, lambda_2=1.0)

    def limits(
        self,
        policy: ArrayLike,
        *,
        gamma_hat: float,
        lambda_1: float,
        lambda_2: float,
        **settings: Any,
    ) -> PolicyGradientTerms:
        """Return the limits of E_mu[Z1_t] and E_mu[Z2_t] for fixed pi and fixed critics.

        See `gradient_limits.limits` for the equations and for `settings`: critics that are not
        exact (`density_ratio`, `values` ...), the view, the emphasis, a clip of rho.
        """
        return gradient_limits.limits(
            self, policy, gamma_hat=gamma_hat, lambda_1=lambda_1, lambda_2=lambda_2, **settings
        )

    def action_value_limits(
        self, policy: ArrayLike, *, gamma_hat: float, lambda_1: float, **settings: Any
    ) -> PolicyGradientTerms:
        """Return the same for action-value critics; see `gradient_limits.action_value_limits`."""
        return gradient_limits.action_value_limits(
            self, policy, gamma_hat=gamma_hat, lambda_1=lambda_1, **settings
        )

    def gamma_hat_threshold(
        self,
        policy: ArrayLike,
        state: int,
        action: int,
        *,
        lambda_1: float = 1.0,
        lambda_2: float = 1.0,
    ) -> float | None:
        """Return the smallest gamma_hat at which the update turns for or against an action.

        That is the first sign change in [0, 1] of the expected update of the logit of `action` in
        `state`, with the exact c and v: the border of the paper's Figure 1(c). None when there is
        no sign change.
        """
        return gradient_limits.gamma_hat_threshold(self, policy, state, action, lambda_1, lambda_2)

    def trace_second_moment_radius(self, policy: ArrayLike, gamma_hat: float) -> TraceRadius:
        """Return the growth per step of E[F1^2] and E[F2^2].

        They are the spectral radii of sum_a mu rho^2 gamma^2 p and gamma_hat^2 sum_a mu rho^2 p.
        Averages of Z1 and Z2 have a standard error only where the radius is below 1.
        """
        policy = self._covered(policy)
        covered = np.where(self.behavior > 0, self.behavior, 1)
        weighted = (policy**2 / covered)[:, :, None] * self.transitions
        first = np.linalg.eigvals((weighted * self.discounts**2).sum(axis=1))
        second = np.linalg.eigvals(gamma_hat**2 * weighted.sum(axis=1))
        return TraceRadius(float(abs(first).max()), float(abs(second).max()))

    def sampled_policy(self, policy: ArrayLike, rho_clip: float = np.inf) -> np.ndarray:
        """mu(a|s) min(rho(s, a), rho_clip) [S, A]: pi as its importance-weighted samples show it.

        That is pi itself without a clip; with one, the rows sum to less than 1.
        """
        policy = self._covered(policy)
        return policy if np.isinf(rho_clip) else np.minimum(policy, rho_clip * self.behavior)

    def as_env(self, episodic: bool = False) -> FiniteMDPEnv:
        """Return this MDP as a gymnasium environment; see `FiniteMDPEnv`."""
        from rllib_geoffpac.envs.finite_mdp_env import FiniteMDPEnv

        return FiniteMDPEnv(self, episodic=episodic)

    def chain(self, policy: np.ndarray) -> np.ndarray:
        """P_pi [S, S], teleports included; `policy` may be a `sampled_policy`."""
        return np.einsum("sa,sat->st", policy, self.transitions)

    def discounted_chain(self, policy: np.ndarray) -> np.ndarray:
        """P_{pi,gamma} [S, S], the same with the discounts inside; its sums must be finite."""
        chain = np.einsum("sa,sat,sat->st", policy, self.transitions, self.discounts)
        radius = abs(np.linalg.eigvals(chain.real)).max()
        if radius > 1 - TOLERANCE:
            raise ValueError(
                "values are infinite under this policy: the discounts let a return go on for ever "
                f"(spectral radius {radius:.6g} of P_pi,gamma, must be below 1). Lower the "
                "discounts."
            )
        return chain

    def checked_policy(self, policy: ArrayLike) -> np.ndarray:
        """Return `policy` as an array, or say what keeps it from being one [S, A]."""
        policy = np.asarray(policy)
        if policy.shape != self.behavior.shape:
            raise ValueError(f"policy must have shape {self.behavior.shape}; got {policy.shape}.")
        check_distributions("policy", policy.real)
        return policy

    def _covered(self, policy: ArrayLike) -> np.ndarray:
        policy = self.checked_policy(policy)
        uncovered = np.argwhere((policy > 0) & (self.behavior == 0))
        if len(uncovered):
            state, action = uncovered[0]
            raise ValueError(
                f"policy takes action {action} in state {state}, which behavior never does: the "
                "importance ratio is undefined. Give behavior a positive probability there."
            )
        return policy

    def _start_distribution(self, start: int | ArrayLike) -> np.ndarray:
        if np.ndim(start) == 0:
            if start not in range(self.num_states):
                raise ValueError(
                    f"start must be a state from 0 to {self.num_states - 1} or a distribution "
                    f"[S]; got {start!r}."
                )
            return np.eye(self.num_states)[int(np.asarray(start))]
        distribution = checked_table("start", start, (self.num_states,))
        check_distributions("start", distribution)
        return distribution
