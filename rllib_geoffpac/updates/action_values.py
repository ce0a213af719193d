"""One update of Geoff-PAC, ACE and Off-PAC with action values in place of V.

The theorem's first term is sum_s m(s) sum_a q(s, a) grad pi(a|s), and the second is the same with
Q_u(s, a) = gamma_hat E[i(S') Q(S', a') + Q_u(S', a')] and c(s): with critics Q and Q_u the inner
sum needs no importance ratio. One update, with the target copies pi', Q', Q_u' and a' drawn from
pi'(.|S_{t+1}) (Discrete: the sum over all actions):

    on the current transitions and the replayed ones together
      Q_k     to  R_{t+1} + gamma_{t+1} min_k Q'_k(S_{t+1}, a')
              (`clip_action_values`: clipped to what returns can be, as Q' in Q_u's target is)
              (`conservatism`: and down where pi acts more often than the data, see
              `maths.action_values.conservative_loss`)
      Q_u,k   to  gamma_hat [i(S_{t+1}) min_k Q'_k(S_{t+1}, a') + min_k Q_u'_k(S_{t+1}, a')]
      C       by its own rule
    every `policy_delay` updates, on the current transitions and `actor_replay_batch_size` replayed
    locksteps, with the C that has just learned and a_t drawn from pi(.|S_t)
      x_t   = M1_t Q_1(S_t, a_t) + C(S_t) Q_u,1(S_t, a_t)
              (actor_ascends="lower": min_k in place of the first critic)
      pi    ascends  mean x_t / scale + eta mean min(rho_t, k) log pi(A_t|S_t),   k = `rho_clip`
      scale = mean |x_t - mean x|, and min(rho_t, k) is not differentiated
      eta   <- clip(eta + 0.01 (`overlap_target` - mean min(rho_t, k)), 0, 10)
    the target copies

After a time limit that bootstraps, S_{t+1} is the final observation, where Q goes on, and Q_u
learns nothing; after a termination it is the reset observation, where Q_u goes on, and gamma_{t+1}
is 0. rho enters C, F1 and the force alone. Random numbers are inputs: nothing here draws any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rllib_geoffpac.maths.action_values import lower, worth_scale
from rllib_geoffpac.maths.arrays import Array, namespace, stop_gradient
from rllib_geoffpac.maths.density_ratio import clip_density_ratio
from rllib_geoffpac.maths.emphasis import mixed_emphasis
from rllib_geoffpac.maths.emphatic import Term
from rllib_geoffpac.maths.moments import update_moments
from rllib_geoffpac.maths.overlap import force_weight
from rllib_geoffpac.updates.emphatic import EmphaticUpdate
from rllib_geoffpac.updates.lockstep import (
    EmphaticSettings,
    Lockstep,
    Memory,
    Terms,
    advance_f1,
    followon,
    overlap_step,
    past_of,
    ratio_report,
)
from rllib_geoffpac.updates.networks import Networks, Policy
from rllib_geoffpac.updates.transitions import Transitions, ratios


class ActionValueUpdate(EmphaticUpdate):
    """Everything that one update does to the networks."""

    def __init__(self, settings: EmphaticSettings):
        super().__init__(settings)
        self.actor = ActionValueActor(settings)

    def learn(self, networks: Networks, inputs: Lockstep) -> dict[str, Array]:
        """One step of every critic on the current and the replayed transitions together."""
        batch = _joined(inputs)
        noise = None if inputs.noise is None else inputs.noise[: len(batch.rewards)]
        next_action = networks.action(batch.next_observations, noise, target=True)
        own_action = None
        if self.settings.is_conservative:
            own_action = networks.action(batch.observations, noise)
        return self.learn_critics(networks, batch, inputs.numbers, next_action, own_action)

    def values(self, networks: Networks, observations: Array, noise: Array | None) -> Array:
        """Q_1(S, a), a from pi(.|S): an estimate of V(S) [N]."""
        return networks("q", observations, networks.action(observations, noise))[0]


class ActorRows(NamedTuple):
    """What the actor learns from, beginning with the current transitions; N rows.

    Attributes:
        batch: The transitions.
        noise: [N, d] uniform numbers for a_t; None for Discrete actions.
        m1: [N] M1_t.
        ratio: [N] C(S_t), clipped.
        raw_rho: [N] rho_t, not clipped.
    """

    batch: Transitions
    noise: Array | None
    m1: Array
    ratio: Array
    raw_rho: Array


class ActionValueActor:
    """Ascends the action values, and keeps the overlap."""

    def __init__(self, settings: EmphaticSettings):
        self.settings = settings

    def __call__(
        self, networks: Networks, memory: Memory, inputs: Lockstep, *, learn: bool
    ) -> tuple[Memory, dict[str, Array]]:
        """Advances F1 by one transition of every lane; takes one step of pi where it is due."""
        batch = _joined(inputs) if learn else inputs.current
        after, rows, report = self._weigh(networks, memory, inputs, batch)
        if not learn:
            return after, report
        numbers, eta = inputs.numbers, memory.multiplier

        def rule(pi: Policy) -> tuple[Array, dict[str, Array]]:
            first, second = self._terms(networks, pi, rows)
            worth = first if second is None else first + second
            objective = worth.mean() / stop_gradient(worth_scale(worth))
            if eta is not None:
                force = force_weight(rows.raw_rho, eta, 1.0, numbers["rho_clip"])
                logp = pi.log_prob(rows.batch.observations, rows.batch.actions)
                objective = objective + (force * logp).mean()
            return -objective, {}

        networks.when(numbers["actor_is_due"] > 0, lambda: networks.learn("pi", rule))
        if eta is not None:
            next_eta, overlaps = overlap_step(eta, rows.raw_rho, numbers)
            after, report = after._replace(multiplier=next_eta), report | overlaps
        return after, report

    def advance(
        self, networks: Networks, memory: Memory, inputs: Lockstep
    ) -> tuple[Memory, Terms, dict[str, Array]]:
        """Advances F1 and forms both terms of every lane, not in units of their scale."""
        memory, rows, report = self._weigh(networks, memory, inputs, inputs.current)
        ones = namespace(rows.m1).ones_like(rows.m1)
        z1 = Term(ones, networks.gradients(lambda pi: self._terms(networks, pi, rows)[0]))
        z2 = None
        if self.settings.uses_density_ratio:
            z2 = Term(ones, networks.gradients(lambda pi: self._terms(networks, pi, rows)[1]))
        return memory, Terms(z1, z2, rows.raw_rho), report

    def _terms(self, networks: Networks, pi: Policy, rows: ActorRows) -> tuple[Array, Array | None]:
        """M1_t Q(S_t, a_t) and C(S_t) Q_u(S_t, a_t) [N], differentiable through a_t."""
        states = rows.batch.observations
        action = pi.action(states, rows.noise)
        first = rows.m1 * self._ascended(networks("q", states, action))
        if not self.settings.uses_density_ratio:
            return first, None
        return first, rows.ratio * self._ascended(networks("q_u", states, action))

    def _ascended(self, values: Sequence[Array]) -> Array:
        """What the actor takes of the critics' values, K times [N]."""
        return lower(values) if self.settings.ascends_lower else values[0]

    def _weigh(
        self, networks: Networks, memory: Memory, inputs: Lockstep, batch: Transitions
    ) -> tuple[Memory, ActorRows, dict[str, Array]]:
        """Advances F1 and the moments by the current row; and what the actor's rows weigh."""
        settings, numbers, lanes = self.settings, inputs.numbers, len(inputs.chain_start)
        noise = None if inputs.noise is None else inputs.noise[len(batch.rewards) :]
        batch = batch.first(lanes + settings.num_actor_replayed)
        raw_rho, rho = ratios(networks, batch, numbers)
        raw_ratio = namespace(rho).ones_like(rho)
        if settings.uses_density_ratio:
            raw_ratio = networks("c", batch.observations)
        ratio = clip_density_ratio(raw_ratio, numbers["density_ratio_clip"])
        past = past_of(networks, batch, numbers, settings)
        f1 = followon(networks, batch, ratio, past, settings)
        if settings.emphasis == "followon":
            memory, trace = advance_f1(memory, inputs, rho[:lanes], ratio[:lanes])
            f1 = namespace(f1).concatenate([trace, f1[lanes:]])
        m1 = mixed_emphasis(batch.interest, ratio, f1, lambda_1=numbers["lambda_1"])

        states = inputs.current.observations
        taken = networks("q", states, networks.encode(inputs.current.actions, rho))[0]
        action = networks.action(states, None if noise is None else noise[:lanes])
        value = networks("q", states, action)[0]
        moments = update_moments(memory.moments, value, numbers["baseline_decay"])
        report = ratio_report(raw_rho[:lanes], rho[:lanes], raw_ratio[:lanes]) | {
            "f1_mean": f1[:lanes].mean(),
            "m1_mean": m1[:lanes].mean(),
            "action_value_mean": taken.mean(),
        }
        return memory._replace(moments=moments), ActorRows(batch, noise, m1, ratio, raw_rho), report


def _joined(inputs: Lockstep) -> Transitions:
    """The current transitions, then the replayed ones."""
    if inputs.replayed is None:
        return inputs.current
    return inputs.current.followed_by(inputs.replayed)
