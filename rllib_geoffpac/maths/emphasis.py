"""The emphasis of a single transition, for actors that learn from replayed ones.

The paper's F1_t remembers the whole past of its lane. A replayed transition has two substitutes:

* the learned emphasis M(s), the mean of F1 in state s (gradient emphasis learning),

      M(s') = i(s') C(s') + E[gamma_{t+1} rho_t M(S_t) | S_{t+1} = s'],

* the truncated traces, F1 and F2 recomputed with the current weights from the n transitions
  t - n ... t - 1 of the same lane that lie before it.

Everything works on numpy arrays, torch tensors and JAX arrays alike. N is any number of
transitions; windows are time-major, [n, N] with the oldest transition first. `connected` is 1 for a
transition of the chain, terminations with their teleports included, and 0 where the lane was cut by
`truncation="bootstrap"` or had not begun yet.
"""

from __future__ import annotations

from rllib_geoffpac.maths.arrays import Array


def mixed_emphasis(
    interest: Array, density_ratio: Array, emphasis: Array, *, lambda_1: float
) -> Array:
    """M1 = (1 - lambda_1) i(S_t) C(S_t) + lambda_1 F1_t: [N] each; M(S_t) stands for F1_t."""
    return (1 - lambda_1) * interest * density_ratio + lambda_1 * emphasis


def emphasis_target(
    next_interest: Array,
    next_density_ratio: Array,
    discount: Array,
    rho: Array,
    emphasis: Array,
    connected: Array,
) -> Array:
    """i(S_{t+1}) C(S_{t+1}) + gamma_{t+1} rho_t M'(S_t) [N], the target of M(S_{t+1}).

    M looks back: the transition moves M at the state that it leads to, as it moves C. Where F1
    restarts, M's target is i C alone: after a termination because gamma_{t+1} = 0, after a cut
    because of `connected`. Such transitions are not left out; they alone teach M about the first
    states of an episode.

    Args:
        next_interest: [N] i(S_{t+1}), S_{t+1} the state that the lane really goes to.
        next_density_ratio: [N] C(S_{t+1}).
        discount: [N] gamma_{t+1}, the discount of THIS transition: it is the one into S_{t+1}.
        rho: [N] rho_t.
        emphasis: [N] M'(S_t) of the target network.
        connected: [N] 1 or 0.
    """
    return next_interest * next_density_ratio + connected * discount * rho * emphasis


def emphasis_loss(next_emphasis: Array, target: Array) -> Array:
    """Half the mean of (target - M(S_{t+1}))^2 over [N] transitions; the target has no gradient."""
    error = target - next_emphasis
    return (error * error).mean() / 2


def truncated_followon(
    weighted_interest: Array, rho: Array, discount: Array, connected: Array
) -> Array:
    """F1_t [N] = sum_{k=0}^n (prod_{j=1}^k gamma_{t-j+1} rho_{t-j}) i(S_{t-k}) C(S_{t-k}).

    Args:
        weighted_interest: [n + 1, N] i C at the states S_{t-n} ... S_t: one row more.
        rho: [n, N] rho_{t-n} ... rho_{t-1}.
        discount: [n, N] the discounts of the same transitions, gamma_{t-n+1} ... gamma_t.
        connected: [n, N] 1 or 0: whether the transition leads to the next row's state. 0 for rows
            before the start of a lane, whose other entries must be finite but mean nothing.
    """
    followon = weighted_interest[0]
    for step in range(rho.shape[0]):
        carried = connected[step] * discount[step] * rho[step]
        followon = carried * followon + weighted_interest[step + 1]
    return followon


def truncated_score_weights(
    density_ratio: Array, rho: Array, connected: Array, *, gamma_hat: float, lambda_2: float
) -> list[Array]:
    """Weights w_k with M2_t = sum_k w_k grad log pi(A_k|S_k), over the n transitions before t.

        F2_t = sum_{k=t-n}^{t-1} [prod_{j=k+1}^{t-1} gamma_hat rho_j] C(S_k) rho_k grad log pi_k

    and M2 = (1 - lambda_2) I_t + lambda_2 F2_t, I_t being the last of these. So Z2_t needs no
    vector of the size of theta: gamma_hat i(S_t) V(S_t) w_k weights the log-probabilities of the
    window in one backward pass. Terminations do not cut, there is no gamma in it.

    Args:
        density_ratio: [n, N] C(S_{t-n}) ... C(S_{t-1}).
        rho: [n, N].
        connected: [n, N] 1 or 0; a cut after transition k hides k and all before it.
        gamma_hat: degree of counterfactualness.
        lambda_2: in [0, 1].

    Returns:
        n arrays [N], oldest transition first; none for n = 0.
    """
    weights: list[Array] = []
    carried: Array = 1.0
    for step in range(rho.shape[0] - 1, -1, -1):
        carried = carried * connected[step] * rho[step]
        share = lambda_2 if weights else 1.0  # the last transition is I_t too
        weights.append(share * carried * density_ratio[step])
        carried = carried * gamma_hat
    return weights[::-1]
