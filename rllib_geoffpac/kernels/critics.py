"""The gradients of the V and C losses in closed form."""

from __future__ import annotations

import numpy as np
import torch

from rllib_geoffpac.kernels.mlp_pass import Blocks, TrainablePass


class TransitionColumns:
    """One number per transition: views [N] of the rows of one array [8, N].

    `log_rho` is not clipped, `rho` is; `td_target` is R_{t+1} + gamma_{t+1} V'(S_{t+1}) and
    `cop_target` is gamma_hat rho_t C'(S_t) + 1 - gamma_hat.
    """

    def __init__(self, array: np.ndarray):
        self.array = array
        self.rewards, self.discount, self.behavior_logp, self.valid = array[:4]
        self.log_rho, self.rho, self.td_target, self.cop_target = array[4:]

    def rows(self, rows: slice) -> TransitionColumns:
        """The same columns for some of the transitions."""
        return TransitionColumns(self.array[:, rows])


class CriticPass:
    """V on S_t and C on S_{t+1} for n transitions, and the gradients of their losses.

    V: mean of rho_t delta_t^2 / 2 (`value.value_loss`). C: the gamma_hat-discounted COP rule plus
    the soft normalisation (`density_ratio`), whose derivatives by C_i = C(S_{t+1}) of a valid
    transition i, with m valid ones and total = sum of C_j over them, are

        [C_i - (gamma_hat rho_i C'_i + 1 - gamma_hat)] / m
        + beta [(total - C_i) / (m - 1) - 1] / m.

    Args:
        networks: The blocks of V and, if there is a density ratio, of C.
        gradients: The blocks that take their gradients.
        inputs: [n, o + 1] S_t and S_{t+1}, the last column 1.
        columns: `rho`, `td_target`, `cop_target` and `valid` [n] of the transitions.
        sn_loss_coeff: beta.
    """

    def __init__(
        self,
        networks: list[Blocks],
        gradients: list[Blocks],
        inputs: tuple[torch.Tensor, torch.Tensor],
        columns: TransitionColumns,
        sn_loss_coeff: float,
    ):
        self.network_pass = TrainablePass(networks, inputs[: len(networks)], gradients)
        self.rho, self.valid = columns.rho, columns.valid
        self.td_target, self.cop_target = columns.td_target, columns.cop_target
        self.sn_loss_coeff = sn_loss_coeff
        self.has_density_ratio = len(networks) == 2
        outputs = [output[:, 0].numpy() for output in self.network_pass.outputs]
        derivatives = self.network_pass.output_gradients.numpy()[:, :, 0]
        self._value, self._value_derivative = outputs[0], derivatives[0]
        self._ones = np.ones_like(self.rho)
        if self.has_density_ratio:
            self._c_output, self._c_derivative = outputs[1], derivatives[1]
            self._density_ratio, self._slope = np.zeros((2, *self.rho.shape), self.rho.dtype)

    def compute_gradients(self) -> None:
        """Overwrites the gradients with those of the losses at the networks' current values."""
        self.network_pass.forward()
        derivative = self._value_derivative
        np.subtract(self._value, self.td_target, out=derivative)
        np.multiply(derivative, self.rho, out=derivative)
        np.divide(derivative, len(derivative), out=derivative)
        if self.has_density_ratio:
            self._differentiate_density_ratio()
        self.network_pass.backward()

    def _differentiate_density_ratio(self) -> None:
        ratio, derivative, slope = self._density_ratio, self._c_derivative, self._slope
        np.logaddexp(0, self._c_output, out=ratio)
        count = float(np.dot(self.valid, self._ones))
        # d/dC_i is linear in C_i: keep * C_i + shift - target_i.
        keep, shift = 1.0, 0.0
        if count >= 2:
            total = float(np.dot(self.valid, ratio))
            keep = 1 - self.sn_loss_coeff / (count - 1)
            shift = self.sn_loss_coeff * (total / (count - 1) - 1)
        np.multiply(ratio, keep, out=derivative)
        np.subtract(derivative, self.cop_target, out=derivative)
        np.add(derivative, shift, out=derivative)
        if count < len(ratio):
            np.multiply(derivative, self.valid, out=derivative)
        np.divide(derivative, max(count, 1.0), out=derivative)
        # d softplus(x) / dx = exp(x - softplus(x)).
        np.exp(np.subtract(self._c_output, ratio, out=slope), out=slope)
        np.multiply(derivative, slope, out=derivative)

    def losses(self) -> dict[str, float]:
        """The V loss and the C loss (without normalisation) of the latest `compute_gradients`."""
        delta = self.td_target - self._value
        losses = {"value_loss": float(np.dot(self.rho * delta, delta)) / len(delta) / 2}
        if self.has_density_ratio:
            error = self.cop_target - self._density_ratio
            count = max(float(self.valid.sum()), 1.0)
            losses["density_ratio_loss"] = float(np.dot(self.valid * error, error)) / count / 2
        return losses
