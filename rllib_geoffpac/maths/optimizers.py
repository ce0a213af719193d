"""One step of RMSProp, SGD and Adam as pure functions, equal to torch's optimizers.

All parameters that are stepped together are one vector. A *slot* is what an optimizer remembers of
them between two steps; the names are torch's.
"""

from __future__ import annotations

from collections.abc import Mapping

from rllib_geoffpac.maths.arrays import Array, namespace

Slots = dict[str, Array]


def clip_by_norm(gradient: Array, bound: float) -> Array:
    """Scales a gradient [P] down so that its norm is at most `bound`."""
    norm = namespace(gradient).sqrt((gradient * gradient).sum())
    # torch's rule: the small number keeps the division safe.
    return gradient * (bound / (norm + 1e-6)).clip(max=1.0)


def sgd_step(
    parameter: Array, gradient: Array, slots: Slots, numbers: Mapping[str, float]
) -> tuple[Array, Slots]:
    """theta <- theta - lr g."""
    return parameter - numbers["lr"] * gradient, slots


def rmsprop_step(
    parameter: Array, gradient: Array, slots: Slots, numbers: Mapping[str, float]
) -> tuple[Array, Slots]:
    """s <- alpha s + (1 - alpha) g^2, theta <- theta - lr g / (sqrt(s) + eps)."""
    alpha = numbers["alpha"]
    square = alpha * slots["square_avg"] + (1 - alpha) * gradient * gradient
    step = gradient / (namespace(square).sqrt(square) + numbers["eps"])
    return parameter - numbers["lr"] * step, {"square_avg": square}


def adam_step(
    parameter: Array, gradient: Array, slots: Slots, numbers: Mapping[str, float]
) -> tuple[Array, Slots]:
    """m and s, the running means of g and g^2, unbiased: theta <- theta - lr m / (sqrt(s) + eps).

    With m <- beta_1 m + (1 - beta_1) g, s <- beta_2 s + (1 - beta_2) g^2 and the number t of this
    step, counted from 1, the unbiased ones are m / (1 - beta_1^t) and s / (1 - beta_2^t).
    """
    beta_1, beta_2, step = numbers["beta_1"], numbers["beta_2"], numbers["step"]
    first = beta_1 * slots["exp_avg"] + (1 - beta_1) * gradient
    second = beta_2 * slots["exp_avg_sq"] + (1 - beta_2) * gradient * gradient
    mean = first / (1 - beta_1**step)
    deviation = namespace(second).sqrt(second / (1 - beta_2**step))
    moved = parameter - numbers["lr"] * mean / (deviation + numbers["eps"])
    return moved, {"exp_avg": first, "exp_avg_sq": second}
