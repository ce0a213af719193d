"""What the policy gradient's samples average to when pi and all critics stand still, exactly.

The critics are arbitrary tables, not the exact ones: C and V [S], U [S] (the forward view), M [S]
(the learned emphasis), Q and Q_u [S, A] (action values). Only pi's own chain is exact. Written with
w(s, a) = mu(a|s) min(rho(s, a), rho_clip), which is pi(a|s) without a clip; D = diag(d_mu); P and
P_gamma the chains of w without and with the discounts inside; grad w(s, a) = w(s, a) grad log
pi(a|s), [P] for P = S * A logits.

The weight of a state in the first term, e(s) = (1 - lambda_1) d_mu i C + lambda_1 followon, has

    "followon"   followon = m = (I - P_gamma^T)^{-1} D (i C), the limit of d_mu E[F1|s]
    "truncated"  followon = sum_{k=0}^n (P_gamma^T)^k D (i C), F1 from the n transitions before
    "learned"    followon = D M for any table M; M's own fixed point is m / d_mu

and the terms are

    first     E[Z1] = sum_s e(s) sum_a grad w(s, a) [q_V(s, a) - V(s)]
    second    E[Z2] = gamma_hat sum_s i(s) V(s) [(1 - lambda_2) b + lambda_2 f](s)      "backward"
              E[Z2] = sum_s d_mu(s) C(s) sum_a grad w(s, a) delta^u(s, a)               "forward"

with b = (grad P)^T D C, the limit of d_mu E[I|s]; f = (I - gamma_hat P^T)^{-1} b, that of d_mu
E[F2|s], or the sum of its first n powers ("truncated": I_t belongs to the transition before t, so
n transitions give n powers, where they give n + 1 of F1's); and

    delta^u(s, a) = i(s) V(s) - U(s)
                    + gamma_hat E[(1 - lambda_2) i(S') V(S') + lambda_2 U(S') | s, a].

Without a clip the parts that depend on s alone drop out, because sum_a grad pi(a|s) = 0: V(s), U(s)
and i(s) V(s) are baselines. With a clip they are a force toward or out of the data, and stay.

Action values need no ratio in the inner sum, whatever the clip:

    first  = sum_s e(s) sum_a grad pi(a|s) Q(s, a)
    second = sum_s d_mu(s) C(s) sum_a grad pi(a|s) Q_u(s, a).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rllib_geoffpac.maths.tables import check_fraction, checked_table, score

if TYPE_CHECKING:
    from rllib_geoffpac.maths.finite_mdp import FiniteMDP

VIEWS = ("backward", "forward")
EMPHASES = ("followon", "truncated", "learned")


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


def limits(
    mdp: FiniteMDP,
    policy: ArrayLike,
    *,
    gamma_hat: float,
    lambda_1: float,
    lambda_2: float,
    density_ratio: ArrayLike | None = None,
    values: ArrayLike | None = None,
    view: str = "backward",
    counterfactual_values: ArrayLike | None = None,
    emphasis: str = "followon",
    trace_length: int | None = None,
    learned_emphasis: ArrayLike | None = None,
    rho_clip: float = np.inf,
) -> PolicyGradientTerms:
    """Return the limits of E_mu[Z1_t] and E_mu[Z2_t]; the equations stand at the module's head.

    Args:
        mdp: the MDP.
        policy: [S, A] a softmax policy, given by its probabilities.
        gamma_hat: degree of counterfactualness, in [0, 1].
        lambda_1: in [0, 1].
        lambda_2: in [0, 1].
        density_ratio: [S] C; None is the exact c.
        values: [S] V; None is the exact v_pi.
        view: "backward" (traces) or "forward" (critic U).
        counterfactual_values: [S] U; None is what U's rule learns from V, the u of this V. Then,
            without a clip, both views have the same limits for any C and V.
        emphasis: "followon", "truncated" or "learned".
        trace_length: n of "truncated", at least 0.
        learned_emphasis: [S] M of "learned"; None is the exact m / d_mu for this C.
        rho_clip: the largest rho, wherever rho enters.
    """
    check_fraction("gamma_hat", gamma_hat)
    check_fraction("lambda_2", lambda_2)
    if view not in VIEWS:
        raise ValueError(f"view must be one of {VIEWS}; got {view!r}.")
    sampled = mdp.sampled_policy(policy, rho_clip)
    shape = (mdp.num_states,)
    if density_ratio is None:
        density_ratio = mdp.density_ratio(policy, gamma_hat)
    density_ratio = checked_table("density_ratio", density_ratio, shape)
    values = checked_table("values", mdp.values(policy) if values is None else values, shape)
    directions = sampled[:, :, None] * _score_of(mdp.checked_policy(policy))

    weight = _state_weight(
        mdp, policy, lambda_1, density_ratio, emphasis, trace_length, learned_emphasis, rho_clip
    )
    advantage = mdp.backup(values) - values[:, None]
    first = np.einsum("s,sa,sap->p", weight, advantage, directions)

    weight = mdp.behavior_distribution() * density_ratio
    if view == "forward":
        u = counterfactual_values
        if u is None:
            u = _learned_counterfactual_values(mdp, policy, gamma_hat, values, rho_clip)
        u = checked_table("counterfactual_values", u, shape)
        mixed = (1 - lambda_2) * mdp.interest * values + lambda_2 * u
        delta_u = (mdp.interest * values - u)[:, None] + gamma_hat * mdp.transitions @ mixed
        return PolicyGradientTerms(first, np.einsum("s,sa,sap->p", weight, delta_u, directions))

    intrinsic = np.einsum("s,sap,sat->tp", weight, directions, mdp.transitions)
    if emphasis == "truncated":
        assert trace_length is not None  # the first term has checked it
        flow = gamma_hat * mdp.chain(sampled).T
        intrinsic = intrinsic * (trace_length > 0)  # I_t belongs to the transition before t
        followon = geometric_sum(flow, intrinsic, max(trace_length - 1, 0))
    else:
        system = np.eye(mdp.num_states) - gamma_hat * mdp.chain(sampled).T
        if np.isinf(rho_clip):
            # The columns of b sum to 0, so adding d_mu 1^T changes nothing in the solution but
            # makes the system regular for gamma_hat = 1 too.
            system += mdp.behavior_distribution()[:, None]
        followon = np.linalg.solve(system, intrinsic)
    mixed = (1 - lambda_2) * intrinsic + lambda_2 * followon
    second = gamma_hat * np.einsum("s,s,sp->p", mdp.interest, values, mixed)
    return PolicyGradientTerms(first, second)


def action_value_limits(
    mdp: FiniteMDP,
    policy: ArrayLike,
    *,
    gamma_hat: float,
    lambda_1: float,
    density_ratio: ArrayLike | None = None,
    action_values: ArrayLike | None = None,
    counterfactual_action_values: ArrayLike | None = None,
    emphasis: str = "followon",
    trace_length: int | None = None,
    learned_emphasis: ArrayLike | None = None,
    rho_clip: float = np.inf,
) -> PolicyGradientTerms:
    """Return the two terms that action-value critics give; see the module's head.

    There is no lambda_2: the mixture (1 - lambda_2) i(S') V(S') + lambda_2 U(S') would need a third
    critic, of E[i(S') V(S') | s, a]. These are the terms for lambda_2 = 1.

    Args:
        mdp: the MDP.
        policy: [S, A] a softmax policy.
        gamma_hat: in [0, 1]; below 1 where `counterfactual_action_values` is None.
        lambda_1: in [0, 1].
        density_ratio: [S] C; None is the exact c.
        action_values: [S, A] Q; None is the exact q_pi.
        counterfactual_action_values: [S, A] Q_u; None is the exact q_u.
        emphasis: as in `limits`; rho enters nowhere else.
        trace_length: as in `limits`.
        learned_emphasis: as in `limits`.
        rho_clip: as in `limits`.
    """
    check_fraction("gamma_hat", gamma_hat)
    shape = mdp.behavior.shape
    if density_ratio is None:
        density_ratio = mdp.density_ratio(policy, gamma_hat)
    density_ratio = checked_table("density_ratio", density_ratio, shape[:1])
    q = mdp.action_values(policy) if action_values is None else action_values
    q_u = counterfactual_action_values
    if q_u is None:
        q_u = mdp.counterfactual_action_values(policy, gamma_hat)
    weight = _state_weight(
        mdp, policy, lambda_1, density_ratio, emphasis, trace_length, learned_emphasis, rho_clip
    )
    policy = mdp.checked_policy(policy)
    gradient = policy[:, :, None] * _score_of(policy)
    first = np.einsum("s,sa,sap->p", weight, checked_table("action_values", q, shape), gradient)
    q_u = checked_table("counterfactual_action_values", q_u, shape)
    weight = mdp.behavior_distribution() * density_ratio
    return PolicyGradientTerms(first, np.einsum("s,sa,sap->p", weight, q_u, gradient))


def overlap_force(mdp: FiniteMDP, policy: ArrayLike, rho_clip: float) -> np.ndarray:
    """E_mu[min(rho, k) grad log pi] [S * A], k = `rho_clip`: the pull of pi toward the data.

    It is the gradient of E_mu[f_k(rho)], f_k(x) = x for x <= k and k + k log(x / k) above; 0 when
    nothing is clipped.
    """
    sampled = mdp.sampled_policy(policy, rho_clip)
    directions = sampled[:, :, None] * _score_of(mdp.checked_policy(policy))
    return np.einsum("s,sap->p", mdp.behavior_distribution(), directions)


def gamma_hat_threshold(
    mdp: FiniteMDP, policy: ArrayLike, state: int, action: int, lambda_1: float, lambda_2: float
) -> float | None:
    """Return the first gamma_hat at which the expected update of a logit changes its sign."""

    def expected_update(gamma_hat: float) -> float:
        terms = limits(mdp, policy, gamma_hat=gamma_hat, lambda_1=lambda_1, lambda_2=lambda_2)
        return terms.total[state * mdp.num_actions + action]

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


def geometric_sum(flow: np.ndarray, start: np.ndarray, powers: int | None) -> np.ndarray:
    """sum_{k=0}^n flow^k start for n = `powers`; None is the whole series, by a linear system."""
    if powers is None:
        return np.linalg.solve(np.eye(len(flow)) - flow, start)
    total = term = start
    for _ in range(powers):
        term = flow @ term
        total = total + term
    return total


def _state_weight(
    mdp: FiniteMDP,
    policy: ArrayLike,
    lambda_1: float,
    density_ratio: np.ndarray,
    emphasis: str,
    trace_length: int | None,
    learned_emphasis: ArrayLike | None,
    rho_clip: float,
) -> np.ndarray:
    """e [S], the weight of a state in the first term."""
    if emphasis not in EMPHASES:
        raise ValueError(f"emphasis must be one of {EMPHASES}; got {emphasis!r}.")
    if (emphasis == "truncated") != (trace_length is not None):
        raise ValueError(
            f"trace_length belongs to emphasis='truncated'; got trace_length={trace_length!r} with "
            f"emphasis={emphasis!r}. Give both or none."
        )
    if trace_length is not None and trace_length < 0:
        raise ValueError(f"trace_length must be 0 or more transitions; got {trace_length!r}.")
    if learned_emphasis is not None and emphasis != "learned":
        raise ValueError(f"learned_emphasis needs emphasis='learned'; got emphasis={emphasis!r}.")
    if learned_emphasis is None:
        mean = mdp.emphasis(
            policy,
            lambda_1=lambda_1,
            density_ratio=density_ratio,
            trace_length=trace_length,
            rho_clip=rho_clip,
        )
    else:
        check_fraction("lambda_1", lambda_1)
        learned = checked_table("learned_emphasis", learned_emphasis, (mdp.num_states,))
        mean = (1 - lambda_1) * mdp.interest * density_ratio + lambda_1 * learned
    return mdp.behavior_distribution() * mean


def _learned_counterfactual_values(
    mdp: FiniteMDP, policy: ArrayLike, gamma_hat: float, values: np.ndarray, rho_clip: float
) -> np.ndarray:
    """U [S] where E_mu[min(rho, k) delta^u | s] = 0: the fixed point of U's rule for this V."""
    if np.isinf(rho_clip):
        return mdp.relative_counterfactual_values(policy, gamma_hat, values)
    sampled = mdp.sampled_policy(policy, rho_clip)
    mass = sampled.sum(axis=1)
    system = np.diag(mass) - gamma_hat * mdp.chain(sampled)
    return np.linalg.solve(system, mass * mdp.interest * values)


def _score_of(policy: np.ndarray) -> np.ndarray:
    """[S, A, S * A]; log pi is a valid set of logits of pi."""
    with np.errstate(divide="ignore"):
        return score(np.log(policy))
