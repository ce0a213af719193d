"""One update of Geoff-PAC, ACE and Off-PAC. Read it beside the paper's pseudocode:

    critics on a replay batch; critics on the current transitions; traces F1, F2 and the terms Z1,
    Z2 with the C and V that have just learned; actor; target copies.

The third and the fourth are in `backward` (the paper) or in `weighted`. All is written over
`Networks`, so that every backend runs this very code: torch lockstep by lockstep, XLA as the traced
body of a compiled loop. Nothing here may therefore look at a number to decide what to do; what is
decided once is in `EmphaticSettings`, numbers that change are in `Lockstep.numbers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from rllib_geoffpac.maths.arrays import Array, namespace
from rllib_geoffpac.maths.emphasis import mixed_emphasis
from rllib_geoffpac.maths.estimators import cop_td_weight, etd_weight
from rllib_geoffpac.maths.moments import running_mean, running_std
from rllib_geoffpac.updates.backward import BackwardActor
from rllib_geoffpac.updates.learned import Given
from rllib_geoffpac.updates.lockstep import (
    EmphaticSettings,
    Lockstep,
    Memory,
    Terms,
    clipped_ratio,
    followon,
    past_of,
)
from rllib_geoffpac.updates.networks import Networks
from rllib_geoffpac.updates.transitions import Transitions, ratios
from rllib_geoffpac.updates.weighted import WeightedActor


class Actor(Protocol):
    """The part of an update that concerns pi."""

    def __call__(
        self, networks: Networks, memory: Memory, inputs: Lockstep, *, learn: bool
    ) -> tuple[Memory, dict[str, Array]]:
        """Advances the traces by one transition of every lane, and takes one step of pi."""
        ...

    def advance(
        self, networks: Networks, memory: Memory, inputs: Lockstep
    ) -> tuple[Memory, Terms, dict[str, Array]]:
        """Advances the traces and forms Z1 and Z2 of the current row."""
        ...


class EmphaticUpdate:
    """Everything that one update does to the networks."""

    def __init__(self, settings: EmphaticSettings):
        self.settings = settings
        self.actor: Actor = (WeightedActor if settings.weights_scores else BackwardActor)(settings)

    @property
    def losses(self) -> tuple[str, ...]:
        """What is reported only where something is learned."""
        overlap = ("overlap", "overlap_multiplier") if self.settings.controls_overlap else ()
        return (*(function.loss for function in self.settings.functions), *overlap)

    def __call__(
        self, networks: Networks, memory: Memory, inputs: Lockstep, *, learn: bool
    ) -> tuple[Memory, dict[str, Array]]:
        """One update; without `learn` only the traces and moments advance.

        Returns:
            The memory for the next update, and scalars to report.
        """
        losses = self.learn(networks, inputs) if learn else {}
        after, report = self.actor(networks, memory, inputs, learn=learn)
        if learn:
            networks.update_targets(inputs.numbers["target_rate"])
            if "average_rate" in inputs.numbers:
                networks.update_average(inputs.numbers["average_rate"])
        if inputs.is_last is not None:
            # Each update of a lockstep starts from the traces that the lockstep before has left.
            kept = networks.choose(
                inputs.is_last, (after.traces, after.moments), (memory.traces, memory.moments)
            )
            after = after._replace(traces=kept[0], moments=kept[1])
        return after, report | losses

    def learn(self, networks: Networks, inputs: Lockstep) -> dict[str, Array]:
        """The critics learn from the replayed transitions, then from the current ones."""
        if inputs.replayed is not None:
            self.learn_critics(networks, inputs.replayed, inputs.numbers)
        return self.learn_critics(networks, inputs.current, inputs.numbers)

    def learn_critics(
        self,
        networks: Networks,
        batch: Transitions,
        numbers: Mapping[str, Array],
        next_action: Array | None = None,
        own_action: Array | None = None,
    ) -> dict[str, Array]:
        """One step of every critic down its rule; returns their losses before it."""
        rho = ratios(networks, batch, numbers)[1]
        weight = self.value_weight(networks, batch, rho, numbers)
        settings = self.settings
        given = Given(
            networks,
            batch,
            rho,
            numbers,
            weight,
            settings.uses_density_ratio,
            settings.vtrace_length,
            next_action,
            own_action,
        )
        return {
            function.loss: networks.learn(function.name, partial(function.rule, given=given))
            for function in self.settings.functions
        }

    def value_weight(
        self, networks: Networks, batch: Transitions, rho: Array, numbers: Mapping[str, Array]
    ) -> Array:
        """The weight of every transition in the loss of V."""
        settings = self.settings
        if settings.value_estimator not in ("cop_td", "etd"):
            return rho
        ratio = clipped_ratio(networks, batch, numbers, settings)
        if settings.value_estimator == "cop_td":
            return cop_td_weight(rho, ratio)
        past = past_of(networks, batch, numbers, settings)
        f1 = followon(networks, batch, ratio, past, settings)
        m1 = mixed_emphasis(batch.interest, ratio, f1, lambda_1=numbers["lambda_1"])
        return etd_weight(rho, m1)

    def advance(
        self, networks: Networks, memory: Memory, inputs: Lockstep
    ) -> tuple[Memory, Terms, dict[str, Array]]:
        """Advances the traces by one transition of every lane and forms Z1 and Z2."""
        return self.actor.advance(networks, memory, inputs)

    def summary(
        self, networks: Networks, memory: Memory, look: tuple[Array, Array, Array | None] | None
    ) -> dict[str, Array]:
        """The latest norms, moments and deviation; and what the networks say of some states.

        Args:
            networks: As they are after the chunk.
            memory: Likewise.
            look: Observations [N, ...], the interest in them [N] and noise for actions [N, d];
                None: there are none.
        """
        report = {
            "value_mean": running_mean(memory.moments),
            "value_std": running_std(memory.moments),
        }
        if memory.z1 is not None:
            report["z1_norm"] = _norm(memory.z1)
        if memory.z2 is not None:
            report["z2_norm"] = _norm(memory.z2)
            report["f2_norm"] = _norm(memory.traces.f2).mean()
        std = networks.std()
        if std is not None:
            report["policy_std"] = std.mean()
        if look is not None:
            observations, interest, noise = look
            objective = interest * self.values(networks, observations, noise)
            if self.settings.uses_density_ratio:
                objective = objective * networks("c", observations)
            report["objective_estimate"] = objective.mean()
            report["policy_entropy"] = networks.entropy(observations).mean()
        return report

    def values(self, networks: Networks, observations: Array, noise: Array | None) -> Array:
        """V(S) [N]."""
        return networks("v", observations)


def _norm(vectors: Array) -> Array:
    """Euclidean norms: [..., P] -> [...]."""
    return namespace(vectors).sqrt((vectors * vectors).sum(-1))
