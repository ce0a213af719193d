"""The backward view, the paper's: traces F1 and F2 of every lane, Z1 and Z2 of the current row."""

from __future__ import annotations

from rllib_geoffpac.maths import emphatic
from rllib_geoffpac.maths.arrays import Array
from rllib_geoffpac.maths.emphasis import mixed_emphasis
from rllib_geoffpac.maths.emphatic import Term, first_term, second_term
from rllib_geoffpac.maths.moments import running_mean, running_std, update_moments
from rllib_geoffpac.updates.lockstep import (
    EmphaticSettings,
    Lockstep,
    Memory,
    Terms,
    estimate,
    overlap_force,
)
from rllib_geoffpac.updates.networks import Networks


class BackwardActor:
    """Ascends the mean over the lanes of Z1 + Z2; F2 is a vector of the size of theta per lane."""

    def __init__(self, settings: EmphaticSettings):
        self.settings = settings

    def __call__(
        self, networks: Networks, memory: Memory, inputs: Lockstep, *, learn: bool
    ) -> tuple[Memory, dict[str, Array]]:
        """Advances the traces by one transition of every lane, and takes one step of pi."""
        memory, terms, report = self.advance(networks, memory, inputs)
        if not learn:
            return memory, report
        direction = memory.z1
        if memory.z2 is not None and direction is not None:
            direction = direction + memory.z2
        if self.settings.controls_overlap:
            weight, raw_rho, score = terms.z1.weight, terms.raw_rho, terms.z1.vector
            force, multiplier, overlaps = overlap_force(memory, weight, raw_rho, inputs.numbers)
            direction = direction + Term(force, score).mean()
            memory, report = memory._replace(multiplier=multiplier), report | overlaps
        networks.ascend("pi", direction)
        return memory, report

    def advance(
        self, networks: Networks, memory: Memory, inputs: Lockstep
    ) -> tuple[Memory, Terms, dict[str, Array]]:
        """Advances the traces and forms Z1 and Z2."""
        settings, numbers, row = self.settings, inputs.numbers, inputs.current
        said = estimate(networks, row, numbers, uses_density_ratio=settings.uses_density_ratio)
        score = networks.scores(row.observations, row.actions)
        traces, emphasis = emphatic.advance(
            emphatic.restart(memory.traces, inputs.chain_start),
            rho=said.rho,
            discount=row.discount,
            density_ratio=said.ratio,
            score=score,
            interest=row.interest,
            gamma_hat=numbers["trace_gamma_hat"],
            lambda_1=numbers["lambda_1"],
            lambda_2=numbers["lambda_2"],
        )
        # A cut transition leads nowhere in the chain: the lane's next transition starts afresh.
        traces = emphatic.restart(traces, row.valid == 0)

        if settings.emphasis == "learned":
            f1 = networks("m", row.observations)
            m1 = mixed_emphasis(row.interest, said.ratio, f1, lambda_1=numbers["lambda_1"])
            emphasis = emphasis._replace(f1=f1, m1=m1)

        z1 = first_term(said.rho, emphasis.m1, said.delta, score)
        z2 = None
        if settings.uses_second_trace:
            # Deviation from the paper, off by default: the force towards the data.
            weight = numbers["overlap_coeff"] * running_std(memory.moments) + 0 * said.value
            if settings.uses_density_ratio:
                # Deviation from the paper, off by default: a baseline b for V.
                centred = settings.centers_values
                value = said.value - running_mean(memory.moments) if centred else said.value
                weight = weight + value
            z2 = second_term(numbers["trace_gamma_hat"], row.interest, weight, emphasis.m2)
        moments = update_moments(memory.moments, said.value, numbers["baseline_decay"])
        report = said.report() | {"f1_mean": emphasis.f1.mean(), "m1_mean": emphasis.m1.mean()}
        memory = memory._replace(
            traces=traces, moments=moments, z1=z1.mean(), z2=None if z2 is None else z2.mean()
        )
        return memory, Terms(z1, z2, said.raw_rho), report
