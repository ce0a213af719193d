"""The forward view: Z1 and Z2 as weights of log pi(A|S), in one backward pass over any rows.

    Z_t = rho_t grad log pi(A_t|S_t) [M1_t delta_t + C(S_t) delta^u_t]

There is no vector of the size of theta per lane and no time order but in F1, so that the actor can
learn from replayed transitions beside the current ones, with the current rho, C, U and V.
"""

from __future__ import annotations

from collections.abc import Mapping

from rllib_geoffpac.maths.arrays import Array, namespace
from rllib_geoffpac.maths.emphasis import mixed_emphasis
from rllib_geoffpac.maths.emphatic import Term
from rllib_geoffpac.maths.forward_view import (
    counterfactual_td_error,
    first_weight,
    mixed_counterfactual_value,
    second_weight,
)
from rllib_geoffpac.maths.moments import update_moments
from rllib_geoffpac.updates.lockstep import (
    EmphaticSettings,
    Estimates,
    Lockstep,
    Memory,
    Terms,
    advance_f1,
    estimate,
    followon,
    overlap_force,
)
from rllib_geoffpac.updates.networks import Networks, Policy
from rllib_geoffpac.updates.transitions import Transitions


class ForwardActor:
    """Ascends the mean over the current row and some replayed ones of Z1 + Z2."""

    def __init__(self, settings: EmphaticSettings):
        self.settings = settings

    def __call__(
        self, networks: Networks, memory: Memory, inputs: Lockstep, *, learn: bool
    ) -> tuple[Memory, dict[str, Array]]:
        """Advances F1 by one transition of every lane, and takes one step of pi."""
        count = self.settings.num_actor_replayed
        batch = inputs.current
        if count and inputs.replayed is not None and learn:
            batch = batch.followed_by(inputs.replayed.first(count))
        memory, said, (first, second), report = self._weights(networks, memory, inputs, batch)
        if not learn:
            return memory, report
        weight = first if second is None else first + second
        if self.settings.controls_overlap:
            force, multiplier, overlaps = overlap_force(
                memory, weight, said.raw_rho, inputs.numbers
            )
            weight = weight + force
            memory, report = memory._replace(multiplier=multiplier), report | overlaps

        def rule(pi: Policy) -> tuple[Array, dict[str, Array]]:
            return -(weight * pi.log_prob(batch.observations, batch.actions)).mean(), {}

        networks.learn("pi", rule)
        return memory, report

    def advance(
        self, networks: Networks, memory: Memory, inputs: Lockstep
    ) -> tuple[Memory, Terms, dict[str, Array]]:
        """Advances F1 and forms Z1 and Z2 of the current row, with the scores of every lane."""
        row = inputs.current
        memory, said, (first, second), report = self._weights(networks, memory, inputs, row)
        score = networks.scores(row.observations, row.actions)
        z2 = None if second is None else Term(second, score)
        return memory, Terms(Term(first, score), z2, said.raw_rho), report

    def _weights(
        self, networks: Networks, memory: Memory, inputs: Lockstep, batch: Transitions
    ) -> tuple[Memory, Estimates, tuple[Array, Array | None], dict[str, Array]]:
        """The factors of grad log pi(A|S) in Z1 and Z2; the batch begins with the current row."""
        settings, numbers = self.settings, inputs.numbers
        said = estimate(networks, batch, numbers, uses_density_ratio=settings.uses_density_ratio)
        lanes = len(inputs.chain_start)
        current = Estimates(*(column[:lanes] for column in said))
        f1 = followon(networks, batch, said.ratio, settings)
        if settings.emphasis == "followon":
            memory, trace = advance_f1(memory, inputs, current.rho, current.ratio)
            f1 = namespace(f1).concatenate([trace, f1[lanes:]])
        m1 = mixed_emphasis(batch.interest, said.ratio, f1, lambda_1=numbers["lambda_1"])
        first = first_weight(said.rho, m1, said.delta)
        second = self._second(networks, batch, said, numbers)
        moments = update_moments(memory.moments, current.value, numbers["baseline_decay"])
        report = current.report() | {"f1_mean": f1[:lanes].mean(), "m1_mean": m1[:lanes].mean()}
        return memory._replace(moments=moments), said, (first, second), report

    def _second(
        self, networks: Networks, batch: Transitions, said: Estimates, numbers: Mapping[str, Array]
    ) -> Array | None:
        """C(S_t) rho_t delta^u_t; None where there is no U."""
        if not self.settings.uses_density_ratio:
            return None
        # V'(S_{t+1}) serves delta_t and the mixture: where the two need different states, after a
        # cut, the mixture is masked, and after a termination gamma_{t+1} = 0 masks delta_t's.
        mixed = mixed_counterfactual_value(
            batch.next_interest,
            said.next_value,
            networks("u", batch.next_observations, target=True),
            lambda_2=numbers["lambda_2"],
        )
        delta_u = counterfactual_td_error(
            batch.interest,
            said.value,
            mixed,
            networks("u", batch.observations),
            gamma_hat=numbers["gamma_hat"],
        )
        return second_weight(said.rho, said.ratio, delta_u, batch.valid)
