"""The error function and its inverse from exp, log and sqrt alone, for any array library.

For runtimes that have neither with 64 bits, such as ONNX's.
"""

from __future__ import annotations

import math

import numpy as np

from rllib_geoffpac.maths.arrays import Array, constant, namespace

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2  # of [0, 1]
_FARTHEST = 6.0
"""erf is 1 in 64 bits from here on."""
_WINITZKI = 0.147
"""The constant of Winitzki's formula, which is off by 2e-3 at most."""


def plain_erf(x: Array) -> Array:
    """erf(x) [N] = 2 / sqrt(pi) x integral over s in [0, 1] of exp(-(x s)^2), to 1e-14."""
    x = x.clip(-_FARTHEST, _FARTHEST)
    steps = x[..., None] * constant(_NODES, x)
    integral = (namespace(x).exp(-(steps * steps)) * constant(_WEIGHTS, x)).sum(-1)
    return 2 / math.sqrt(math.pi) * x * integral


def plain_erfinv(y: Array) -> Array:
    """x [N] with erf(x) = y, for |y| up to 1 - 1e-7: Winitzki's formula and Halley's steps."""
    xp = namespace(y)
    log = xp.log((1 - y) * (1 + y)) / 2
    center = 2 / (math.pi * _WINITZKI) + log
    # The difference of two close numbers near 0: its other form is their quotient's.
    square = -2 * log / _WINITZKI / (xp.sqrt(center * center - 2 * log / _WINITZKI) + center)
    x = xp.sign(y) * xp.sqrt(square)
    for _ in range(3):
        error = (plain_erf(x) - y) * math.sqrt(math.pi) / 2 * xp.exp(x * x)
        x = x - error / (1 + x * error)
    return x
