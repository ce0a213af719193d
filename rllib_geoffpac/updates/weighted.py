"""The actor without F2: Z1 and Z2 as weights of log pi(A|S), in one backward pass over any rows.

In the forward view

    Z_t = rho_t grad log pi(A_t|S_t) [M1_t delta_t + C(S_t) delta^u_t],

and in the backward view with truncated traces M2_t is a weighted sum of the scores of the n
transitions before t. There is no vector of the size of theta per lane and no time order but in F1,
so that the actor can learn from replayed transitions beside the current ones, with the current rho,
C, U, V and M.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rllib_geoffpac.maths.arrays import Array, namespace
from rllib_geoffpac.maths.emphasis import mixed_emphasis, truncated_score_weights
from rllib_geoffpac.maths.emphatic import Term
from rllib_geoffpac.maths.forward_view import (
    counterfactual_td_error,
    first_weight,
    mixed_counterfactual_value,
    second_weight,
)
from rllib_geoffpac.maths.moments import running_mean, update_moments
from rllib_geoffpac.updates.lockstep import (
    EmphaticSettings,
    Estimates,
    Lockstep,
    Memory,
    Past,
    Terms,
    advance_f1,
    estimate,
    followon,
    overlap_force,
    past_of,
)
from rllib_geoffpac.updates.networks import Networks, Policy
from rllib_geoffpac.updates.transitions import Transitions


class Factors(NamedTuple):
    """The factors of grad log pi(A|S) in Z1 and Z2 of N transitions.

    Attributes:
        first: [N] in Z1, of the transitions' own scores.
        second: [N] in Z2, likewise; None outside of the forward view.
        past: [n, N] in Z2, of the scores of the transitions before them; None but for truncated
            traces in the backward view.
    """

    first: Array
    second: Array | None
    past: Array | None


class WeightedActor:
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
        memory, said, factors, report = self._factors(networks, memory, inputs, batch)
        if not learn:
            return memory, report
        weight = factors.first if factors.second is None else factors.first + factors.second
        if self.settings.controls_overlap:
            force, multiplier, overlaps = overlap_force(
                memory, weight, said.raw_rho, inputs.numbers
            )
            weight = weight + force
            memory, report = memory._replace(multiplier=multiplier), report | overlaps

        def rule(pi: Policy) -> tuple[Array, dict[str, Array]]:
            ascended = (weight * pi.log_prob(batch.observations, batch.actions)).mean()
            if factors.past is not None:
                rows = self._past(batch)
                log_prob = pi.log_prob(rows.observations, rows.actions)
                ascended = ascended + (factors.past.reshape(-1) * log_prob).sum() / len(weight)
            return -ascended, {}

        networks.learn("pi", rule)
        return memory, report

    def advance(
        self, networks: Networks, memory: Memory, inputs: Lockstep
    ) -> tuple[Memory, Terms, dict[str, Array]]:
        """Advances F1 and forms Z1 and Z2 of the current row, with the scores of every lane."""
        row = inputs.current
        memory, said, factors, report = self._factors(networks, memory, inputs, row)
        score = networks.scores(row.observations, row.actions)
        z2 = None if factors.second is None else Term(factors.second, score)
        if factors.past is not None:
            rows, shape = self._past(row), factors.past.shape
            scores = networks.scores(rows.observations, rows.actions).reshape(*shape, -1)
            each = namespace(factors.first).ones_like(factors.first)
            z2 = Term(each, (factors.past[..., None] * scores).sum(0))
        return memory, Terms(Term(factors.first, score), z2, said.raw_rho), report

    def _past(self, batch: Transitions) -> Transitions:
        """[n * N, ...] the transitions that the truncated traces remember."""
        assert batch.before is not None
        return batch.before.last(self.settings.trace_length).transitions.flat()

    def _factors(
        self, networks: Networks, memory: Memory, inputs: Lockstep, batch: Transitions
    ) -> tuple[Memory, Estimates, Factors, dict[str, Array]]:
        """The factors of the scores; the batch begins with the current row."""
        settings, numbers = self.settings, inputs.numbers
        said = estimate(networks, batch, numbers, uses_density_ratio=settings.uses_density_ratio)
        lanes = len(inputs.chain_start)
        current = Estimates(*(column[:lanes] for column in said))
        past = past_of(networks, batch, numbers, settings)
        f1 = followon(networks, batch, said.ratio, past, settings)
        if settings.emphasis == "followon":
            memory, trace = advance_f1(memory, inputs, current.rho, current.ratio)
            f1 = namespace(f1).concatenate([trace, f1[lanes:]])
        m1 = mixed_emphasis(batch.interest, said.ratio, f1, lambda_1=numbers["lambda_1"])
        factors = Factors(
            first_weight(said.rho, m1, said.delta),
            self._second(networks, batch, said, numbers),
            self._second_of_the_past(memory, batch, said, past, numbers),
        )
        moments = update_moments(memory.moments, current.value, numbers["baseline_decay"])
        report = current.report() | {"f1_mean": f1[:lanes].mean(), "m1_mean": m1[:lanes].mean()}
        return memory._replace(moments=moments), said, factors, report

    def _second(
        self, networks: Networks, batch: Transitions, said: Estimates, numbers: Mapping[str, Array]
    ) -> Array | None:
        """C(S_t) rho_t delta^u_t; None where there is no U."""
        if self.settings.view != "forward" or not self.settings.uses_density_ratio:
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

    def _second_of_the_past(
        self,
        memory: Memory,
        batch: Transitions,
        said: Estimates,
        past: Past | None,
        numbers: Mapping[str, Array],
    ) -> Array | None:
        """gamma_hat i(S_t) V(S_t) times the weights of M2_t, in the backward view; else None."""
        settings = self.settings
        unused = settings.view != "backward" or not settings.uses_density_ratio
        if unused or past is None or batch.before is None:
            return None
        weights = truncated_score_weights(
            past.ratio,
            past.rho,
            batch.before.last(settings.trace_length).connected,
            gamma_hat=numbers["gamma_hat"],
            lambda_2=numbers["lambda_2"],
        )
        value = said.value
        if settings.centers_values:
            value = value - running_mean(memory.moments)
        factor = numbers["gamma_hat"] * batch.interest * value
        return namespace(factor).stack([factor * weight for weight in weights])
