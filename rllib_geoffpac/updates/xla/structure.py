"""From the default torch modules to functions that can be traced; and what can't be."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from rllib_geoffpac.maths.arrays import Array, softplus
from rllib_geoffpac.modules.actor_critic import EmphaticRLModule
from rllib_geoffpac.modules.plain import Layer, apply, layers_of
from rllib_geoffpac.updates.xla.networks import Structure
from rllib_geoffpac.updates.xla.optimizers import CompiledOptimizer

if TYPE_CHECKING:
    from ray.rllib.core.rl_module.torch import TorchRLModule


def structure_of(
    module: TorchRLModule,
    optimizers: dict[str, torch.optim.Optimizer],
    grad_clip: float | None,
    grad_clip_by: str = "global_norm",
) -> Structure:
    """What the networks of a default module are.

    Args:
        module: An MLP, tabular or deterministic module of this package.
        optimizers: By the names of the functions.
        grad_clip: Bound of each function's gradient; None: no bound.
        grad_clip_by: What it bounds, see `Descent`.
    """
    compiled = {n: CompiledOptimizer(o, grad_clip, grad_clip_by) for n, o in optimizers.items()}
    if isinstance(module, EmphaticRLModule):
        functions: dict[str, Callable[..., Any]] = {"pi": partial(_outputs, layers_of(module.pi))}
        for function in module.learned_functions:
            network = getattr(module, function.name)
            if function.of_actions:
                critics = [layers_of(critic) for critic in network]
                functions[function.name] = partial(_action_values, critics)
                continue
            positive = function.positive and module.softplus_outputs
            functions[function.name] = partial(_number, layers_of(network), positive)
        distribution = module.distribution
        return Structure(functions, compiled, distribution, distribution.has_global_std)
    first = layers_of(module.features)
    critics = [(*first, *layers_of(critic)) for critic in module.q]
    functions = {
        "pi": partial(_outputs, (*first, *layers_of(module.pi))),
        "q": partial(_action_values, critics),
    }
    return Structure(functions, compiled, None)


def target_parameters(module: TorchRLModule) -> dict[str, list[torch.nn.Parameter]]:
    """The parameters of the target copies, by function."""
    return {name: module.parameters_of(name, target=True) for name in module.target_names}


def average_parameters(module: TorchRLModule) -> dict[str, list[torch.nn.Parameter]]:
    """The parameters of averages over time, by function."""
    own = module.average_parameters()
    return {"pi": own} if own else {}


def _outputs(layers: tuple[Layer, ...], parameters: list[Array], observations: Array) -> Array:
    return apply(layers, parameters, observations)


def _number(
    layers: tuple[Layer, ...], positive: bool, parameters: list[Array], observations: Array
) -> Array:
    output = apply(layers, parameters, observations)[..., 0]
    return softplus(output) if positive else output


def _action_values(
    critics: list[tuple[Layer, ...]], parameters: list[Array], observations: Array, actions: Array
) -> list[Array]:
    values, offset = [], 0
    for layers in critics:
        count = sum(layer.num_parameters for layer in layers)
        own = parameters[offset : offset + count]
        values.append(apply(layers, own, observations, actions)[..., 0])
        offset += count
    return values
