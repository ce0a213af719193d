"""The default networks without torch: layers as data, applied to arrays of any library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from torch import nn

from rllib_geoffpac.maths.arrays import Array, namespace, one_hot
from rllib_geoffpac.modules.action_value import ActionValue
from rllib_geoffpac.modules.deterministic_actor_critic import Critic
from rllib_geoffpac.modules.networks import Image, OneHot
from rllib_geoffpac.modules.tabular import Table


class Layer(NamedTuple):
    """One layer: what it does, how many parameters it takes, and the whole numbers it needs."""

    kind: str
    num_parameters: int = 0
    start: int = 0
    size: int = 0


class UnknownLayer(ValueError):
    """A network holds something that has no plain form."""


def layers_of(network: nn.Module) -> tuple[Layer, ...]:
    """The layers of a network, whose parameters are in the order of `network.parameters()`.

    Raises:
        UnknownLayer: naming what has no plain form.
    """
    return tuple(_layers_of(network))


def _layers_of(network: nn.Module) -> Iterator[Layer]:
    kind = type(network)
    if isinstance(network, nn.Sequential) and kind is nn.Sequential:
        for part in network:
            yield from _layers_of(part)
    elif kind is nn.Linear and network.bias is not None:
        yield Layer("linear", 2)
    elif kind is nn.ReLU:
        yield Layer("relu")
    elif kind is nn.Tanh:
        yield Layer("tanh")
    elif isinstance(network, OneHot) and kind is OneHot:
        yield Layer("one_hot", start=network.start, size=network.n)
    elif isinstance(network, Table) and kind is Table:
        yield Layer("table", 1, start=network.start)
    elif isinstance(network, ActionValue) and kind is ActionValue:
        yield from _layers_of(network.features)
        if network.joins_action:
            yield Layer("join_action")
        yield from _layers_of(network.network)
        if not network.joins_action:
            yield Layer("weigh_actions")
    elif isinstance(network, Critic) and kind is Critic:
        yield from _layers_of(network.encoder)
        last = len(network.layers) - 1
        for k in range(last + 1):
            if k == network.action_layer:
                yield Layer("join_action")
            yield Layer("linear", 2)
            if k < last:
                yield from _layers_of(network.activation)
    elif kind is Image:
        raise UnknownLayer("it has no convolutions")
    elif kind is not nn.Identity:
        raise UnknownLayer(f"a {kind.__name__} is none of its layers")


def apply(
    layers: Sequence[Layer], parameters: Sequence[Array], inputs: Array, actions: Any = None
) -> Array:
    """Outputs [N, k] of a network for inputs [N, ...] (and actions [N, d], where it joins them)."""
    xp, x, rest = namespace(parameters[0]), inputs, iter(parameters)
    for layer in layers:
        own = [next(rest) for _ in range(layer.num_parameters)]
        if layer.kind == "linear":
            x = x @ own[0].T + own[1]
        elif layer.kind == "relu":
            x = xp.where(x > 0, x, xp.zeros_like(x))  # with the derivative 0 at 0, as torch
        elif layer.kind == "tanh":
            x = xp.tanh(x)
        elif layer.kind == "one_hot":
            x = one_hot(x - layer.start, layer.size, parameters[0])
        elif layer.kind == "table":
            x = own[0][x - layer.start]
        elif layer.kind == "join_action":
            x = xp.concatenate([x, actions], -1)
        elif layer.kind == "weigh_actions":
            x = (x * actions).sum(-1)[..., None]
        else:
            raise ValueError(f"The layer {layer.kind!r} is not known.")
    return x
