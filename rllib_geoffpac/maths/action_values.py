"""What the actor ascends, and how its critics learn, with action values Q and Q_u.

    x_t = M1_t Q(S_t, a) + C(S_t) Q_u(S_t, a),   a drawn from pi(.|S_t)

grad_theta E[x_t] through a is the gradient of J_gamma_hat for exact critics, without an importance
ratio (`forward_view` has Q_u's target, `deterministic` that of Q). Everything works on arrays of
any library (`maths.arrays`); N is any number of transitions, K the number of critics.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from rllib_geoffpac.maths.arrays import Array, namespace


def lower(values: Sequence[Array]) -> Array:
    """min_k of K times [N]: of two critics the one that does not overestimate."""
    return reduce(namespace(values[0]).minimum, values)


def return_range(lowest: float, highest: float, discount: float) -> tuple[float, float]:
    """The least and the largest return that rewards in [lowest, highest] can add up to.

    r + ... + discount^n r is closest to 0 for n = 0, when the episode ends at once, and farthest
    for n -> infinity. At a discount of 1 there is no bound.

    Example:
        >>> return_range(1.0, 2.0, 0.5)
        (1.0, 4.0)
    """
    if discount >= 1:
        return -np.inf, np.inf
    factor = 1 / (1 - discount)
    return min(lowest, lowest * factor), max(highest, highest * factor)


def counterfactual_action_value_loss(values: Sequence[Array], target: Array, valid: Array) -> Array:
    """sum_k mean (Q_u,k(S, A) - y)^2 over the valid of [N] transitions; 0 if none is.

    Args:
        values: K times [N].
        target: [N] y, without gradient.
        valid: [N] 0 where the lane was cut by `truncation="bootstrap"`, else 1. Terminations with
            their teleports are transitions of the chain and stay in.
    """
    weight = valid * 1.0
    count = weight.sum()
    squares = sum(weight * (own - target) ** 2 for own in values)
    return squares.sum() / (count + (count == 0))


def cost_of_ends(values: Sequence[Array], discount: Array) -> Array:
    """mean 1[gamma_{t+1} = 0] |min_k Q_k(S_{t+1}, a')|: what terminations cost per transition.

    Args:
        values: K times [N], of the states that the lanes go on from.
        discount: [N] gamma_{t+1}.
    """
    return ((discount == 0) * abs(lower(values))).mean()


def conservative_loss(own: Sequence[Array], taken: Sequence[Array], push: Array) -> Array:
    """2 b sum_k mean [Q_k(S, a) - Q_k(S, A)], b = `push`.

    With the squares of `critic_loss` it has its minimum at Q(s, a) = y - b (pi(a|s) / mu(a|s) - 1):
    Q is pressed down where pi acts more often than the data, and by as much up where it acts less.

    Args:
        own: K times [N], Q_k(S, a) with a drawn from pi(.|S).
        taken: K times [N], Q_k(S, A) of the data.
        push: b, without gradient.
    """
    return 2 * push * sum((high - low).mean() for high, low in zip(own, taken, strict=True))


def worth_scale(worth: Array) -> Array:
    """mean |x - mean x| over the batch [N], the unit in which the overlap force counts.

    1 where all are the same, which no direction is better than.
    """
    scale = abs(worth - worth.mean()).mean()
    return scale + (scale == 0)
