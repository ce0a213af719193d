"""`Networks` inside a traced computation: parameters are values that the trace carries on.

All parameters of a function are one vector: an optimizer's step is one operation then, not one for
every layer, which halves the time to compile and saves some of the time to run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
from jax import lax
from jax import numpy as jnp

from rllib_geoffpac.maths.arrays import Array
from rllib_geoffpac.maths.distributions import PolicyDistribution
from rllib_geoffpac.updates.networks import Function, Rule
from rllib_geoffpac.updates.xla.optimizers import CompiledOptimizer, Slots

Parameters = list[jax.Array]
"""Of one function, in the shapes and the order of its torch parameters."""


class State(NamedTuple):
    """All that learning changes in the networks.

    Attributes:
        parameters: By function, [P] in the order of its torch parameters.
        targets: Of the target copies, by function.
        slots: What the optimizers remember, by function.
        averages: Of the averages over time, by function; pi alone can have one.
    """

    parameters: dict[str, Array]
    targets: dict[str, Array]
    slots: dict[str, Slots]
    averages: dict[str, Array]


class Structure(NamedTuple):
    """What the networks are, apart from numbers.

    Attributes:
        functions: By name: (parameters, *inputs) -> outputs.
        optimizers: By name.
        distribution: Of the actions; None for a deterministic policy.
        has_global_std: Whether the last of pi's parameters is that of the standard deviation.
    """

    functions: Mapping[str, Callable[..., Any]]
    optimizers: Mapping[str, CompiledOptimizer]
    distribution: PolicyDistribution | None
    has_global_std: bool = False


class XlaPolicy:
    """pi with some parameters."""

    def __init__(self, structure: Structure, parameters: Parameters):
        self._structure, self._parameters = structure, parameters

    @property
    def distribution(self) -> PolicyDistribution:
        assert self._structure.distribution is not None  # a deterministic policy has no density
        return self._structure.distribution

    @property
    def std_parameter(self) -> jax.Array | None:
        return self._parameters[-1] if self._structure.has_global_std else None

    def __call__(self, observations: jax.Array) -> jax.Array:
        return self._structure.functions["pi"](self._parameters, observations)

    def log_prob(self, observations: jax.Array, actions: jax.Array) -> jax.Array:
        return self.distribution.log_prob(self(observations), self.std_parameter, actions)

    def action(self, observations: jax.Array, noise: jax.Array | None) -> jax.Array:
        outputs = self(observations)
        return self.distribution.differentiable_action(outputs, self.std_parameter, noise)


class XlaNetworks:
    """The state of the networks at one point of a trace; learning replaces it.

    Args:
        structure: What the networks are.
        state: Their parameters and optimizers.
        numbers: `lr/<name>` of every function; if gradients are bounded, `grad_clip`; and `learn`:
            0 keeps everything as it is, so that one program serves the warm-up as well.
    """

    def __init__(self, structure: Structure, state: State, numbers: Mapping[str, jax.Array]):
        self.structure, self.state, self.numbers = structure, state, numbers

    def __call__(self, name: str, *inputs: jax.Array, target: bool = False) -> Any:
        return self.structure.functions[name](self._parameters(name, target), *inputs)

    def _parameters(self, name: str, target: bool = False) -> Parameters:
        vector = (self.state.targets if target else self.state.parameters)[name]
        shapes = self.structure.optimizers[name].shapes
        ends = [0, *itertools.accumulate(map(math.prod, shapes))]
        parts = zip(ends, ends[1:], shapes, strict=False)
        return [vector[start:end].reshape(shape) for start, end, shape in parts]

    def _policy(self, target: bool = False) -> XlaPolicy:
        return XlaPolicy(self.structure, self._parameters("pi", target))

    def log_prob(self, observations: jax.Array, actions: jax.Array) -> jax.Array:
        return self._policy().log_prob(observations, actions)

    def entropy(self, observations: jax.Array) -> jax.Array:
        policy = self._policy()
        return policy.distribution.entropy(policy(observations), policy.std_parameter)

    def std(self) -> jax.Array | None:
        policy = self._policy()
        return policy.distribution.std(policy.std_parameter)

    def action(
        self, observations: jax.Array, noise: jax.Array | None, target: bool = False
    ) -> jax.Array:
        return self._policy(target).action(observations, noise)

    def encode(self, actions: jax.Array, like: jax.Array) -> jax.Array:
        return self._policy().distribution.encode(actions, like)

    def gradients(self, rule: Callable[[XlaPolicy], jax.Array]) -> jax.Array:
        def numbers(parameters: Parameters) -> jax.Array:
            return rule(XlaPolicy(self.structure, parameters))

        gradients = jax.jacrev(numbers)(self._parameters("pi"))
        return jnp.concatenate([g.reshape(len(g), -1) for g in gradients], axis=1)

    def scores(self, observations: jax.Array, actions: jax.Array) -> jax.Array:
        def log_prob(
            parameters: Parameters, observation: jax.Array, action: jax.Array
        ) -> jax.Array:
            policy = XlaPolicy(self.structure, parameters)
            return policy.log_prob(observation[None], action[None])[0]

        per_row = jax.vmap(jax.grad(log_prob), in_axes=(None, 0, 0))
        gradients = per_row(self._parameters("pi"), observations, actions)
        return jnp.concatenate([g.reshape(len(observations), -1) for g in gradients], axis=1)

    def learn(self, name: str, rule: Rule) -> Any:
        function: Function = self.structure.functions[name]

        def objective(parameters: Parameters) -> tuple[jax.Array, Any]:
            if name == "pi":
                return rule(XlaPolicy(self.structure, parameters))
            return rule(partial(function, parameters))

        gradients, reported = jax.grad(objective, has_aux=True)(self._parameters(name))
        self._descend(name, jnp.concatenate([g.reshape(-1) for g in gradients]))
        return reported

    def ascend(self, name: str, direction: jax.Array) -> None:
        self._descend(name, -direction)

    def update_targets(self, rate: jax.Array) -> None:
        rate = rate * self.numbers["learn"]
        targets = {
            name: _towards(own, self.state.parameters[name], rate)
            for name, own in self.state.targets.items()
        }
        self.state = self.state._replace(targets=targets)

    def update_average(self, rate: jax.Array) -> None:
        rate = rate * self.numbers["learn"]
        averages = {
            name: _towards(own, self.state.parameters[name], rate)
            for name, own in self.state.averages.items()
        }
        self.state = self.state._replace(averages=averages)

    def choose(self, condition: jax.Array, yes: Any, no: Any) -> Any:
        return jax.tree.map(partial(jnp.where, condition), yes, no)

    def when(self, condition: jax.Array, action: Callable[[], Any]) -> Any:
        before = self.state

        def act(state: State) -> tuple[State, Any]:
            self.state = state
            result = action()
            return self.state, result

        result_like = jax.eval_shape(act, before)[1]
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), result_like)
        self.state, result = lax.cond(condition, act, lambda state: (state, nothing), before)
        return result

    def _descend(self, name: str, gradient: jax.Array) -> None:
        state = self.state
        numbers = {"lr": self.numbers[f"lr/{name}"], "grad_clip": self.numbers.get("grad_clip")}
        before = state.parameters[name], state.slots[name]
        after = self.structure.optimizers[name].step(before[0], gradient, before[1], numbers)
        learn = self.numbers["learn"] > 0
        moved, slots = jax.tree.map(partial(jnp.where, learn), after, before)
        self.state = state._replace(
            parameters={**state.parameters, name: moved}, slots={**state.slots, name: slots}
        )


def _towards(copied: jax.Array, source: jax.Array, rate: jax.Array) -> jax.Array:
    """A part of the way; exactly as it is for a rate of 0, exactly the source for 1."""
    moved = jnp.where(rate == 1, source, copied + rate * (source - copied))
    return jnp.where(rate == 0, copied, moved)
