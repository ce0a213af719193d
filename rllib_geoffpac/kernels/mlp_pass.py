"""Forward and backward passes of small ReLU networks through preallocated buffers.

At these sizes (100 rows, 64 units) a matrix product takes 6 microseconds and a call into torch 1:
what counts is the number of calls and that nothing is allocated. So all buffers, views and
arguments are made once, several networks share each element-wise call, and the bias is part of
the product (see `FlatNetworks`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

Blocks = Sequence[torch.Tensor]


def with_ones(rows: int, columns: int, dtype: torch.dtype, *leading: int) -> torch.Tensor:
    """Zeros [*leading, rows, columns + 1] with a last column of ones, for the biases."""
    array = torch.zeros(*leading, rows, columns + 1, dtype=dtype)
    array[..., -1] = 1
    return array


def load_observations(
    inputs: np.ndarray, observations: np.ndarray, first_state: int | None
) -> None:
    """Writes observations [N, ...] into inputs [N, in]; numbers of states as one-hot rows.

    Args:
        inputs: Is overwritten.
        observations: Vectors of any shape, or numbers of states.
        first_state: The first state's number; None for vectors.
    """
    if first_state is None:
        inputs[...] = observations.reshape(inputs.shape)
    else:
        inputs[...] = 0
        inputs[np.arange(len(inputs)), observations - first_state] = 1


class MLPPass:
    """K networks with equal hidden sizes on N rows each.

    A layer can take more than the layer below gives: its further inputs are the columns between
    those and the ones, which the caller writes into `hidden`.

    Args:
        networks: Of each network the layers' blocks [in + 1, out].
        inputs: Of each network its input [N, in + 1], the last column 1.

    Attributes:
        outputs: Of each network its output [N, out]. `forward` overwrites them.
        hidden: Of each hidden layer what goes into the next, [K, N, in + 1]: its activations,
            the further inputs if any, and a last column of ones.
    """

    def __init__(self, networks: Sequence[Blocks], inputs: Sequence[torch.Tensor]):
        rows, dtype = inputs[0].shape[0], inputs[0].dtype
        count, depth = len(networks), len(networks[0])
        widths = [block.shape[1] for block in networks[0]]
        self.networks, self.inputs = networks, inputs
        self.hidden = [with_ones(rows, b.shape[0] - 1, dtype, count) for b in networks[0][1:]]
        # The column of ones stays as it is, and rows stay contiguous; further inputs may not.
        self._rectified = [
            hidden if hidden.shape[-1] == width + 1 else hidden[..., :width]
            for width, hidden in zip(widths, self.hidden, strict=False)
        ]
        self.outputs = [torch.zeros(rows, n[-1].shape[1], dtype=dtype) for n in networks]
        self._products = [
            [
                (
                    inputs[k] if layer == 0 else self.hidden[layer - 1][k],
                    networks[k][layer],
                    self.outputs[k] if layer == depth - 1 else self.hidden[layer][k, :, :width],
                )
                for k in range(count)
            ]
            for layer, width in enumerate(widths)
        ]

    def forward(self) -> None:
        """Computes hidden activations and outputs."""
        for products, rectified in zip(self._products, self._rectified, strict=False):
            for x, block, y in products:
                torch.mm(x, block, out=y)
            rectified.relu_()
        for x, block, y in self._products[-1]:
            torch.mm(x, block, out=y)


class TrainablePass(MLPPass):
    """An `MLPPass` with a backward pass.

    Args:
        networks: As in `MLPPass`.
        inputs: As in `MLPPass`.
        gradients: Of each network the blocks that `backward` overwrites with the gradient.

    Attributes:
        output_gradients: [K, N, out], the loss's derivative by the outputs, set by the caller.
    """

    def __init__(
        self,
        networks: Sequence[Blocks],
        inputs: Sequence[torch.Tensor],
        gradients: Sequence[Blocks],
    ):
        super().__init__(networks, inputs)
        rows, dtype = inputs[0].shape[0], inputs[0].dtype
        num_outputs = networks[0][-1].shape[1]
        self.output_gradients = torch.zeros(len(networks), rows, num_outputs, dtype=dtype)
        self._masks = [torch.zeros_like(hidden) for hidden in self.hidden]
        self._deltas = [torch.zeros_like(hidden) for hidden in self.hidden]
        self._backward_products = []
        for layer in range(len(networks[0]) - 1, -1, -1):
            self._backward_products.append([])
            for k, blocks in enumerate(networks):
                last = layer == len(blocks) - 1
                # The column of ones gets a derivative too, and further inputs a wrong one; they
                # are computed (rows stay contiguous for the mask) and left out here.
                width = blocks[layer].shape[1]
                delta = self.output_gradients[k] if last else self._deltas[layer][k, :, :width]
                x = inputs[k] if layer == 0 else self.hidden[layer - 1][k]
                below = None if layer == 0 else self._deltas[layer - 1][k]
                self._backward_products[-1].append(
                    (x.t(), delta, gradients[k][layer], blocks[layer].t(), below)
                )

    def backward(self) -> None:
        """Computes the gradients of the last `forward` from `output_gradients`."""
        layer = len(self.hidden)
        for products in self._backward_products:
            layer -= 1
            for x_transposed, delta, gradient, block_transposed, below in products:
                torch.mm(x_transposed, delta, out=gradient)
                if below is not None:
                    torch.mm(delta, block_transposed, out=below)
            if layer >= 0:
                mask = torch.sign(self.hidden[layer], out=self._masks[layer])
                self._deltas[layer].mul_(mask)


class ScorePass:
    """Backward pass of the policy for L lanes: a sum over lanes, and every lane's own gradient.

    Both are linear in grad log pi, so one pass over 2L rows serves them: rows of the first half are
    weighted for the sum, those of the second half for the lanes' own gradients.

    Args:
        blocks: The policy's blocks.
        activations: Of each layer its input [L, in + 1], the last column 1.
        summed: Blocks [in + 1, out] for the sum over lanes of weight * grad log pi.
        by_lane: Blocks [L, in + 1, out] for weight * grad log pi of every lane; None leaves the
            second half out.

    Attributes:
        output_gradients: [2, L, out] ([1, L, out] without `by_lane`), set by the caller:
            weight * d log pi / d outputs.
    """

    def __init__(
        self,
        blocks: Blocks,
        activations: Sequence[torch.Tensor],
        summed: Blocks,
        by_lane: Blocks | None,
    ):
        lanes, dtype = activations[0].shape[0], activations[0].dtype
        halves = 1 if by_lane is None else 2
        self.output_gradients = torch.zeros(halves, lanes, blocks[-1].shape[1], dtype=dtype)
        delta = self.output_gradients.view(halves * lanes, -1)
        self._sums, self._outer_products, self._steps_down = [], [], []
        for layer in range(len(blocks) - 1, -1, -1):
            x = activations[layer]
            self._sums.append((x.t(), delta[:lanes], summed[layer]))
            if by_lane is not None:
                self._outer_products.append((x[:, :, None], delta[lanes:, None, :], by_lane[layer]))
            if layer:
                below = torch.zeros(halves * lanes, x.shape[1], dtype=dtype)
                halves_below, mask = below.view(halves, lanes, -1), torch.zeros_like(x)
                self._steps_down.append((delta, blocks[layer].t(), below, halves_below, x, mask))
                delta = below[:, :-1]

    def backward(self) -> None:
        """Overwrites `summed` and `by_lane` from `output_gradients`."""
        for delta, block_transposed, below, halves_below, x, mask in self._steps_down:
            torch.mm(delta, block_transposed, out=below)
            halves_below.mul_(torch.sign(x, out=mask))
        for x_transposed, delta, gradient in self._sums:
            torch.mm(x_transposed, delta, out=gradient)
        for x, delta, gradient in self._outer_products:
            torch.mul(x, delta, out=gradient)
