"""One lockstep of Geoff-PAC, ACE and Off-PAC. Read it beside the paper's pseudocode:

    critics on a replay batch; critics on the current transitions; traces F1, F2 and the terms Z1,
    Z2 with the C and V that have just learned; actor; target copies.

It is written over `Networks`, so that every backend runs this very code: torch lockstep by
lockstep, XLA as the traced body of a compiled loop. Nothing here may therefore look at a number
to decide what to do; what is decided once is in `EmphaticSettings`, numbers that change are in
`Lockstep.numbers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from rllib_geoffpac.maths import emphatic
from rllib_geoffpac.maths.arrays import Array, as_type, namespace
from rllib_geoffpac.maths.density_ratio import clip_density_ratio
from rllib_geoffpac.maths.emphatic import Term, TraceState, first_term, second_term
from rllib_geoffpac.maths.moments import Moments, running_mean, running_std, update_moments
from rllib_geoffpac.maths.value import importance_ratio, td_error
from rllib_geoffpac.updates.learned import Given, LearnedFunction
from rllib_geoffpac.updates.networks import Networks
from rllib_geoffpac.updates.transitions import Transitions


@dataclass(frozen=True)
class EmphaticSettings:
    """What is decided once for a run.

    Attributes:
        functions: The critics, in the order in which they learn.
        uses_density_ratio: Whether there is a C (ACE and Off-PAC have none).
        uses_second_trace: Whether there are F2 and Z2.
        centers_values: Whether the running mean of V is subtracted from V in Z2.
    """

    functions: tuple[LearnedFunction, ...]
    uses_density_ratio: bool
    uses_second_trace: bool
    centers_values: bool


class Lockstep(NamedTuple):
    """What one lockstep learns from.

    Attributes:
        current: [L, ...] one transition of every lane.
        chain_start: [L] true where the lane (re)starts: its traces restart before the transition.
        interest: [L] i(S_t).
        replayed: [N, ...] replayed transitions; None: there are none.
        numbers: Hyperparameters that are numbers, by their config keys, and `target_rate`, the
            share of V and C that enters their target copies after this lockstep.
    """

    current: Transitions
    chain_start: Array
    interest: Array
    replayed: Transitions | None
    numbers: Mapping[str, Array]


class Memory(NamedTuple):
    """What an update remembers from one lockstep to the next beside the networks.

    Attributes:
        traces: F1, F2 and what they need of the previous transition.
        moments: Running moments of V.
        z1: [P] mean over the lanes of Z1 at the latest lockstep, for metrics.
        z2: [P] the same of Z2; None where it is not used.
    """

    traces: TraceState
    moments: Moments
    z1: Array
    z2: Array | None


class Terms(NamedTuple):
    """The two terms of the ascent direction: Z1 and Z2 (None for ACE)."""

    z1: Term
    z2: Term | None


class EmphaticUpdate:
    """Everything that one lockstep does to the networks."""

    def __init__(self, settings: EmphaticSettings):
        self.settings = settings

    @property
    def losses(self) -> tuple[str, ...]:
        """What is reported only where something is learned."""
        return tuple(function.loss for function in self.settings.functions)

    def __call__(
        self, networks: Networks, memory: Memory, inputs: Lockstep, *, learn: bool
    ) -> tuple[Memory, dict[str, Array]]:
        """One lockstep; without `learn` only the traces and moments advance.

        Returns:
            The memory for the next lockstep, and scalars to report.
        """
        losses: dict[str, Array] = {}
        if learn:
            if inputs.replayed is not None:
                self.learn_critics(networks, inputs.replayed, inputs.numbers)
            losses = self.learn_critics(networks, inputs.current, inputs.numbers)
        memory, terms, report = self.advance(networks, memory, inputs)
        if learn:
            # Ascends the mean over the lanes of Z1 + Z2.
            networks.ascend("pi", memory.z1 if terms.z2 is None else memory.z1 + memory.z2)
            networks.update_targets(inputs.numbers["target_rate"])
        return memory, report | losses

    def learn_critics(
        self, networks: Networks, batch: Transitions, numbers: Mapping[str, Array]
    ) -> dict[str, Array]:
        """One step of every critic down its rule; returns their losses before it."""
        given = Given(networks, batch, self.rho(networks, batch, numbers)[1], numbers)
        return {
            function.loss: networks.learn(function.name, partial(function.rule, given=given))
            for function in self.settings.functions
        }

    def advance(
        self, networks: Networks, memory: Memory, inputs: Lockstep
    ) -> tuple[Memory, Terms, dict[str, Array]]:
        """Advances the traces by one transition of every lane and forms Z1 and Z2."""
        settings, numbers, row = self.settings, inputs.numbers, inputs.current
        value = networks("v", row.observations)
        next_value = networks("v", row.next_observations, target=True)
        delta = td_error(row.rewards, row.discount, next_value, value)
        ratio = namespace(value).ones_like(value)
        if settings.uses_density_ratio:
            ratio = networks("c", row.observations)
        raw_rho, rho = self.rho(networks, row, numbers)
        score = networks.scores(row.observations, row.actions)

        traces, emphasis = emphatic.advance(
            emphatic.restart(memory.traces, inputs.chain_start),
            rho=rho,
            discount=row.discount,
            density_ratio=clip_density_ratio(ratio, numbers["density_ratio_clip"]),
            score=score,
            interest=inputs.interest,
            gamma_hat=numbers["trace_gamma_hat"],
            lambda_1=numbers["lambda_1"],
            lambda_2=numbers["lambda_2"],
        )
        # A cut transition leads nowhere in the chain: the lane's next transition starts afresh.
        traces = emphatic.restart(traces, row.valid == 0)

        z1 = first_term(rho, emphasis.m1, delta, score)
        z2 = None
        if settings.uses_second_trace:
            # Deviation from the paper, off by default: the force towards the data.
            weight = numbers["overlap_coeff"] * running_std(memory.moments) + 0 * value
            if settings.uses_density_ratio:
                # Deviation from the paper, off by default: a baseline b for V.
                centred = settings.centers_values
                weight = weight + (value - running_mean(memory.moments) if centred else value)
            z2 = second_term(numbers["trace_gamma_hat"], inputs.interest, weight, emphasis.m2)
        moments = update_moments(memory.moments, value, numbers["baseline_decay"])
        report = {
            "rho_mean": raw_rho.mean(),
            "rho_square_mean": (raw_rho * raw_rho).mean(),
            "rho_clipped_mean": rho.mean(),
            "rho_clipped_share": as_type(raw_rho > rho, rho).mean(),
            "density_ratio_mean": ratio.mean(),
            "f1_mean": emphasis.f1.mean(),
            "m1_mean": emphasis.m1.mean(),
        }
        means = (None if z is None else z.mean() for z in (z1, z2))
        return Memory(traces, moments, *means), Terms(z1, z2), report

    @staticmethod
    def rho(
        networks: Networks, batch: Transitions, numbers: Mapping[str, Array]
    ) -> tuple[Array, Array]:
        """rho_t = pi(A_t|S_t) / mu(A_t|S_t): as it is, and clipped to [0, rho_clip]."""
        target_logp = networks.log_prob(batch.observations, batch.actions)
        rho = importance_ratio(target_logp, batch.behavior_logp)
        return rho, rho.clip(max=numbers["rho_clip"])

    def summary(
        self, networks: Networks, memory: Memory, look: tuple[Array, Array] | None
    ) -> dict[str, Array]:
        """The latest norms, moments and deviation; and what the networks say of some states.

        Args:
            networks: As they are after the chunk.
            memory: Likewise.
            look: Observations [N, ...] and the interest in them [N]; None: there are none.
        """
        report = {
            "z1_norm": _norm(memory.z1),
            "value_mean": running_mean(memory.moments),
            "value_std": running_std(memory.moments),
        }
        if memory.z2 is not None:
            report["z2_norm"] = _norm(memory.z2)
            report["f2_norm"] = _norm(memory.traces.f2).mean()
        std = networks.std()
        if std is not None:
            report["policy_std"] = std.mean()
        if look is not None:
            observations, interest = look
            objective = interest * networks("v", observations)
            if self.settings.uses_density_ratio:
                objective = objective * networks("c", observations)
            report["objective_estimate"] = objective.mean()
            report["policy_entropy"] = networks.entropy(observations).mean()
        return report


def _norm(vectors: Array) -> Array:
    """Euclidean norms: [..., P] -> [...]."""
    return namespace(vectors).sqrt((vectors * vectors).sum(-1))
