"""The overlap of the target policy with the data, and the force that keeps it.

    overlap = E_mu[min(rho, k)] = integral of min(pi, k mu),

the mass of pi that the data can speak about, in (0, 1] for k >= 1. An `overlap_target` kappa asks
for overlap >= kappa by a multiplier eta >= 0. Everything works on numpy arrays, torch tensors and
JAX arrays alike; N is any number of transitions.
"""

from __future__ import annotations

from rllib_geoffpac.maths.arrays import Array


def overlap(rho: Array, rho_clip: float) -> Array:
    """The batch mean of min(rho_t, k), k = `rho_clip`: [N] -> scalar."""
    return rho.clip(max=rho_clip).mean()


def multiplier_step(
    multiplier: Array, overlap: Array, *, target: float, rate: float, highest: float
) -> Array:
    """eta <- clip(eta + rate (kappa - overlap), 0, highest): up while the overlap is too small.

    `multiplier` is an array (of no dimension), not a Python number.
    """
    return (multiplier + rate * (target - overlap)).clip(0, highest)


def force_weight(rho: Array, multiplier: Array, scale: Array, rho_clip: float) -> Array:
    """eta scale min(rho_t, k) [N], the factor of grad log pi(A_t|S_t) in the force.

    Its mean, eta scale E_mu[min(rho, k) grad log pi], pulls pi toward the data. Where no rho is
    above k it is 0 in expectation, so the force acts only where pi has left the data. It has no
    gradient itself: that of min(rho, k) would vanish exactly where rho is clipped.

    Args:
        rho: [N] rho_t.
        multiplier: eta.
        scale: size of the actor's own gradient (see `actor_scale`), so that one kappa serves tasks
            of any reward.
        rho_clip: k, the same as in `overlap`.
    """
    return multiplier * scale * rho.clip(max=rho_clip)


def actor_scale(weight: Array, rho: Array, rho_clip: float) -> Array:
    """std(w) / rms(min(rho, k)) over the batch [N], w being the actor's own factors of grad log pi.

    Then eta = 1 makes the force as large as what it works against. 0 if no rho is above 0.
    """
    clipped = rho.clip(max=rho_clip)
    square = (clipped * clipped).mean()
    deviation = weight - weight.mean()
    return ((deviation * deviation).mean() / (square + (square == 0))) ** 0.5
