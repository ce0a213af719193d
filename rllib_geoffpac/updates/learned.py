"""The learned functions of the emphatic actor-critics, each one object.

To add one is to add one object here and to name it in `GeoffPACConfig.learned_functions`: its
network, target copy, optimizer, checkpoint, digest, metric and both backends follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rllib_geoffpac.maths.arrays import Array, stop_gradient
from rllib_geoffpac.maths.density_ratio import density_ratio_loss, soft_normalization_loss
from rllib_geoffpac.maths.forward_view import counterfactual_td_error, counterfactual_value_loss
from rllib_geoffpac.maths.value import td_error, value_loss
from rllib_geoffpac.updates.networks import Function, Networks
from rllib_geoffpac.updates.transitions import Transitions


class Given(NamedTuple):
    """What a learning rule may use, none of it differentiated.

    Attributes:
        networks: All functions and their target copies.
        batch: The transitions to learn from.
        rho: [N] rho_t, clipped.
        numbers: The hyperparameters that are numbers, by their config keys.
    """

    networks: Networks
    batch: Transitions
    rho: Array
    numbers: Mapping[str, Array]


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
    """

    name: str
    title: str
    learning_rate: str
    rule: LearningRule
    positive: bool = False
    start: float = 0.0

    @property
    def loss(self) -> str:
        """The name of the metric."""
        return f"{self.title}_loss"


def value_rule(value: Function, given: Given) -> tuple[Array, Array]:
    """V: rho_t delta_t^2 / 2."""
    batch = given.batch
    next_value = given.networks("v", batch.next_observations, target=True)
    delta = td_error(batch.rewards, batch.discount, next_value, value(batch.observations))
    loss = value_loss(given.rho, delta)
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


V = LearnedFunction("v", "value", "value_lr", value_rule)
"""The value function v_pi."""

C = LearnedFunction("c", "density_ratio", "density_ratio_lr", density_ratio_rule, True, 1.0)
"""The density ratio c = d_gamma_hat / d_mu; its table starts at 1, the ratio of pi = mu."""

U = LearnedFunction(
    "u", "counterfactual_value", "counterfactual_value_lr", counterfactual_value_rule
)
"""The value of the values, u(s) = i(s) v_pi(s) + gamma_hat E_pi[u(S')|s]."""

LEARNED = {function.name: function for function in (V, C, U)}
"""All learned functions by name."""
