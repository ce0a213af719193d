"""The optimizers that every algorithm can have, by their config word."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from ray.rllib.core.rl_module.torch import TorchRLModule

# Fused: less than half the time of torch's other Adams.
_CLASSES: dict[str, tuple[Callable[..., torch.optim.Optimizer], dict[str, Any]]] = {
    "rmsprop": (torch.optim.RMSprop, {}),
    "sgd": (torch.optim.SGD, {}),
    "adam": (torch.optim.Adam, {"fused": True}),
}

OPTIMIZER_TYPES = tuple(_CLASSES)
"""The words that `optimizer_type` can be."""


def optimizers_by_function(
    module: TorchRLModule, functions: Sequence[str], registered: Mapping[str, torch.optim.Optimizer]
) -> dict[str, torch.optim.Optimizer]:
    """The optimizer that steps each function's parameters; several may share one.

    Raises:
        ValueError: If no optimizer has all parameters of a function.
    """
    found = {}
    for function in functions:
        needed = {id(parameter) for parameter in module.parameters_of(function)}
        for optimizer in registered.values():
            held = {id(p) for group in optimizer.param_groups for p in group["params"]}
            if needed <= held:
                found[function] = optimizer
                break
        else:
            raise ValueError(
                f"`configure_optimizers_for_module` registers no optimizer for the parameters of "
                f"{function}: give `register_optimizer` one that has `module.parameters_of"
                f"({function!r})`, or one for all parameters."
            )
    return found


def make_optimizer(
    optimizer_type: str, parameters: Sequence[nn.Parameter], lr: float, weight_decay: float = 0.0
) -> torch.optim.Optimizer:
    """A torch optimizer of some parameters.

    Args:
        optimizer_type: One of `OPTIMIZER_TYPES`.
        parameters: What it steps.
        lr: The learning rate.
        weight_decay: Adds so much times the parameter to its gradient.
    """
    optimizer_class, options = _CLASSES[optimizer_type]
    return optimizer_class(parameters, lr=lr, weight_decay=weight_decay, **options)
