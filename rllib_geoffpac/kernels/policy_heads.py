"""Log-densities and scores of the target policies in closed form.

A head stands for one distribution of `rllib_geoffpac.maths.distributions` on fixed buffers: outputs
[N, num_outputs] of the policy's network and the actions taken. `log_prob` serves all N rows,
`score` the first L of them (the lanes) and must follow a `log_prob` for the same outputs.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from rllib_geoffpac.maths.distributions import (
    LOG_SQRT_2PI,
    MIN_TRUNCATED_MASS,
    MIN_TRUNCATED_STD,
    Categorical,
    DiagonalGaussian,
    PolicyDistribution,
    TruncatedGaussian,
)


class GaussianHead:
    """The Gaussian: with m = tanh(y), s = softplus(p) and z = (a - m) / s in the unit box,

    d log pi / dy = z / s (1 - m^2) and d log pi / dp = (z^2 - 1) / s sigmoid(p).
    """

    min_std = 0.0

    def __init__(
        self,
        distribution: DiagonalGaussian,
        outputs: torch.Tensor,
        std_parameter: torch.Tensor,
        lanes: int,
    ):
        rows, size = outputs.shape
        self.outputs, self.p, self.lanes = outputs.numpy(), std_parameter.numpy(), lanes
        dtype = self.outputs.dtype
        self.center = distribution.center.astype(dtype)
        self.half_width = distribution.half_width.astype(dtype)
        self.is_unit_box = bool((self.center == 0).all() and (self.half_width == 1).all())
        self.constant = -size * LOG_SQRT_2PI - distribution.log_volume_scale
        self.actions, self.mean, self.deviation, self.squared = np.zeros((4, rows, size), dtype)
        self.std, self.std_slope, self.precision = np.ones((3, size), dtype)
        self._one_minus_mean_squared = np.zeros((lanes, size), dtype)

    def load_actions(self, actions: np.ndarray, rows: slice) -> None:
        """Takes actions [n, ...] in the env's units into the given rows."""
        unit = self.actions[rows]
        unit[...] = actions.reshape(unit.shape)
        if not self.is_unit_box:
            np.subtract(unit, self.center, out=unit)
            np.divide(unit, self.half_width, out=unit)

    def log_prob(self, out: np.ndarray) -> None:
        """Writes log pi(a|s) [N], in the env's units."""
        np.logaddexp(0, self.p, out=self.std)
        # d softplus(p) / dp = sigmoid(p) = exp(p - softplus(p)), which cannot overflow.
        np.exp(np.subtract(self.p, self.std, out=self.std_slope), out=self.std_slope)
        np.add(self.std, self.min_std, out=self.std)
        np.divide(1, np.multiply(self.std, self.std, out=self.precision), out=self.precision)
        np.tanh(self.outputs, out=self.mean)
        np.subtract(self.actions, self.mean, out=self.deviation)
        np.multiply(self.deviation, self.deviation, out=self.squared)
        np.dot(self.squared, -0.5 * self.precision, out=out)
        np.add(out, self.constant - float(np.log(self.std).sum()), out=out)

    def score(self, by_outputs: np.ndarray, by_std_parameter: np.ndarray) -> None:
        """Writes d log pi / d outputs [L, d] and d log pi / d std_parameter [L, d]."""
        lanes = self.lanes
        np.multiply(self.deviation[:lanes], self.precision, out=by_outputs)
        np.multiply(self.squared[:lanes], self.precision, out=by_std_parameter)
        np.subtract(by_std_parameter, 1, out=by_std_parameter)
        self._chain_rule(by_outputs, by_std_parameter)

    def _chain_rule(self, by_mean: np.ndarray, by_std_times_std: np.ndarray) -> None:
        """From d log pi / dm and s d log pi / ds to the derivatives by y and p, in place."""
        slope = self._one_minus_mean_squared
        np.multiply(self.mean[: self.lanes], self.mean[: self.lanes], out=slope)
        np.multiply(by_mean, np.subtract(1, slope, out=slope), out=by_mean)
        np.multiply(by_std_times_std, self.std_slope / self.std, out=by_std_times_std)


class TruncatedGaussianHead(GaussianHead):
    """The Gaussian on the box: with l = (-1 - m) / s, h = (1 - m) / s, Z = Phi(h) - Phi(l),

    d log pi / dm = [z - (phi(l) - phi(h)) / Z] / s,
    d log pi / ds = [z^2 - 1 - (l phi(l) - h phi(h)) / Z] / s.
    """

    min_std = MIN_TRUNCATED_STD

    def __init__(self, distribution, outputs, std_parameter, lanes):
        super().__init__(distribution, outputs, std_parameter, lanes)
        rows, size = outputs.shape
        dtype = self.outputs.dtype
        self._bounds = np.array([-1, 1], dtype)[:, None, None]
        self._edges = np.zeros((2, rows, size), dtype)
        self._erf = torch.zeros(2, rows, size, dtype=outputs.dtype)
        self._mass, self._log_mass = np.zeros((2, rows, size), dtype)
        self._minus_ones = -np.ones(size, dtype)
        self._density = np.zeros((2, lanes, size), dtype)
        self._edge_term = np.zeros((lanes, size), dtype)

    def log_prob(self, out):
        super().log_prob(out)
        np.subtract(self._bounds, self.mean, out=self._edges)
        np.divide(self._edges, self.std, out=self._edges)
        erf = self._erf.numpy()
        np.multiply(self._edges, math.sqrt(0.5), out=erf)
        torch.special.erf(self._erf, out=self._erf)
        np.subtract(erf[1], erf[0], out=self._mass)
        np.multiply(self._mass, 0.5, out=self._mass)
        np.maximum(self._mass, MIN_TRUNCATED_MASS, out=self._mass)
        np.log(self._mass, out=self._log_mass)
        np.add(out, np.dot(self._log_mass, self._minus_ones), out=out)

    def score(self, by_outputs, by_std_parameter):
        lanes, density, edge_term = self.lanes, self._density, self._edge_term
        edges, mass = self._edges[:, :lanes], self._mass[:lanes]
        np.multiply(edges, edges, out=density)
        np.multiply(density, -0.5, out=density)
        np.exp(np.subtract(density, LOG_SQRT_2PI, out=density), out=density)
        np.divide(density, mass, out=density)

        np.divide(self.deviation[:lanes], self.std, out=by_outputs)
        np.subtract(by_outputs, np.subtract(density[0], density[1], out=edge_term), out=by_outputs)
        np.divide(by_outputs, self.std, out=by_outputs)

        np.multiply(density, edges, out=density)
        np.multiply(self.squared[:lanes], self.precision, out=by_std_parameter)
        np.subtract(by_std_parameter, 1, out=by_std_parameter)
        np.subtract(
            by_std_parameter,
            np.subtract(density[0], density[1], out=edge_term),
            out=by_std_parameter,
        )
        self._chain_rule(by_outputs, by_std_parameter)


class CategoricalHead:
    """Softmax over logits y: d log pi / dy = one-hot(a) - softmax(y)."""

    def __init__(
        self, distribution: Categorical, outputs: torch.Tensor, std_parameter: None, lanes: int
    ):
        rows, size = outputs.shape
        self.outputs, self.start = outputs, distribution.start
        self._log_probs = torch.zeros_like(outputs)
        self._flat_log_probs = self._log_probs.view(-1).numpy()
        self._lanes_log_probs = self._log_probs.numpy()[:lanes]
        self._row_starts = np.arange(rows) * size
        self._taken = np.zeros(rows, np.int64)
        self._lanes = slice(lanes)

    def load_actions(self, actions: np.ndarray, rows: slice) -> None:
        """Takes actions [n] into the given rows."""
        np.add(self._row_starts[rows], actions, out=self._taken[rows])
        if self.start:
            self._taken[rows] -= self.start

    def log_prob(self, out: np.ndarray) -> None:
        """Writes log pi(a|s) [N]."""
        torch.log_softmax(self.outputs, -1, out=self._log_probs)
        np.take(self._flat_log_probs, self._taken, out=out)

    def score(self, by_outputs: np.ndarray, by_std_parameter: None) -> None:
        """Writes d log pi / d outputs [L, n], which must be contiguous."""
        np.negative(np.exp(self._lanes_log_probs, out=by_outputs), out=by_outputs)
        by_outputs.reshape(-1)[self._taken[self._lanes]] += 1


PolicyHead = GaussianHead | CategoricalHead


def make_head(
    distribution: PolicyDistribution,
    outputs: torch.Tensor,
    std_parameter: torch.Tensor | None,
    lanes: int,
) -> PolicyHead:
    """Returns the closed form of `distribution` on the buffer `outputs` [N, num_outputs].

    Args:
        distribution: As of `make_distribution`.
        outputs: The buffer that the policy's network writes.
        std_parameter: The parameter's memory [d], None for a categorical policy.
        lanes: Number L of the first rows that need a score.
    """
    heads = {
        DiagonalGaussian: GaussianHead,
        TruncatedGaussian: TruncatedGaussianHead,
        Categorical: CategoricalHead,
    }
    return heads[type(distribution)](distribution, outputs, std_parameter, lanes)
