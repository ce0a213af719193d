"""Ways to learn V off-policy: TD (the paper), COP-TD, emphatic TD, V-trace and TDRC.

The first three differ in the weight of a transition alone:

    td       rho_t delta_t grad V(S_t)
    cop_td   C(S_t) rho_t delta_t grad V(S_t)
    etd      M1_t rho_t delta_t grad V(S_t)

Everything works on numpy arrays, torch tensors and JAX arrays alike; N is any number of
transitions. `fixed_points` says where each of them converges to.
"""

from __future__ import annotations

from typing import NamedTuple

from rllib_geoffpac.maths.arrays import Array


def cop_td_weight(rho: Array, density_ratio: Array) -> Array:
    """C(S_t) rho_t [N]: transitions as often as under d_gamma_hat instead of d_mu."""
    return density_ratio * rho


def etd_weight(rho: Array, m1: Array) -> Array:
    """M1_t rho_t [N]; M1_t of the state that is LEFT, with no part of this transition in it."""
    return m1 * rho


def vtrace_error(
    rho: Array,
    td_error: Array,
    discount: Array,
    connected: Array,
    *,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> Array:
    """v_t - V(S_t) [N] of the n-step V-trace target; half its mean square is the loss of V(S_t).

        sum_{k=0}^{n-1} [prod_{j=0}^{k-1} gamma_{t+j+1} min(c_bar, rho_{t+j})]
                        min(rho_bar, rho_{t+k}) delta_{t+k}

    The loss has no further rho: the target is already that of pi_rho_bar. With n = 1 and rho_bar
    infinite its gradient is that of TD.

    Args:
        rho: [n, N] rho_t ... rho_{t+n-1}, the first row being the transition that is learned from.
        td_error: [n, N] delta of the same transitions, with V'(final observation) where an episode
            ends.
        discount: [n, N] gamma_{t+1} ... gamma_{t+n}. A termination counts with its own delta and
            nothing after it.
        connected: [n, N] 1 or 0: whether the transition leads to the next row's state. The
            transition before a cut counts with its own delta, as one before a termination.
        rho_bar: clip of the ratio at delta: it decides what is learned.
        c_bar: clip of the ratios in the product: it decides how far corrections reach.
    """
    clipped = rho.clip(max=rho_bar)
    carried = rho.clip(max=c_bar) * discount * connected
    error = clipped[-1] * td_error[-1]
    for step in range(rho.shape[0] - 2, -1, -1):
        error = clipped[step] * td_error[step] + carried[step] * error
    return error


class TDRCWeights(NamedTuple):
    """The two factors of TDRC's update of V.

    Attributes:
        here: [N] factor of grad V(S_t): rho_t delta_t.
        following: [N] factor of grad V(S_{t+1}): -rho_t gamma_{t+1} h(S_t).
    """

    here: Array
    following: Array


def tdrc_value_weights(
    rho: Array, td_error: Array, discount: Array, correction: Array
) -> TDRCWeights:
    """Ascent direction of V: rho_t (delta_t grad V(S_t) - gamma_{t+1} h(S_t) grad V(S_{t+1})).

    Unlike the other rules it moves V at S_{t+1}, the FINAL observation where an episode ends (its
    discount 0 makes the term vanish after a termination). delta_t is that of V itself: a target
    network would take away the gradient that the correction corrects.

    Args:
        rho: [N] rho_t.
        td_error: [N] delta_t = R_{t+1} + gamma_{t+1} V(S_{t+1}) - V(S_t).
        discount: [N] gamma_{t+1}.
        correction: [N] h(S_t), the second critic's estimate of E[rho_t delta_t | S_t].
    """
    return TDRCWeights(rho * td_error, -rho * discount * correction)


def tdrc_correction_error(rho: Array, td_error: Array, correction: Array) -> Array:
    """rho_t delta_t - h(S_t) [N], the factor of grad h(S_t) in the ascent direction of h.

    From the weights of h their multiple (the regularisation, 1 in the literature) is taken off
    besides, which keeps h near 0 and makes TDRC as fast as TD where TD is stable. Too much of it
    makes TDRC diverge where TD does: at 0 it is gradient TD, at infinity TD.
    """
    return rho * td_error - correction
