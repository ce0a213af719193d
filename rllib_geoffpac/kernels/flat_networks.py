"""The memory layout of the kernel: the parameters of networks of equal shape in one array."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


class FlatNetworks:
    """K multilayer perceptrons of equal shape in one array [K, P], shared with torch.

    Every layer is a block [in + 1, out], the transposed weight above the bias: a layer is the
    single product [x, 1] @ block, and its gradient the single product [x, 1]^T @ dy. Blocks follow
    each other in the order of torch's parameters; a `tail` (the policy's std parameter) can follow
    the last one. The torch parameters become views of the array, so both sides see every change,
    also one made by `load_state_dict`, which copies in place.

    Args:
        networks: For each of the K networks its parameters [weight, bias, weight, bias, ...] and,
            if their number is odd, a last vector, the tail.
    """

    def __init__(self, networks: Sequence[Sequence[nn.Parameter]]):
        first = networks[0]
        weights = [p for p in first if p.ndim == 2]
        if [p.ndim for p in first] != [2, 1] * len(weights) + [1] * (len(first) % 2):
            raise ValueError(
                "The kernel needs networks of Linear layers with biases, got parameters of shapes "
                f"{[tuple(p.shape) for p in first]}."
            )
        self.shapes = [(w.shape[1] + 1, w.shape[0]) for w in weights]
        self.tail_size = first[-1].numel() if len(first) % 2 else 0
        self.size = sum(p.numel() for p in first)
        self.parameters = [list(network) for network in networks]
        self.values = first[0].new_zeros(len(networks), self.size)
        self.adopt()

    def adopt(self) -> None:
        """Copies the torch parameters into the array and makes them views of it."""
        with torch.no_grad():
            for parameters, row in zip(self.parameters, self.values, strict=True):
                for parameter, view in zip(parameters, self.views(row), strict=True):
                    view.copy_(parameter)
                    parameter.data = view

    def is_attached(self) -> bool:
        """Whether all torch parameters still are views of the array."""
        return all(
            parameter.data_ptr() == view.data_ptr() and parameter.stride() == view.stride()
            for parameters, row in zip(self.parameters, self.values, strict=True)
            for parameter, view in zip(parameters, self.views(row), strict=True)
        )

    def blocks(self, array: torch.Tensor) -> list[torch.Tensor]:
        """The layers' blocks [..., in + 1, out] as views of `array` [..., P]."""
        blocks, start = [], 0
        for rows, columns in self.shapes:
            part = array[..., start : start + rows * columns]
            blocks.append(part.unflatten(-1, (rows, columns)))
            start += rows * columns
        return blocks

    def tail(self, array: torch.Tensor) -> torch.Tensor:
        """The last entries of `array` [..., P], [..., tail_size], as a view."""
        return array[..., self.size - self.tail_size :]

    def views(self, array: torch.Tensor) -> list[torch.Tensor]:
        """`array` [..., P] as views [..., *shape] in the order and shapes of torch's parameters."""
        views = []
        for block in self.blocks(array):
            views += [block[..., :-1, :].transpose(-1, -2), block[..., -1, :]]
        return views + ([self.tail(array)] if self.tail_size else [])

    def to_torch_order(self, array: torch.Tensor) -> torch.Tensor:
        """A copy of `array` [..., P] in the order of torch's flattened parameters."""
        dimensions = array.ndim - 1
        return torch.cat([view.flatten(dimensions) for view in self.views(array)], dim=-1)

    def from_torch_order(self, array: torch.Tensor) -> torch.Tensor:
        """The inverse of `to_torch_order`."""
        result = torch.empty_like(array)
        start = 0
        for view in self.views(result):
            size = view[(0,) * (array.ndim - 1)].numel()
            view.copy_(array[..., start : start + size].reshape(view.shape))
            start += size
        return result
