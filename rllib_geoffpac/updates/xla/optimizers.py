"""torch's optimizers as pure functions, and their state to and fro."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from rllib_geoffpac.maths.arrays import Array, namespace
from rllib_geoffpac.maths.optimizers import adam_step, clip_by_norm, rmsprop_step, sgd_step


class Slots(NamedTuple):
    """What an optimizer remembers.

    Attributes:
        step: How many steps it has made, a scalar.
        of: [P] by torch's names.
    """

    step: Array
    of: dict[str, Array]


class _Kind(NamedTuple):
    step: Callable[..., tuple[Array, dict[str, Array]]]
    slots: tuple[str, ...]
    numbers: Callable[[Mapping[str, Any]], dict[str, float]]
    unused: dict[str, Any]  # options of torch's that must be as they are here


_KINDS = {
    torch.optim.SGD: _Kind(
        sgd_step, (), lambda group: {}, {"momentum": 0, "nesterov": False, "maximize": False}
    ),
    torch.optim.RMSprop: _Kind(
        rmsprop_step,
        ("square_avg",),
        lambda group: {"alpha": group["alpha"], "eps": group["eps"]},
        {"momentum": 0, "centered": False, "maximize": False},
    ),
    torch.optim.Adam: _Kind(
        adam_step,
        ("exp_avg", "exp_avg_sq"),
        lambda group: {
            "beta_1": group["betas"][0],
            "beta_2": group["betas"][1],
            "eps": group["eps"],
        },
        {"amsgrad": False, "maximize": False, "decoupled_weight_decay": False},
    ),
}


def why_not(
    optimizer: torch.optim.Optimizer, parameters: Sequence[torch.nn.Parameter]
) -> str | None:
    """Why an optimizer of a function's parameters can't be compiled; None if it can."""
    kind = _KINDS.get(type(optimizer))
    if kind is None:
        return f"the optimizer is a {type(optimizer).__name__}"
    if len(optimizer.param_groups) != 1:
        return f"the optimizer has {len(optimizer.param_groups)} groups of parameters"
    (group,) = optimizer.param_groups
    if [id(p) for p in group["params"]] != [id(p) for p in parameters]:
        return "the optimizer has other parameters than those of its function"
    for option, value in kind.unused.items():
        if group.get(option, value) != value:
            return f"the optimizer has {option}={group[option]!r}"
    return None


class CompiledOptimizer:
    """The steps of a torch optimizer, of which it keeps numbers alone, not the optimizer.

    Args:
        optimizer: One for which `why_not` is None.
        grad_clip: Bound of the gradient; None: no bound.
        grad_clip_by: What it bounds, see `Descent`.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        grad_clip: float | None,
        grad_clip_by: str = "global_norm",
    ):
        (group,) = optimizer.param_groups
        self._kind = type(optimizer)
        self._constants = _KINDS[self._kind].numbers(group)
        self._decay = group["weight_decay"]
        self._clips, self._clip_by = grad_clip is not None, grad_clip_by
        self.shapes = [tuple(p.shape) for p in group["params"]]

    def step(
        self, parameters: Array, gradient: Array, slots: Slots, numbers: Mapping[str, Array]
    ) -> tuple[Array, Slots]:
        """Descends; `numbers` has `lr` and, if the gradient is bounded, `grad_clip`."""
        if self._clips:
            gradient = self._clip(gradient, numbers["grad_clip"])
        if self._decay:
            gradient = gradient + self._decay * parameters
        step = slots.step + 1
        numbers = {**self._constants, "lr": numbers["lr"], "step": step}
        moved, remembered = _KINDS[self._kind].step(parameters, gradient, slots.of, numbers)
        return moved, Slots(step, remembered)

    def _clip(self, gradient: Array, bound: Array) -> Array:
        if self._clip_by == "value":
            return gradient.clip(-bound, bound)
        if self._clip_by == "global_norm":
            return clip_by_norm(gradient, bound)
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        parts = zip([0, *ends], ends, strict=False)
        clipped = [clip_by_norm(gradient[start:end], bound) for start, end in parts]
        return namespace(gradient).concatenate(clipped)


class OptimizerState:
    """A torch optimizer's parameters, learning rate and state, to and fro.

    Args:
        optimizer: One for which `why_not` is None.
    """

    def __init__(self, optimizer: torch.optim.Optimizer):
        self._optimizer = optimizer
        self._slots = _KINDS[type(optimizer)].slots
        self.parameters: list[torch.nn.Parameter] = optimizer.param_groups[0]["params"]

    @property
    def learning_rate(self) -> float:
        """The rate that the torch optimizer has now."""
        return float(self._optimizer.param_groups[0]["lr"])

    def get(self, dtype: np.dtype) -> Slots:
        """The torch optimizer's state, as numpy arrays."""
        states = [self._optimizer.state.get(p, {}) for p in self.parameters]
        step = float(states[0].get("step", 0.0))
        pairs = list(zip(states, self.parameters, strict=True))
        of = {
            name: flat([state.get(name, torch.zeros_like(p)) for state, p in pairs])
            for name in self._slots
        }
        return Slots(np.asarray(step, dtype), of)

    def set(self, slots: Slots) -> None:
        """Writes numpy arrays into the torch optimizer's state."""
        if not self._slots or not slots.step:
            return
        for parameter in self.parameters:
            self._optimizer.state[parameter]["step"] = torch.tensor(float(slots.step))
        for name, values in slots.of.items():
            for parameter, own in zip(self.parameters, split(values, self.parameters), strict=True):
                self._optimizer.state[parameter][name] = torch.tensor(own)


def flat(tensors: Sequence[torch.Tensor]) -> np.ndarray:
    """All entries of some tensors, one after the other: [P]."""
    return np.concatenate([t.detach().numpy().reshape(-1) for t in tensors])


def split(values: np.ndarray, like: Sequence[torch.Tensor]) -> list[np.ndarray]:
    """The parts of a vector [P] in the shapes of some tensors."""
    ends = np.cumsum([t.numel() for t in like])
    parts = np.split(np.asarray(values), ends[:-1])
    return [part.reshape(tuple(t.shape)) for part, t in zip(parts, like, strict=True)]
