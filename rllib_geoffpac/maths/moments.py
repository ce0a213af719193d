"""Running moments of V: the baseline b and the scale of the overlap force in Z2.

E[M2] = 0, so any state-independent b may be subtracted from V in Z2 (docs, 'Differences from the
paper'). The moments of the locksteps before this one are independent of its sample.
"""

from __future__ import annotations

from typing import NamedTuple

from rllib_geoffpac.maths.arrays import Array, namespace, zeros


class Moments(NamedTuple):
    """Exponentially weighted sums over the locksteps so far, each a scalar array.

    Attributes:
        weight: of 1, which tends to 1.
        first: of the lanes' mean of V.
        second: of the lanes' mean of V^2.
    """

    weight: Array
    first: Array
    second: Array


def fresh_moments(like: Array) -> Moments:
    """Nothing seen yet; `like` gives library, dtype and device."""
    return Moments(*(zeros(like, ()) for _ in range(3)))


def update_moments(moments: Moments, values: Array, decay: float) -> Moments:
    """Takes in V of one lockstep's lanes [L]; `decay` is the weight of the past."""
    return Moments(
        decay * moments.weight + (1 - decay),
        decay * moments.first + (1 - decay) * values.mean(),
        decay * moments.second + (1 - decay) * (values * values).mean(),
    )


def running_mean(moments: Moments) -> Array:
    """The running mean; 0 before the first update."""
    return moments.first / (moments.weight + (moments.weight == 0))


def running_std(moments: Moments) -> Array:
    """The running standard deviation; 0 before the first update."""
    second = moments.second / (moments.weight + (moments.weight == 0))
    variance = second - running_mean(moments) ** 2
    return namespace(variance).sqrt(variance.clip(min=0))
