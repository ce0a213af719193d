"""The Beta distribution on (0, 1), with samples that can be differentiated, for any array library.

    p(x) = x^(alpha - 1) (1 - x)^(beta - 1) / B(alpha, beta)

A policy's alpha and beta are at least 1 (`concentrations`): then the density is bounded and has one
mode, the score stays finite near the bounds, and the support is exactly the action box. Below 1 the
density is infinite at a bound, where saturated actions lie.

No library but scipy has the inverse of the distribution function, and torch not even the function.
Both are simple in z = log(x / (1 - x)), where the density is exp(g(z)) / B with the concave

    g(z) = alpha log sigma(z) + beta log sigma(-z),   g''(z) = -(alpha + beta) sigma(z) sigma(-z).

Its tails are integrated from z outward by Gauss-Legendre quadrature, to where g has fallen by 30:
32 nodes give a tail to 1e-11 of itself, for alpha and beta from 1 to 10,000. F(z) = u is solved for
the logarithm of the smaller tail, which is concave too: two steps of Halley's method from a good
start leave 1e-7, and a step of Newton's the quadrature's error. All that is a fixed number of array
operations, so the same in every library, and in a compiled program.

Arrays of parameters and quantiles broadcast; N stands for their common shape.
"""

from __future__ import annotations

import numpy as np

from rllib_geoffpac.maths.arrays import (
    Array,
    constant,
    namespace,
    softplus,
    special,
    stop_gradient,
)

MAX_CONCENTRATION = 1e4
"""Largest alpha and beta of a policy: a std of 0.007 in the box [-1, 1] when both are there."""
MARGIN = 1e-7
"""Quantiles and the points of a density stay this far from 0 and 1, also in single precision."""

NUM_NODES = 32
FALL = 30.0
"""A tail's integral ends where the integrand has fallen to e^-30 = 1e-13."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(NUM_NODES)
NODES, WEIGHTS = (NODES + 1) / 2, WEIGHTS / 2  # of the interval [0, 1]


def concentrations(outputs: Array) -> Array:
    """1 + softplus(y), at most 1e4: a network's outputs [N] as alpha or beta; y = 0 gives 1.69."""
    return (1 + softplus(outputs)).clip(max=MAX_CONCENTRATION)


def beta_log_density(x: Array, alpha: Array, beta: Array) -> Array:
    """log p(x) [N]; x is taken at most 1e-7 close to 0 and 1, where the score would be infinite."""
    xp, gammaln = namespace(alpha), special(alpha).gammaln
    x = x.clip(MARGIN, 1 - MARGIN)
    log_normaliser = gammaln(alpha) + gammaln(beta) - gammaln(alpha + beta)
    return (alpha - 1) * xp.log(x) + (beta - 1) * xp.log(1 - x) - log_normaliser


def beta_entropy(alpha: Array, beta: Array) -> Array:
    """-E[log p(X)] [N] = log B - (alpha-1) psi(alpha) - (beta-1) psi(beta) + (sum-2) psi(sum)."""
    gammaln, digamma = special(alpha).gammaln, special(alpha).digamma
    total = alpha + beta
    log_normaliser = gammaln(alpha) + gammaln(beta) - gammaln(total)
    own = (alpha - 1) * digamma(alpha) + (beta - 1) * digamma(beta)
    return log_normaliser - own + (total - 2) * digamma(total)


def beta_mode(alpha: Array, beta: Array) -> Array:
    """(alpha - 1) / (alpha + beta - 2) [N]; the middle where alpha = beta = 1 has no mode."""
    peak = alpha + beta - 2
    flat = (peak == 0) * 1.0
    return (alpha - 1 + 0.5 * flat) / (peak + flat)


def beta_sample(u: Array, alpha: Array, beta: Array) -> Array:
    """x [N] with F(x; alpha, beta) = u: a sample of Beta(alpha, beta) for a uniform u.

    Differentiable in alpha and beta, with the implicit gradient of F(x; alpha, beta) = u,

        dx / dalpha = -(dF / dalpha) / p(x),

    by the automatic differentiation of any library: the solution is found without gradient, then
    one more Newton step is taken from it with F differentiable and everything else not. The
    gradient of the quadrature is the quadrature of the gradient and just as accurate. Derivatives
    of the second order are not those of x.

    Args:
        u: [N] in (0, 1), kept 1e-7 away from both; of the library and dtype of the others.
        alpha: [N] from 1 to 1e4.
        beta: [N] from 1 to 1e4.
    """
    xp = namespace(alpha)
    u = u.clip(MARGIN, 1 - MARGIN) + stop_gradient(0 * (alpha + beta))  # the common shape
    alpha, beta = alpha + 0 * u, beta + 0 * u
    total = stop_gradient(alpha + beta)
    p, q = stop_gradient(alpha) / total, stop_gradient(beta) / total  # the mode of g
    left, right = _tail(p, q, alpha, beta), _tail(q, p, beta, alpha)
    # Mirrored where the right tail is the smaller: it is the left one of Beta(a, b).
    mirrored = u * (left + right) > left
    a, b = xp.where(mirrored, beta, alpha), xp.where(mirrored, alpha, beta)
    mode = xp.where(mirrored, q, p), xp.where(mirrored, p, q)
    log_share = xp.log(left + right) + xp.log(xp.where(mirrored, 1 - u, u))

    def log_error(t: Array, tail: Array, a: Array, b: Array) -> Array:
        """log F - log u at z = mode - t, where the tail is the integral beyond z."""
        return xp.log(tail) - _fall(t, *mode, a, b) - log_share

    fixed_a, fixed_b = stop_gradient(a), stop_gradient(b)
    nearest = log_error(0 * u, xp.where(mirrored, right, left), a, b)
    t = _depth(stop_gradient(nearest).clip(min=0), *mode, fixed_a, fixed_b)
    for _ in range(2):
        p, q = _move(t, *mode)
        tail = _tail(p, q, fixed_a, fixed_b)
        error = stop_gradient(log_error(t, tail, fixed_a, fixed_b))
        slope = 1 / tail  # of log F in z
        bend = slope * (fixed_a * q - fixed_b * p - slope)
        t = t + 2 * error * slope / (2 * slope * slope - error * bend)

    tail = _tail(*_move(t, *mode), a, b)
    p, q = _move(t + log_error(t, tail, a, b) * stop_gradient(tail), *mode)
    return xp.where(mirrored, q, p)


def _tail(p: Array, q: Array, a: Array, b: Array) -> Array:
    """The integral over t > 0 of exp(g(z - t) - g(z)), p = sigma(z) = 1 - q not beyond the mode."""
    reach = _depth(FALL + 0 * p, p, q, stop_gradient(a), stop_gradient(b))
    t = reach[..., None] * constant(NODES, p)
    fall = _fall(t, p[..., None], q[..., None], a[..., None], b[..., None])
    return reach * (namespace(p).exp(-fall) * constant(WEIGHTS, p)).sum(-1)


def _fall(t: Array, p: Array, q: Array, a: Array, b: Array) -> Array:
    """g(z) - g(z - t) = a t + (a + b) log(q + p e^-t), of which the smaller of p and q is used.

    The logarithm of q + p e^-t loses q's digits when p is close to 1; that of p + q e^t does not.
    """
    xp = namespace(p)
    linear = xp.where(q < p, -b, a)
    sign = xp.where(q < p, 0 * p + 1, 0 * p - 1)
    return linear * t + (a + b) * xp.log1p(xp.where(q < p, q, p) * xp.expm1(sign * t))


def _depth(fall: Array, p: Array, q: Array, a: Array, b: Array) -> Array:
    """t where g has fallen by `fall` >= 0 from z to z - t; a little more is possible, less is not.

    The fall is convex in t, so Newton's method comes down from the right and never passes t. The
    start is on the right because the fall is at least that from the mode.
    """
    xp = namespace(p)
    t = fall / a + xp.sqrt(2 * fall * (1 / a + 1 / b))
    for _ in range(3):
        p_there, q_there = _move(t, p, q)
        slope = a * q_there - b * p_there
        t = t - (_fall(t, p, q, a, b) - fall) / (slope + 1e-30)  # no 0 / 0 for no fall
    return t


def _move(t: Array, p: Array, q: Array) -> tuple[Array, Array]:
    """sigma(z - t) and sigma(t - z) from sigma(z) and sigma(-z), both with all their digits."""
    p = p * namespace(p).exp(-t)
    return p / (p + q), q / (p + q)
