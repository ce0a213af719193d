"""What an update asks of the networks; the backends answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rllib_geoffpac.maths.arrays import Array

Function = Callable[..., Array]
"""A learned function of observations (and, for action values, actions)."""

Rule = Callable[[Any], tuple[Array, Any]]
"""Takes the function that learns, for pi a `Policy`; returns what to descend, what to report."""


class Policy(Protocol):
    """pi as the rule sees it by which it learns: what it says is differentiated."""

    @property
    def std_parameter(self) -> Array | None:
        """Of the state-independent standard deviation, if there is one."""
        ...

    def __call__(self, observations: Array) -> Array:
        """The outputs [N, k], which `PolicyDistribution` knows to read."""
        ...

    def log_prob(self, observations: Array, actions: Array) -> Array:
        """log pi(A|S): [N, ...], [N, ...] -> [N]."""
        ...

    def action(self, observations: Array, noise: Array | None) -> Array:
        """a of pi(.|S) as action values see it: `PolicyDistribution.differentiable_action`."""
        ...


class Networks(Protocol):
    """Policy and learned functions by name, with their target copies and optimizers.

    A name is that of the module's attribute, of the optimizer, and of the learned function:
    "pi", "v", "c", "q". Nothing here is differentiated but what `learn` learns.
    """

    def __call__(self, name: str, *inputs: Array, target: bool = False) -> Array:
        """What a function says: [N, ...] -> [N] (pi: its outputs, q: one [N] per critic)."""
        ...

    def log_prob(self, observations: Array, actions: Array) -> Array:
        """log pi(A|S): [N, ...], [N, ...] -> [N]."""
        ...

    def entropy(self, observations: Array) -> Array:
        """Entropy of pi(.|S): [N, ...] -> [N]."""
        ...

    def std(self) -> Array | None:
        """The policy's state-independent standard deviation [d] in the unit box, if it has one."""
        ...

    def action(self, observations: Array, noise: Array | None, target: bool = False) -> Array:
        """a of pi(.|S), or of its target copy, as action values see it: -> [N, k]."""
        ...

    def encode(self, actions: Array, like: Array) -> Array:
        """Actions [N, ...] as action values see them [N, k]; `like` gives the dtype."""
        ...

    def gradients(self, rule: Callable[[Policy], Array]) -> Array:
        """The gradient of each of N numbers that a rule gives in pi's parameters: [N, P]."""
        ...

    def scores(self, observations: Array, actions: Array) -> Array:
        """grad log pi(A|S) of each: [N, ...], [N, ...] -> [N, P], P parameters of the policy."""
        ...

    def learn(self, name: str, rule: Rule) -> Any:
        """One optimizer step of a function down its rule; returns what the rule reports.

        The rule gets a function of that name, for "pi" a `Policy`.
        """
        ...

    def ascend(self, name: str, direction: Array) -> None:
        """One optimizer step of a function's parameters along `direction` [P]."""
        ...

    def update_targets(self, rate: Array) -> None:
        """theta' <- theta' + rate (theta - theta') for all target copies; 0: nothing, 1: copy."""
        ...

    def update_average(self, rate: Array) -> None:
        """theta_bar <- theta_bar + rate (theta - theta_bar) for the average of pi's weights."""
        ...

    def choose(self, condition: Array, yes: Any, no: Any) -> Any:
        """`yes` if `condition` holds, else `no`: two structures of arrays of the same shapes."""
        ...

    def when(self, condition: Array, action: Callable[[], Any]) -> Any:
        """Does `action` if `condition` holds; returns its result, or the like in zeros."""
        ...
