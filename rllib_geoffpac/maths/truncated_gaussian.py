"""Samples of the truncated Gaussian that can be differentiated, for any array library.

N(mean, std) renormalised to the unit box [-1, 1], with the mean inside of it, as in
`gaussians.TruncatedGaussian`. Its samples there come from the same quantiles, in numpy.
"""

from __future__ import annotations

import math

from rllib_geoffpac.maths.arrays import Array, namespace, special

ROOT_HALF = math.sqrt(0.5)
MARGIN = 1e-7
"""Quantiles of the normal distribution stay this far from 0 and 1, where they are infinite."""


def truncated_gaussian_sample(u: Array, mean: Array, std: Array) -> Array:
    """a [N] in [-1, 1] with F(a; mean, std) = u: a sample for a uniform u in [0, 1].

        a = mean + std sqrt(2) erf^{-1}((1 - u) erf(l / sqrt(2)) + u erf(h / sqrt(2)))

    with l = (-1 - mean) / std <= 0 <= h = (1 - mean) / std. The same as
    mean + std Phi^{-1}(Phi(l) + u (Phi(h) - Phi(l))), but nothing cancels when std is large and
    Phi(l) and Phi(h) both are close to 1/2. Differentiable in mean and std by the automatic
    differentiation of any library.

    Args:
        u: [N] in [0, 1].
        mean: [N] in [-1, 1].
        std: [N] positive.
    """
    xp, functions = namespace(mean), special(mean)
    low, high = (-1 - mean) / std, (1 - mean) / std
    signed = (1 - u) * functions.erf(low * ROOT_HALF) + u * functions.erf(high * ROOT_HALF)
    z = functions.erfinv(signed.clip(2 * MARGIN - 1, 1 - 2 * MARGIN)) / ROOT_HALF
    # Rounding and the margin can step over a bound that the mean is close to.
    return xp.clip(mean + std * z, -1, 1)
