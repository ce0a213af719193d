"""Tables of probabilities: the softmax policy with its score, and the checks of what is given."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

TOLERANCE = 1e-8


def softmax_policy(logits: ArrayLike) -> np.ndarray:
    """pi(a|s) proportional to exp(logits[s, a]): [S, A] -> [S, A] (complex logits allowed)."""
    logits = np.asarray(logits)
    weights = np.exp(logits - logits.real.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def score(logits: ArrayLike) -> np.ndarray:
    """Grad log pi(a|s) with respect to all logits: [S, A] -> [S, A, S * A]."""
    policy = softmax_policy(logits)
    states, actions = policy.shape
    # d log pi(a|s) / d logits[z, b] = 1[z = s] (1[a = b] - pi(b|s))
    same_state = np.eye(states)[:, None, :, None]
    inside = np.eye(actions)[None, :, None, :] - policy[:, None, None, :]
    return (same_state * inside).reshape(states, actions, states * actions)


def checked_table(name: str, values: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """Return `values` as a finite float64 table of this shape, or say what is wrong with them."""
    table = np.array(values, dtype=np.float64)
    if table.shape != shape:
        raise ValueError(f"{name} must have shape {shape}; got {table.shape}.")
    if not np.isfinite(table).all():
        raise ValueError(f"{name} must be finite; got NaN or infinity.")
    return table


def check_distributions(name: str, table: np.ndarray) -> None:
    """Raise unless `table` holds probabilities over its last axis."""
    if not ((table >= 0).all() and np.allclose(table.sum(axis=-1), 1, rtol=0, atol=TOLERANCE)):
        sums = table.sum(axis=-1)
        raise ValueError(
            f"{name} must hold probabilities that sum to 1 over the last axis; got entries from "
            f"{table.min()} and sums from {sums.min()} to {sums.max()}."
        )


def check_fraction(name: str, number: float) -> None:
    """Raise unless `number` lies in [0, 1]."""
    if not 0 <= number <= 1:
        raise ValueError(f"{name} must be between 0 and 1; got {number!r}.")


def stationary_distribution(chain: np.ndarray) -> np.ndarray:
    """d [S] with d^T P = d^T and sum 1, for a chain P [S, S] that has one."""
    if (abs(np.linalg.eigvals(chain.real) - 1) < TOLERANCE).sum() != 1:
        raise ValueError(
            "policy has more than one stationary distribution: its chain falls apart into sets of "
            "states that it never leaves. Use gamma_hat < 1 or a policy that connects them."
        )
    # d^T (I - P) = 0 and d^T 1 = 1 in one regular system: d^T (I - P + 1 1^T) = 1^T.
    ones = np.ones(len(chain))
    return np.linalg.solve((np.eye(len(chain)) - chain + 1).T, ones)


def check_every_state_is_reachable(chain: np.ndarray) -> None:
    """Raise unless the behaviour policy's chain [S, S] gets from every state to every other."""
    reach = (chain > 0) | np.eye(len(chain), dtype=bool)
    for _ in range(int(np.ceil(np.log2(len(chain) + 1)))):
        reach = (reach.astype(np.float64) @ reach) > 0
    unreachable = np.argwhere(~reach)
    if len(unreachable):
        origin, state = unreachable[0]
        raise ValueError(
            f"behavior never gets from state {origin} to state {state}: its chain is not "
            "ergodic and has no stationary distribution that covers every state. Drop the "
            "state or add a way back."
        )
