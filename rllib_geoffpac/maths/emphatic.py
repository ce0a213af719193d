"""The emphatic traces of Geoff-PAC and the two terms of its policy gradient.

One lane is one unbroken stream of behaviour experience. Transition t of a lane is
S_t, A_t, R_{t+1}, S_{t+1} with the discount gamma_{t+1} (0 when it terminates), and

    F1_t = gamma_t rho_{t-1} F1_{t-1} + i(S_t) C(S_t)         M1_t = (1 - lambda_1) i(S_t) C(S_t)
                                                                     + lambda_1 F1_t
    I_t  = C(S_{t-1}) rho_{t-1} grad log pi(A_{t-1}|S_{t-1})
    F2_t = gamma_hat rho_{t-1} F2_{t-1} + I_t                 M2_t = (1 - lambda_2) I_t
                                                                     + lambda_2 F2_t
    Z1_t = rho_t M1_t delta_t grad log pi(A_t|S_t)            Z2_t = gamma_hat i(S_t) V(S_t) M2_t

(paper, section 4; Z1_t + Z2_t is an unbiased sample of the policy gradient in the limit when
lambda_1 = lambda_2 = 1). Two indices decide whether this is right:

* gamma_t is the discount of the transition INTO S_t. A termination at t - 1 therefore cuts F1 at t.
* F2 is never cut: for the chain that the behaviour policy induces, the teleport from the end of an
  episode to the start of the next is an ordinary transition.

Everything here works on arrays of any library (`maths.arrays`); L is the number of lanes and P the
number of policy parameters. Nothing is clipped here: the caller passes what it has clipped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rllib_geoffpac.maths.arrays import Array, namespace, zeros


class TraceState(NamedTuple):
    """What transition t of every lane needs to know of transition t - 1.

    All zeros is a lane that has just started: F1_0 = i(S_0) C(S_0) and I_0 = F2_0 = 0 follow.

    Attributes:
        f1: [L] F1_{t-1}.
        f2: [L, P] F2_{t-1}, or None where the second term is not used (gamma_hat = 0).
        rho: [L] rho_{t-1}.
        discount: [L] gamma_t, the discount of the transition into S_t.
        intrinsic: [L, P] I_t = C(S_{t-1}) rho_{t-1} grad log pi(A_{t-1}|S_{t-1}), or None.
    """

    f1: Array
    f2: Array | None
    rho: Array
    discount: Array
    intrinsic: Array | None


class Emphasis(NamedTuple):
    """The followon traces F and the emphases M at time t.

    Attributes:
        f1: [L] F1_t.
        m1: [L] M1_t.
        f2: [L, P] F2_t, or None where the second term is not used.
        m2: [L, P] M2_t, or None.
    """

    f1: Array
    m1: Array
    f2: Array | None
    m2: Array | None


def fresh_traces(like: Array, num_parameters: int | None) -> TraceState:
    """Return the traces of lanes that have just started.

    Args:
        like: [L] any array of one entry per lane; gives library, dtype and device.
        num_parameters: P, or None to leave out the second trace (ACE, Off-PAC).
    """
    lanes = like.shape[0]
    second = None if num_parameters is None else (lanes, num_parameters)
    return TraceState(
        f1=zeros(like, (lanes,)),
        f2=None if second is None else zeros(like, second),
        rho=zeros(like, (lanes,)),
        discount=zeros(like, (lanes,)),
        intrinsic=None if second is None else zeros(like, second),
    )


def restart(state: TraceState, mask: Array) -> TraceState:
    """Return `state` with the lanes where the boolean `mask` [L] is true as if just started."""
    return TraceState(
        f1=_zero_where(mask, state.f1),
        f2=None if state.f2 is None else _zero_where(mask[:, None], state.f2),
        rho=_zero_where(mask, state.rho),
        discount=_zero_where(mask, state.discount),
        intrinsic=None if state.intrinsic is None else _zero_where(mask[:, None], state.intrinsic),
    )


def advance(
    state: TraceState,
    *,
    rho: Array,
    discount: Array,
    density_ratio: Array,
    score: Array | None,
    interest: Array,
    gamma_hat: float,
    lambda_1: float,
    lambda_2: float,
) -> tuple[TraceState, Emphasis]:
    """Advance the traces of all lanes by transition t.

    The second trace is skipped when `score` or `state.f2` is None.

    Args:
        state: what is left of transition t - 1.
        rho: [L] rho_t = pi(A_t|S_t) / mu(A_t|S_t).
        discount: [L] gamma_{t+1}, the discount of transition t. It enters F1 one step later.
        density_ratio: [L] C(S_t).
        score: [L, P] grad log pi(A_t|S_t), or None.
        interest: [L] i(S_t), the user's interest (without C).
        gamma_hat: degree of counterfactualness.
        lambda_1: bias-variance trade-off of M1.
        lambda_2: bias-variance trade-off of M2.

    Returns:
        The state for transition t + 1, and F1_t, M1_t, F2_t, M2_t.
    """
    interest_in_state = interest * density_ratio
    f1 = state.discount * state.rho * state.f1 + interest_in_state
    m1 = (1 - lambda_1) * interest_in_state + lambda_1 * f1

    f2 = m2 = intrinsic = None
    if score is not None and state.f2 is not None and state.intrinsic is not None:
        f2 = gamma_hat * state.rho[:, None] * state.f2 + state.intrinsic
        m2 = (1 - lambda_2) * state.intrinsic + lambda_2 * f2
        intrinsic = (density_ratio * rho)[:, None] * score  # I_{t+1}

    return TraceState(f1, f2, rho, discount, intrinsic), Emphasis(f1, m1, f2, m2)


class Term(NamedTuple):
    """A term of the policy gradient: in every lane a number times a vector.

    Attributes:
        weight: [L].
        vector: [L, P].
    """

    weight: Array
    vector: Array

    def per_lane(self) -> Array:
        """[L, P] the term of every lane."""
        return self.weight[:, None] * self.vector

    def mean(self) -> Array:
        """[P] the mean over the lanes, as one product of a vector and a matrix."""
        return self.weight @ self.vector / len(self.weight)


def first_term(rho: Array, m1: Array, td_error: Array, score: Array) -> Term:
    """Z1_t = rho_t M1_t delta_t grad log pi(A_t|S_t), from [L], [L], [L] and [L, P]."""
    return Term(rho * m1 * td_error, score)


def second_term(gamma_hat: float, interest: Array, value: Array, m2: Array) -> Term:
    """Z2_t = gamma_hat i(S_t) V(S_t) M2_t, from a number, [L], [L] and [L, P].

    The expectation of M2 is 0, so where the interest is constant `value` may be V(S_t) minus any
    state-independent number.
    """
    return Term(gamma_hat * interest * value, m2)


def emphatic_traces(
    rho: Array,
    discount: Array,
    density_ratio: Array,
    score: Array | None,
    interest: Array | None = None,
    *,
    gamma_hat: float,
    lambda_1: float,
    lambda_2: float,
) -> Emphasis:
    """Compute the traces along one trajectory, from F1_0 = i(S_0) C(S_0), I_0 = F2_0 = 0.

    Args:
        rho: [T] rho_t.
        discount: [T] entry t is gamma_{t+1}, the discount of transition t.
        density_ratio: [T] C(S_t).
        score: [T, P] grad log pi(A_t|S_t); None leaves out the second trace.
        interest: [T] i(S_t); None is 1 everywhere.
        gamma_hat: degree of counterfactualness, in [0, 1].
        lambda_1: in [0, 1].
        lambda_2: in [0, 1].

    Returns:
        `f1` [T], `m1` [T], `f2` [T, P] and `m2` [T, P] (the last two None without a score).

    Example:
        >>> traces = emphatic_traces(
        ...     [1.0, 2.0], [0.9, 0.9], [1.0, 1.0], [[1.0], [3.0]],
        ...     gamma_hat=0.5, lambda_1=1.0, lambda_2=1.0,
        ... )
        >>> traces.f1.tolist(), traces.f2.tolist()
        ([1.0, 1.9], [[0.0], [1.0]])
    """
    for name, number in (("gamma_hat", gamma_hat), ("lambda_1", lambda_1), ("lambda_2", lambda_2)):
        if not 0 <= number <= 1:
            raise ValueError(f"{name} must be between 0 and 1, got {number!r}.")
    rho = _as_array(rho)
    if rho.ndim != 1:
        raise ValueError(
            f"rho must have one entry per transition, shape [T]; got shape {tuple(rho.shape)}."
        )
    steps = rho.shape[0]
    discount = _aligned("discount", discount, steps, 1)
    density_ratio = _aligned("density_ratio", density_ratio, steps, 1)
    score = None if score is None else _aligned("score", score, steps, 2)
    interest = zeros(rho, (steps,)) + 1 if interest is None else interest
    interest = _aligned("interest", interest, steps, 1)

    num_parameters = None if score is None else score.shape[1]
    # The traces of a single lane; the shape with a leading lane axis is what `advance` knows.
    state = fresh_traces(zeros(rho, (1,)), num_parameters)
    matrix = None if score is None else (steps, score.shape[1])
    traces = Emphasis(
        f1=zeros(rho, (steps,)),
        m1=zeros(rho, (steps,)),
        f2=None if matrix is None else zeros(rho, matrix),
        m2=None if matrix is None else zeros(rho, matrix),
    )
    for t in range(steps):
        row = slice(t, t + 1)
        state, emphasis = advance(
            state,
            rho=rho[row],
            discount=discount[row],
            density_ratio=density_ratio[row],
            score=None if score is None else score[row],
            interest=interest[row],
            gamma_hat=gamma_hat,
            lambda_1=lambda_1,
            lambda_2=lambda_2,
        )
        for whole, step in zip(traces, emphasis, strict=True):
            if whole is not None:
                whole[row] = step
    return traces


def _as_array(values: Array) -> Array:
    """Return torch tensors as they are and everything else as a floating numpy array."""
    if hasattr(values, "new_zeros"):
        return values
    array = np.asarray(values)
    return array if np.issubdtype(array.dtype, np.inexact) else array.astype(np.float64)


def _aligned(name: str, values: Array, steps: int, ndim: int) -> Array:
    array = _as_array(values)
    if array.ndim != ndim or array.shape[0] != steps:
        expected = f"[{steps}]" if ndim == 1 else f"[{steps}, P]"
        raise ValueError(
            f"{name} must have shape {expected}, one row per entry of rho; "
            f"got shape {tuple(array.shape)}."
        )
    return array


def _zero_where(mask: Array, values: Array) -> Array:
    # Not a product with the mask: a lane whose trace has overflowed must become 0, not NaN.
    xp = namespace(values)
    return xp.where(mask, xp.zeros_like(values), values)
