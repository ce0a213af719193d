"""The learned functions of the emphatic actor-critics, each one object.

To add one is to add one object here and to name it in `EmphaticConfig.learned_functions`: its
network, target copy, optimizer, checkpoint, digest, metric and both backends follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from rllib_geoffpac.maths.action_values import (
    conservative_loss,
    cost_of_ends,
    counterfactual_action_value_loss,
    lower,
)
from rllib_geoffpac.maths.arrays import Array, namespace, stop_gradient
from rllib_geoffpac.maths.density_ratio import (
    clip_density_ratio,
    density_ratio_loss,
    soft_normalization_loss,
)
from rllib_geoffpac.maths.deterministic import critic_loss, q_target
from rllib_geoffpac.maths.emphasis import emphasis_loss, emphasis_target
from rllib_geoffpac.maths.estimators import (
    tdrc_correction_error,
    tdrc_value_weights,
    vtrace_error,
)
from rllib_geoffpac.maths.forward_view import (
    counterfactual_action_value_target,
    counterfactual_td_error,
    counterfactual_value_loss,
)
from rllib_geoffpac.maths.value import td_error, value_loss
from rllib_geoffpac.updates.networks import Function, Networks
from rllib_geoffpac.updates.transitions import Transitions, ratios


class Given(NamedTuple):
    """What a learning rule may use, none of it differentiated.

    Attributes:
        networks: All functions and their target copies.
        batch: The transitions to learn from.
        rho: [N] rho_t, clipped.
        numbers: The hyperparameters that are numbers, by their config keys.
        value_weight: [N] the weight of a transition for V: rho_t, C(S_t) rho_t or M1_t rho_t.
        uses_density_ratio: Whether there is a C.
        vtrace_length: n of V-trace.
        next_action: [N, k] a' of pi's target copy in S_{t+1}, for action values; see
            `PolicyDistribution.differentiable_action`.
        own_action: [N, k] a of pi in S_t, where Q is conservative.
    """

    networks: Networks
    batch: Transitions
    rho: Array
    numbers: Mapping[str, Array]
    value_weight: Array
    uses_density_ratio: bool
    vtrace_length: int
    next_action: Array | None = None
    own_action: Array | None = None


class LearningRule(Protocol):
    """What a function descends, and what is reported as its loss."""

    def __call__(self, function: Function, /, given: Given) -> tuple[Array, Array]: ...


@dataclass(frozen=True)
class LearnedFunction:
    """A function of the state that is learned beside the policy.

    Attributes:
        name: Of its network (the module's attribute; its target copy is `<name>_target`), of its
            optimizer and of its gradient.
        title: What its metrics are called by: `<title>_loss`.
        learning_rate: The config key of its learning rate; None there means `lr`.
        rule: Its learning rule: (function, given) -> what to descend, what to report as its loss.
        positive: Whether its outputs pass through a softplus.
        start: What a table of it holds at first.
        of_actions: Whether it is a function of state and action, Q(S, a).
        num_critics: How many networks of it there are; more than one for action values only.
    """

    name: str
    title: str
    learning_rate: str
    rule: LearningRule
    positive: bool = False
    start: float = 0.0
    of_actions: bool = False
    num_critics: int = 1

    @property
    def loss(self) -> str:
        """The name of the metric."""
        return f"{self.title}_loss"


def value_rule(value: Function, given: Given) -> tuple[Array, Array]:
    """V: rho_t delta_t^2 / 2, times C(S_t) for COP-TD and M1_t for emphatic TD."""
    batch = given.batch
    next_value = given.networks("v", batch.next_observations, target=True)
    delta = td_error(batch.rewards, batch.discount, next_value, value(batch.observations))
    loss = value_loss(given.value_weight, delta)
    return loss, loss


def tdrc_value_rule(value: Function, given: Given) -> tuple[Array, Array]:
    """V by TDRC: rho_t (delta_t grad V(S_t) - gamma_{t+1} h(S_t) grad V(S_{t+1})).

    delta_t is that of V itself, without a target copy.
    """
    batch, rho = given.batch, given.rho
    here, there = value(batch.observations), value(batch.next_observations)
    delta = stop_gradient(td_error(batch.rewards, batch.discount, there, here))
    correction = given.networks("h", batch.observations)
    weights = tdrc_value_weights(rho, delta, batch.discount, correction)
    ascended = (weights.here * here + weights.following * there).mean()
    return -ascended, value_loss(rho, delta)


def vtrace_value_rule(value: Function, given: Given) -> tuple[Array, Array]:
    """V by V-trace: (v_t - V(S_t)) grad V(S_t), v_t from n transitions, rho and c clipped at 1.

    The transitions of the batch are the last of the n: V learns at the state n - 1 before.
    """
    batch, networks, steps = given.batch, given.networks, given.vtrace_length - 1
    rows = batch.and_before(steps)
    shape, flat = rows.rewards.shape, rows.flat()
    rho = ratios(networks, flat, given.numbers)[0].reshape(shape)
    delta = td_error(
        flat.rewards,
        flat.discount,
        networks("v", flat.next_observations, target=True),
        networks("v", flat.observations),
    )
    connected = exists = namespace(rho).ones_like(rho)
    if steps and batch.before is not None:
        window = batch.before.last(steps)
        # The last row leads out of what is looked at: nothing is carried over from there.
        connected = namespace(rho).concatenate([window.connected, connected[-1:]])
        exists = window.exists
    error = vtrace_error(rho, delta.reshape(shape), rows.discount, connected)
    error = exists[0] * stop_gradient(error)
    count = exists[0].sum()
    count = count + (count == 0)
    ascended = (error * value(rows.observations[0])).sum() / count
    return -ascended, (error * error).sum() / count / 2


def correction_rule(correction: Function, given: Given) -> tuple[Array, Array]:
    """h of TDRC: (rho_t delta_t - h(S_t))^2 / 2; its optimizer's weight decay regularises it."""
    batch, networks = given.batch, given.networks
    here, there = (networks("v", s) for s in (batch.observations, batch.next_observations))
    delta = stop_gradient(td_error(batch.rewards, batch.discount, there, here))
    error = tdrc_correction_error(given.rho, delta, correction(batch.observations))
    loss = (error * error).mean() / 2
    return loss, loss


def density_ratio_rule(density_ratio: Function, given: Given) -> tuple[Array, Array]:
    """C: the gamma_hat-discounted COP rule, and soft normalisation with weight beta."""
    batch, numbers = given.batch, given.numbers
    target = given.networks("c", batch.observations, target=True)
    ratio = density_ratio(batch.next_observations)
    loss = density_ratio_loss(
        ratio, target, given.rho, gamma_hat=numbers["gamma_hat"], valid=batch.valid
    )
    normalization = soft_normalization_loss(ratio, stop_gradient(ratio), batch.valid)
    return loss + numbers["sn_loss_coeff"] * normalization, loss


def counterfactual_value_rule(counterfactual_value: Function, given: Given) -> tuple[Array, Array]:
    """U: rho_t (delta^u_t)^2 / 2, with the V that has just learned as the reward."""
    batch, networks = given.batch, given.networks
    delta = counterfactual_td_error(
        batch.interest,
        networks("v", batch.observations),
        networks("u", batch.next_observations, target=True),
        counterfactual_value(batch.observations),
        gamma_hat=given.numbers["gamma_hat"],
    )
    loss = counterfactual_value_loss(given.rho, delta, batch.valid)
    return loss, loss


def emphasis_rule(emphasis: Function, given: Given) -> tuple[Array, Array]:
    """M: (i(S_{t+1}) C(S_{t+1}) + gamma_{t+1} rho_t M'(S_t) - M(S_{t+1}))^2 / 2.

    S_{t+1} is the state that the lane really goes to, also after a cut.
    """
    batch, networks = given.batch, given.networks
    there = batch.successors
    ratio: Array = 1.0
    if given.uses_density_ratio:
        ratio = clip_density_ratio(networks("c", there), given.numbers["density_ratio_clip"])
    target = emphasis_target(
        batch.next_interest,
        ratio,
        batch.discount,
        given.rho,
        networks("m", batch.observations, target=True),
        batch.valid,
    )
    loss = emphasis_loss(emphasis(there), target)
    return loss, loss


def action_value_rule(action_value: Function, given: Given) -> tuple[Array, Array]:
    """Q: sum_k (Q_k(S_t, A_t) - y_t)^2, y_t = R_{t+1} + gamma_{t+1} min_k Q'_k(S_{t+1}, a').

    y_t is clipped to `target_low` and `target_high`, where they are among the numbers; with
    `conservatism` there is a penalty for the values of pi's own actions.
    """
    batch, networks = given.batch, given.networks
    following = networks("q", batch.next_observations, given.next_action, target=True)
    target = _clipped(q_target(batch.rewards, batch.discount, following), given.numbers)
    taken = action_value(batch.observations, networks.encode(batch.actions, batch.rewards))
    loss = critic_loss(taken, target)
    if given.own_action is None:
        return loss, loss
    own = action_value(batch.observations, given.own_action)
    push = given.numbers["conservatism"] * cost_of_ends(following, batch.discount)
    return loss + conservative_loss(own, taken, push), loss


def _clipped(value: Array, numbers: Mapping[str, Array]) -> Array:
    """A value [N] kept in the range that returns can have, if there is one."""
    if "target_low" not in numbers:
        return value
    return value.clip(numbers["target_low"], numbers["target_high"])


def counterfactual_action_value_rule(
    counterfactual_action_value: Function, given: Given
) -> tuple[Array, Array]:
    """Q_u: sum_k (Q_u,k(S_t, A_t) - gamma_hat (i min_k Q'_k + min_k Q_u'_k)(S_{t+1}, a'))^2."""
    batch, networks = given.batch, given.networks
    state_and_action = batch.next_observations, given.next_action
    target = counterfactual_action_value_target(
        batch.next_interest,
        _clipped(lower(networks("q", *state_and_action, target=True)), given.numbers),
        lower(networks("q_u", *state_and_action, target=True)),
        gamma_hat=given.numbers["gamma_hat"],
    )
    taken = networks.encode(batch.actions, batch.rewards)
    values = counterfactual_action_value(batch.observations, taken)
    loss = counterfactual_action_value_loss(values, target, batch.valid)
    return loss, loss


V = LearnedFunction("v", "value", "value_lr", value_rule)
"""The value function v_pi."""

C = LearnedFunction("c", "density_ratio", "density_ratio_lr", density_ratio_rule, True, 1.0)
"""The density ratio c = d_gamma_hat / d_mu; its table starts at 1, the ratio of pi = mu."""

U = LearnedFunction(
    "u", "counterfactual_value", "counterfactual_value_lr", counterfactual_value_rule
)
"""The value of the values, u(s) = i(s) v_pi(s) + gamma_hat E_pi[u(S')|s]."""

M = LearnedFunction("m", "emphasis", "emphasis_lr", emphasis_rule, True, 1.0)
"""The emphasis M(s), the mean of F1 in state s."""

H = LearnedFunction("h", "correction", "correction_lr", correction_rule)
"""TDRC's second critic, of E[rho_t delta_t | S_t]."""

Q = LearnedFunction(
    "q", "action_value", "action_value_lr", action_value_rule, of_actions=True, num_critics=2
)
"""The action value q_pi."""

Q_U = LearnedFunction(
    "q_u",
    "counterfactual_action_value",
    "counterfactual_action_value_lr",
    counterfactual_action_value_rule,
    of_actions=True,
    num_critics=2,
)
"""What an action is worth by the values of the states that follow it, gamma_hat E[u(S')|s, a]."""

LEARNED = {function.name: function for function in (V, C, U, M, H, Q, Q_U)}
"""All learned functions by name."""

VALUE_FUNCTIONS = {
    "td": (V,),
    "cop_td": (V,),
    "etd": (V,),
    "vtrace": (replace(V, rule=vtrace_value_rule),),
    "tdrc": (replace(V, rule=tdrc_value_rule), H),
}
"""V, and what it needs beside it, by `value_estimator`."""
