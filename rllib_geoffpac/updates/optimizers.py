"""The optimizers that every algorithm can have, by their config word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

# Fused: less than half the time of torch's other Adams.
_CLASSES: dict[str, tuple[Callable[..., torch.optim.Optimizer], dict[str, Any]]] = {
    "rmsprop": (torch.optim.RMSprop, {}),
    "sgd": (torch.optim.SGD, {}),
    "adam": (torch.optim.Adam, {"fused": True}),
}

OPTIMIZER_TYPES = tuple(_CLASSES)
"""The words that `optimizer_type` can be."""


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
