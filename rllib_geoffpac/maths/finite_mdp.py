"""Finite MDPs in which every quantity of the paper is exact linear algebra (float64 numpy).

S states, A actions, P = S * A parameters: the logits [S, A] of a softmax policy, flattened in C
order, so that parameter s * A + a is the logit of action a in state s. Matrices are written as in
the paper: P_pi[s, s'] = sum_a pi(a|s) p(s'|s, a), and P_{pi,gamma} the same with the discounts
gamma(s, a, s') inside.

An episodic task is a continuing one here: the transition that ends an episode leads to a start
state and has the discount 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from rllib_geoffpac.envs.finite_mdp_env import FiniteMDPEnv

TOLERANCE = 1e-8


class PolicyGradientTerms(NamedTuple):
    """The two terms of the policy gradient theorem, or of the update's expectation.

    Attributes:
        first: [S * A] through the values: sum_s m(s) sum_a q(s, a) grad pi(a|s).
        second: [S * A] through the state distribution: sum_s d_mu(s) i(s) v(s) g(s).
    """

    first: np.ndarray
    second: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """[S * A] the sum of both."""
        return self.first + self.second


class TraceRadius(NamedTuple):
    """Growth per step of the second moments of F1 and F2; finite only below 1."""

    first: float
    second: float


def softmax_policy(logits: ArrayLike) -> np.ndarray:
    """pi(a|s) proportional to exp(logits[s, a]): [S, A] -> [S, A] (complex logits allowed)."""
    logits = np.asarray(logits)
    weights = np.exp(logits - logits.real.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def score(logits: ArrayLike) -> np.ndarray:
    """Grad log pi(a|s) with respect to all logits: [S, A] -> [S, A, S * A]."""
    policy = softmax_policy(logits)
    states, actions = policy.shape
    # d log pi(a|s) / d logits[z, b] = 1[z = s] (1[a = b] - pi(b|s))
    same_state = np.eye(states)[:, None, :, None]
    inside = np.eye(actions)[None, :, None, :] - policy[:, None, None, :]
    return (same_state * inside).reshape(states, actions, states * actions)


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
        _check_distributions("transitions", self.transitions)
        self.rewards = _table("rewards", rewards, shape)
        self.discounts = _table("discounts", discounts, shape)
        if (self.discounts < 0).any() or (self.discounts > 1).any():
            raise ValueError(
                "discounts must lie between 0 and 1; got values from "
                f"{self.discounts.min()} to {self.discounts.max()}."
            )
        self.behavior = _table("behavior", behavior, shape[:2])
        _check_distributions("behavior", self.behavior)
        interest = np.ones(self.num_states) if interest is None else interest
        self.interest = _table("interest", interest, shape[:1])
        if (self.interest < 0).any():
            raise ValueError(
                f"interest must not be negative; got the smallest value {self.interest.min()}."
            )
        self._check_every_state_is_reachable()
        self._behavior_distribution = _stationary(self._chain(self.behavior))
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
        _check_fraction("gamma_hat", gamma_hat)
        chain = self._chain(self._policy(policy))
        if gamma_hat == 1:
            return _stationary(chain)
        system = np.eye(self.num_states) - gamma_hat * chain.T
        return np.linalg.solve(system, (1 - gamma_hat) * self._behavior_distribution)

    def density_ratio(self, policy: ArrayLike, gamma_hat: float) -> np.ndarray:
        """c [S] = d_gamma_hat / d_mu."""
        return self.counterfactual_distribution(policy, gamma_hat) / self._behavior_distribution

    def values(self, policy: ArrayLike) -> np.ndarray:
        """v_pi [S], the solution of v = r_pi + P_{pi,gamma} v."""
        policy = self._policy(policy)
        reward = np.einsum("sa,sat,sat->s", policy, self.transitions, self.rewards)
        return np.linalg.solve(np.eye(self.num_states) - self._discounted_chain(policy), reward)

    def action_values(self, policy: ArrayLike) -> np.ndarray:
        """q_pi [S, A] = sum_s' p(s'|s, a) (r(s, a, s') + gamma(s, a, s') v_pi(s'))."""
        return self.backup(self.values(policy))

    def backup(self, values: ArrayLike) -> np.ndarray:
        """q_V [S, A]: the action values when every state is worth `values` [S]."""
        target = self.rewards + self.discounts * np.asarray(values)
        return np.einsum("sat,sat->sa", self.transitions, target)

    def objective(self, policy: ArrayLike, gamma_hat: float) -> float:
        """J_gamma_hat = sum_s d_gamma_hat(s) i(s) v_pi(s); J_mu for gamma_hat = 0, J_pi for 1."""
        weight = self.counterfactual_distribution(policy, gamma_hat) * self.interest
        return (weight * self.values(policy)).sum()

    def gradient(self, logits: ArrayLike, gamma_hat: float) -> PolicyGradientTerms:
        """Return the two terms of the policy gradient theorem at the softmax `logits` [S, A].

        The theorem asks for gamma_hat < 1; at 1 these are its limits, the gradient of J_pi.
        """
        policy = softmax_policy(_table("logits", logits, self.behavior.shape))
        return self.limits(policy, gamma_hat=gamma_hat, lambda_1=1.0, lambda_2=1.0)

    def limits(
        self,
        policy: ArrayLike,
        *,
        gamma_hat: float,
        lambda_1: float,
        lambda_2: float,
        density_ratio: ArrayLike | None = None,
        values: ArrayLike | None = None,
    ) -> PolicyGradientTerms:
        """Return the limits of E_mu[Z1_t] and E_mu[Z2_t] for fixed pi, C and V.

        With d_mu E[F1|s] -> m = (I - P_{pi,gamma}^T)^{-1} D_mu (i C), d_mu E[I|s] -> b =
        (grad P_pi)^T D_mu C and d_mu E[F2|s] -> f = (I - gamma_hat P_pi^T)^{-1} b,

            E[Z1] = sum_s [(1 - lambda_1) d_mu i C + lambda_1 m](s) sum_a q_V(s, a) grad pi(a|s)
            E[Z2] = gamma_hat sum_s i(s) V(s) [(1 - lambda_2) b + lambda_2 f](s).

        The -V(S_t) in the TD error drops out, because sum_a grad pi(a|s) = 0.

        Args:
            policy: [S, A] a softmax policy, given by its probabilities.
            gamma_hat: degree of counterfactualness, in [0, 1].
            lambda_1: in [0, 1].
            lambda_2: in [0, 1].
            density_ratio: [S] C; None is the exact c.
            values: [S] V; None is the exact v_pi.
        """
        for name, number in (
            ("gamma_hat", gamma_hat),
            ("lambda_1", lambda_1),
            ("lambda_2", lambda_2),
        ):
            _check_fraction(name, number)
        policy = self._covered(policy)
        shape = (self.num_states,)
        if density_ratio is None:
            density_ratio = self.density_ratio(policy, gamma_hat)
        density_ratio = _table("density_ratio", density_ratio, shape)
        values = _table("values", self.values(policy) if values is None else values, shape)

        # grad pi(a|s) = pi(a|s) grad log pi(a|s), and log pi is a valid set of logits of pi.
        with np.errstate(divide="ignore"):
            policy_gradient = policy[:, :, None] * score(np.log(policy))
        identity = np.eye(self.num_states)
        weight = self._behavior_distribution * density_ratio

        emphasis = weight * self.interest
        followon = np.linalg.solve(identity - self._discounted_chain(policy).T, emphasis)
        emphasis = (1 - lambda_1) * emphasis + lambda_1 * followon
        first = np.einsum("s,sa,sap->p", emphasis, self.backup(values), policy_gradient)

        intrinsic = np.einsum("s,sap,sat->tp", weight, policy_gradient, self.transitions)
        # The columns of b sum to 0, so adding d_mu 1^T changes nothing in the solution but makes
        # the system regular for gamma_hat = 1 too.
        system = identity - gamma_hat * self._chain(policy).T
        system += self._behavior_distribution[:, None]
        followon = np.linalg.solve(system, intrinsic)
        emphasis = (1 - lambda_2) * intrinsic + lambda_2 * followon
        second = gamma_hat * np.einsum("s,s,sp->p", self.interest, values, emphasis)
        return PolicyGradientTerms(first, second)

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

        def expected_update(gamma_hat: float) -> float:
            terms = self.limits(policy, gamma_hat=gamma_hat, lambda_1=lambda_1, lambda_2=lambda_2)
            return terms.total[state * self.num_actions + action]

        grid = np.linspace(0, 1, 101)
        positive = [expected_update(gamma_hat) > 0 for gamma_hat in grid]
        turns = [i for i in range(100) if positive[i] != positive[i + 1]]
        if not turns:
            return None
        low, high = grid[turns[0]], grid[turns[0] + 1]
        for _ in range(40):
            middle = (low + high) / 2
            if (expected_update(middle) > 0) == positive[turns[0]]:
                low = middle
            else:
                high = middle
        return float((low + high) / 2)

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

    def as_env(self, episodic: bool = False) -> FiniteMDPEnv:
        """Return this MDP as a gymnasium environment; see `FiniteMDPEnv`."""
        from rllib_geoffpac.envs.finite_mdp_env import FiniteMDPEnv

        return FiniteMDPEnv(self, episodic=episodic)

    def _chain(self, policy: np.ndarray) -> np.ndarray:
        return np.einsum("sa,sat->st", policy, self.transitions)

    def _discounted_chain(self, policy: np.ndarray) -> np.ndarray:
        chain = np.einsum("sa,sat,sat->st", policy, self.transitions, self.discounts)
        radius = abs(np.linalg.eigvals(chain.real)).max()
        if radius > 1 - TOLERANCE:
            raise ValueError(
                "values are infinite under this policy: the discounts let a return go on for ever "
                f"(spectral radius {radius:.6g} of P_pi,gamma, must be below 1). Lower the "
                "discounts."
            )
        return chain

    def _policy(self, policy: ArrayLike) -> np.ndarray:
        policy = np.asarray(policy)
        if policy.shape != self.behavior.shape:
            raise ValueError(f"policy must have shape {self.behavior.shape}; got {policy.shape}.")
        _check_distributions("policy", policy.real)
        return policy

    def _covered(self, policy: ArrayLike) -> np.ndarray:
        policy = self._policy(policy)
        uncovered = np.argwhere((policy > 0) & (self.behavior == 0))
        if len(uncovered):
            state, action = uncovered[0]
            raise ValueError(
                f"policy takes action {action} in state {state}, which behavior never does: the "
                "importance ratio is undefined. Give behavior a positive probability there."
            )
        return policy

    def _check_every_state_is_reachable(self) -> None:
        reach = (self._chain(self.behavior) > 0) | np.eye(self.num_states, dtype=bool)
        for _ in range(int(np.ceil(np.log2(self.num_states + 1)))):
            reach = (reach.astype(np.float64) @ reach) > 0
        unreachable = np.argwhere(~reach)
        if len(unreachable):
            origin, state = unreachable[0]
            raise ValueError(
                f"behavior never gets from state {origin} to state {state}: its chain is not "
                "ergodic and has no stationary distribution that covers every state. Drop the "
                "state or add a way back."
            )

    def _start_distribution(self, start: int | ArrayLike) -> np.ndarray:
        if np.ndim(start) == 0:
            if start not in range(self.num_states):
                raise ValueError(
                    f"start must be a state from 0 to {self.num_states - 1} or a distribution "
                    f"[S]; got {start!r}."
                )
            return np.eye(self.num_states)[int(start)]
        distribution = _table("start", start, (self.num_states,))
        _check_distributions("start", distribution)
        return distribution


def _stationary(chain: np.ndarray) -> np.ndarray:
    if (abs(np.linalg.eigvals(chain.real) - 1) < TOLERANCE).sum() != 1:
        raise ValueError(
            "policy has more than one stationary distribution: its chain falls apart into sets of "
            "states that it never leaves. Use gamma_hat < 1 or a policy that connects them."
        )
    # d^T (I - P) = 0 and d^T 1 = 1 in one regular system: d^T (I - P + 1 1^T) = 1^T.
    ones = np.ones(len(chain))
    return np.linalg.solve((np.eye(len(chain)) - chain + 1).T, ones)


def _table(name: str, values: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    table = np.array(values, dtype=np.float64)
    if table.shape != shape:
        raise ValueError(f"{name} must have shape {shape}; got {table.shape}.")
    if not np.isfinite(table).all():
        raise ValueError(f"{name} must be finite; got NaN or infinity.")
    return table


def _check_distributions(name: str, table: np.ndarray) -> None:
    if not ((table >= 0).all() and np.allclose(table.sum(axis=-1), 1, rtol=0, atol=TOLERANCE)):
        sums = table.sum(axis=-1)
        raise ValueError(
            f"{name} must hold probabilities that sum to 1 over the last axis; got entries from "
            f"{table.min()} and sums from {sums.min()} to {sums.max()}."
        )


def _check_fraction(name: str, number: float) -> None:
    if not 0 <= number <= 1:
        raise ValueError(f"{name} must be between 0 and 1; got {number!r}.")
