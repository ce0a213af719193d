"""RMSProp, plain gradient descent and Adam with norm clipping on flat networks, as in torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import nn

from rllib_geoffpac.kernels.flat_networks import FlatNetworks

# torch.optim.RMSprop's defaults.
ALPHA = 0.99
EPSILON = 1e-8
# torch.nn.utils.clip_grad_norm_ adds it to the norm.
NORM_EPSILON = 1e-6


def clip_norm(gradient: torch.Tensor, array: np.ndarray, max_norm: float) -> None:
    """Scales a vector down to a norm, in place; `array` is the same memory for numpy."""
    norm = math.sqrt(array.dot(array))
    if norm + NORM_EPSILON > max_norm:
        gradient.mul_(max_norm / (norm + NORM_EPSILON))


class FlatOptimizer:
    """Descends `gradient` [K, P] for K networks, each clipped by its own norm.

    RMSProp: v <- 0.99 v + 0.01 g^2, x <- x - lr g / (sqrt(v) + 1e-8).

    Args:
        networks: The networks whose values change.
        learning_rates: One for each of the K networks.
        grad_clip: Largest norm of a network's gradient, None for no clipping.
        kind: "rmsprop" or "sgd".
    """

    def __init__(
        self,
        networks: FlatNetworks,
        learning_rates: Sequence[float],
        grad_clip: float | None,
        kind: str = "rmsprop",
    ):
        self.networks, self.grad_clip, self.kind = networks, grad_clip, kind
        self.gradient = torch.zeros_like(networks.values)
        self.square_average = torch.zeros_like(networks.values)
        self.num_steps = 0
        self._root = torch.zeros_like(networks.values)
        self._square_average_array, self._root_array = (
            a.numpy() for a in (self.square_average, self._root)
        )
        self._rows = [(row, row.numpy()) for row in self.gradient]
        # One call serves all networks that share a learning rate.
        values, gradient, root = networks.values, self.gradient, self._root
        self._groups = [(values, gradient, root, -learning_rates[0])]
        if len(set(learning_rates)) > 1:
            self._groups = [
                (values[k], gradient[k], root[k], -lr) for k, lr in enumerate(learning_rates)
            ]

    def step(self) -> None:
        """Clips the gradient in place and takes one step."""
        if self.grad_clip is not None:
            for row, array in self._rows:
                clip_norm(row, array, self.grad_clip)
        self.num_steps += 1
        if self.kind == "sgd":
            for values, gradient, _, step_size in self._groups:
                values.add_(gradient, alpha=step_size)
            return
        # numpy where a number is involved: torch takes longer to wrap it than to use it.
        np.multiply(self._square_average_array, ALPHA, out=self._square_average_array)
        self.square_average.addcmul_(self.gradient, self.gradient, value=1 - ALPHA)
        torch.sqrt(self.square_average, out=self._root)
        np.add(self._root_array, EPSILON, out=self._root_array)
        for values, gradient, root, step_size in self._groups:
            values.addcdiv_(gradient, root, value=step_size)

    def load(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Takes over the state of K torch optimizers, one for each network."""
        self.num_steps = 0
        for optimizer, parameters, row in self._each(optimizers):
            for parameter, view in zip(parameters, self.networks.views(row), strict=True):
                state = optimizer.state.get(parameter, {})
                view.copy_(state["square_avg"]) if "square_avg" in state else view.zero_()
                self.num_steps = int(state.get("step", self.num_steps))

    def store(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Writes the state into K torch.optim.RMSprop, so that their state_dict() is current."""
        if self.kind == "sgd" or not self.num_steps:
            return
        for optimizer, parameters, row in self._each(optimizers):
            for parameter, view in zip(parameters, self.networks.views(row), strict=True):
                optimizer.state[parameter] = {
                    "step": torch.tensor(float(self.num_steps)),
                    "square_avg": view.contiguous().clone(),
                }

    def _each(self, optimizers):
        return zip(optimizers, self.networks.parameters, self.square_average, strict=True)


class FlatAdam:
    """Descends `gradient` [K, P] with torch's Adam; one norm, of all K networks, is clipped.

    Args:
        networks: The networks whose values change.
        learning_rate: Of all of them.
        weight_decay: This times the parameter is added to the clipped gradient.
        grad_clip: Largest norm of the gradient, None for no clipping.
    """

    def __init__(
        self,
        networks: FlatNetworks,
        learning_rate: float,
        weight_decay: float,
        grad_clip: float | None,
    ):
        self.networks, self.grad_clip = networks, grad_clip
        self.gradient = torch.zeros_like(networks.values)
        self.moments = {
            name: torch.zeros_like(networks.values) for name in ("exp_avg", "exp_avg_sq")
        }
        self.num_steps = torch.zeros(())
        self._flat_gradient = self.gradient.view(-1)
        self._gradient_array = self._flat_gradient.numpy()
        self._arrays = [[networks.values], [self.gradient], *([m] for m in self.moments.values())]
        # torch.optim.Adam's defaults.
        self._numbers = {
            "lr": learning_rate,
            "weight_decay": weight_decay,
            "beta1": 0.9,
            "beta2": 0.999,
            "eps": 1e-8,
            "amsgrad": False,
            "maximize": False,
        }

    def step(self) -> None:
        """Clips the gradient in place and takes one step."""
        if self.grad_clip is not None:
            clip_norm(self._flat_gradient, self._gradient_array, self.grad_clip)
        self.num_steps += 1
        torch._fused_adam_(*self._arrays, [], [self.num_steps], **self._numbers)

    def load(self, optimizer: torch.optim.Optimizer) -> None:
        """Takes over the state of a torch.optim.Adam of all K networks."""
        self.num_steps.zero_()
        for parameter, views in self._each():
            state = optimizer.state.get(parameter, {})
            for name, view in views.items():
                view.copy_(state[name]) if state else view.zero_()
            self.num_steps.fill_(float(state.get("step", self.num_steps)))

    def store(self, optimizer: torch.optim.Optimizer) -> None:
        """Writes the state into a torch.optim.Adam, so that its state_dict() is current."""
        if not self.num_steps:
            return
        for parameter, views in self._each():
            moments = {name: view.contiguous().clone() for name, view in views.items()}
            optimizer.state[parameter] = {"step": self.num_steps.clone(), **moments}

    def _each(self) -> Iterator[tuple[nn.Parameter, dict[str, torch.Tensor]]]:
        """Every parameter with the views of its two moments."""
        for k, parameters in enumerate(self.networks.parameters):
            rows = {name: self.networks.views(m[k]) for name, m in self.moments.items()}
            for i, parameter in enumerate(parameters):
                yield parameter, {name: views[i] for name, views in rows.items()}
