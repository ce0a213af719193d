"""What one lockstep of the emphatic actor-critics learns from, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rllib_geoffpac.maths import emphatic
from rllib_geoffpac.maths.arrays import Array, as_type, namespace
from rllib_geoffpac.maths.density_ratio import clip_density_ratio
from rllib_geoffpac.maths.emphasis import truncated_followon
from rllib_geoffpac.maths.emphatic import Term, TraceState
from rllib_geoffpac.maths.moments import Moments
from rllib_geoffpac.maths.overlap import actor_scale, force_weight, multiplier_step, overlap
from rllib_geoffpac.maths.value import td_error
from rllib_geoffpac.updates.learned import LearnedFunction
from rllib_geoffpac.updates.networks import Networks
from rllib_geoffpac.updates.transitions import Transitions, ratios


@dataclass(frozen=True)
class EmphaticSettings:
    """What is decided once for a run.

    Attributes:
        functions: The critics, in the order in which they learn.
        uses_density_ratio: Whether there is a C (ACE and Off-PAC have none).
        uses_second_trace: Whether there are F2 and the Z2 of the backward view.
        centers_values: Whether the running mean of V is subtracted from V in Z2.
        view: "backward" or "forward".
        emphasis: "followon", "truncated" or "learned".
        trace_length: How many transitions the truncated traces remember.
        value_estimator: How V learns.
        vtrace_length: How many transitions V-trace looks at.
        num_actor_replayed: How many of the replayed transitions the actor learns from.
        controls_overlap: Whether there is an `overlap_target`.
        ascends_lower: Whether the actor ascends the lower of two action values, not the first.
        is_conservative: Whether Q is pressed down where pi acts more often than the data.
    """

    functions: tuple[LearnedFunction, ...]
    uses_density_ratio: bool
    uses_second_trace: bool
    centers_values: bool
    view: str = "backward"
    emphasis: str = "followon"
    trace_length: int = 0
    value_estimator: str = "td"
    vtrace_length: int = 1
    num_actor_replayed: int = 0
    controls_overlap: bool = False
    ascends_lower: bool = False
    is_conservative: bool = False

    @property
    def weights_scores(self) -> bool:
        """Whether the actor's direction is a weighted sum of scores, in one backward pass."""
        return self.view == "forward" or self.emphasis == "truncated" or self.num_actor_replayed > 0


class Lockstep(NamedTuple):
    """What one update learns from; a lockstep has `updates_per_lockstep` of them.

    Attributes:
        current: [L, ...] one transition of every lane, the interest included.
        chain_start: [L] true where the lane (re)starts: its traces restart before the transition.
        replayed: [N, ...] replayed transitions; None: there are none.
        numbers: Hyperparameters that are numbers, by their config keys; `target_rate`, the share
            of the critics that enters their target copies after this update; and `overlap_rate`,
            the step size of eta, 0 where nothing is learned.
        is_last: Whether it is the last update of its lockstep, whose traces are kept; None: each
            is.
        noise: [M, d] uniform numbers for actions of pi, for action values: first for S_{t+1} of
            all transitions, then for S_t of those that the actor learns from; None: nobody needs
            them.
    """

    current: Transitions
    chain_start: Array
    replayed: Transitions | None
    numbers: Mapping[str, Array]
    is_last: Array | None = None
    noise: Array | None = None


class Memory(NamedTuple):
    """What an update remembers from one lockstep to the next beside the networks.

    Attributes:
        traces: F1, F2 and what they need of the previous transition.
        moments: Running moments of V.
        z1: [P] mean over the lanes of Z1 at the latest lockstep, for metrics; None in the forward
            view, which has no vector of its own for it.
        z2: [P] the same of Z2; None where it is not used.
        multiplier: eta of the overlap target, a scalar; None: there is no target.
    """

    traces: TraceState
    moments: Moments
    z1: Array | None
    z2: Array | None
    multiplier: Array | None = None


class Terms(NamedTuple):
    """The two terms of the ascent direction for the current row.

    Attributes:
        z1: Z1.
        z2: Z2; None for ACE.
        raw_rho: [L] rho_t, not clipped.
    """

    z1: Term
    z2: Term | None
    raw_rho: Array


class Estimates(NamedTuple):
    """What the networks say of N transitions, none of it differentiated.

    Attributes:
        raw_rho: [N] rho_t = pi(A_t|S_t) / mu(A_t|S_t).
        rho: [N] clipped to [0, rho_clip].
        value: [N] V(S_t).
        next_value: [N] V'(S_{t+1}), of the target copy.
        delta: [N] delta_t.
        raw_ratio: [N] C(S_t); 1 where there is no C.
        ratio: [N] clipped to [0, density_ratio_clip].
    """

    raw_rho: Array
    rho: Array
    value: Array
    next_value: Array
    delta: Array
    raw_ratio: Array
    ratio: Array

    def report(self) -> dict[str, Array]:
        """Scalars for metrics."""
        return ratio_report(self.raw_rho, self.rho, self.raw_ratio)


def ratio_report(raw_rho: Array, rho: Array, raw_ratio: Array) -> dict[str, Array]:
    """Scalars for metrics of rho_t, not clipped and clipped, and of C(S_t): [N] each."""
    return {
        "rho_mean": raw_rho.mean(),
        "rho_square_mean": (raw_rho * raw_rho).mean(),
        "rho_clipped_mean": rho.mean(),
        "rho_clipped_share": as_type(raw_rho > rho, rho).mean(),
        "density_ratio_mean": raw_ratio.mean(),
    }


def estimate(
    networks: Networks,
    batch: Transitions,
    numbers: Mapping[str, Array],
    *,
    uses_density_ratio: bool,
) -> Estimates:
    """Asks the networks about a batch."""
    value = networks("v", batch.observations)
    next_value = networks("v", batch.next_observations, target=True)
    delta = td_error(batch.rewards, batch.discount, next_value, value)
    raw_ratio = namespace(value).ones_like(value)
    if uses_density_ratio:
        raw_ratio = networks("c", batch.observations)
    ratio = clip_density_ratio(raw_ratio, numbers["density_ratio_clip"])
    raw_rho, rho = ratios(networks, batch, numbers)
    return Estimates(raw_rho, rho, value, next_value, delta, raw_ratio, ratio)


class Past(NamedTuple):
    """What the networks say of the n transitions before each of N, with the present weights.

    Attributes:
        rho: [n, N] rho, clipped.
        ratio: [n, N] C, clipped; 1 where there is no C.
    """

    rho: Array
    ratio: Array


def past_of(
    networks: Networks, batch: Transitions, numbers: Mapping[str, Array], settings: EmphaticSettings
) -> Past | None:
    """The past of a batch that the truncated traces remember; None for other emphases."""
    if settings.emphasis != "truncated" or batch.before is None:
        return None
    window = batch.before.last(settings.trace_length)
    rows, shape = window.transitions.flat(), window.connected.shape
    rho = ratios(networks, rows, numbers)[1].reshape(shape)
    ratio = clipped_ratio(networks, rows, numbers, settings).reshape(shape)
    return Past(rho, ratio)


def clipped_ratio(
    networks: Networks, batch: Transitions, numbers: Mapping[str, Array], settings: EmphaticSettings
) -> Array:
    """C(S_t) as it enters the emphases [N]; 1 where there is no C."""
    if not settings.uses_density_ratio:
        return namespace(batch.rewards).ones_like(batch.rewards)
    return clip_density_ratio(networks("c", batch.observations), numbers["density_ratio_clip"])


def followon(
    networks: Networks,
    batch: Transitions,
    ratio: Array,
    past: Past | None,
    settings: EmphaticSettings,
) -> Array:
    """What stands for F1_t of any transitions [N]: M(S_t), the truncated trace, or i(S_t) C(S_t).

    The last serves where lambda_1 = 0, as M1_t then has no F1_t.
    """
    if settings.emphasis == "learned":
        return networks("m", batch.observations)
    own = batch.interest * ratio
    if past is None or batch.before is None:
        return own
    window = batch.before.last(settings.trace_length)
    interest = window.transitions.interest * past.ratio
    concatenate = namespace(own).concatenate
    return truncated_followon(
        concatenate([interest, own[None]]),
        past.rho,
        window.transitions.discount,
        window.connected,
    )


HIGHEST_MULTIPLIER = 10.0
"""The most that eta can be; it settles below 1."""


def overlap_force(
    memory: Memory, weight: Array, raw_rho: Array, numbers: Mapping[str, Array]
) -> tuple[Array, Array, dict[str, Array]]:
    """The factors of grad log pi(A|S) that keep the overlap, and the dual step of eta.

    Args:
        memory: Holds eta.
        weight: [N] the actor's own factors of grad log pi(A|S).
        raw_rho: [N] rho_t.
        numbers: Has `rho_clip`, `overlap_target` and `overlap_rate`.

    Returns:
        The force's factors [N], the next eta, and scalars to report.
    """
    eta, clip = memory.multiplier, numbers["rho_clip"]
    force = force_weight(raw_rho, eta, actor_scale(weight, raw_rho, clip), clip)
    return force, *overlap_step(eta, raw_rho, numbers)


def overlap_step(
    eta: Array, raw_rho: Array, numbers: Mapping[str, Array]
) -> tuple[Array, dict[str, Array]]:
    """The dual step of eta, given rho_t [N]; returns the next eta, and scalars to report."""
    reached = overlap(raw_rho, numbers["rho_clip"])
    eta = multiplier_step(
        eta,
        reached,
        target=numbers["overlap_target"],
        rate=numbers["overlap_rate"],
        highest=HIGHEST_MULTIPLIER,
    )
    return eta, {"overlap": reached, "overlap_multiplier": eta}


def advance_f1(memory: Memory, inputs: Lockstep, rho: Array, ratio: Array) -> tuple[Memory, Array]:
    """Advances F1 alone by the current row, given rho_t and C(S_t) [L]; returns F1_t [L]."""
    row, numbers = inputs.current, inputs.numbers
    traces, emphasis = emphatic.advance(
        emphatic.restart(memory.traces, inputs.chain_start),
        rho=rho,
        discount=row.discount,
        density_ratio=ratio,
        score=None,
        interest=row.interest,
        gamma_hat=numbers["gamma_hat"],
        lambda_1=numbers["lambda_1"],
        lambda_2=numbers["lambda_2"],
    )
    # A cut transition leads nowhere in the chain: the lane's next transition starts afresh.
    return memory._replace(traces=emphatic.restart(traces, row.valid == 0)), emphasis.f1
