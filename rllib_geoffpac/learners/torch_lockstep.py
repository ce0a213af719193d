"""One lockstep of Geoff-PAC, ACE and Off-PAC in torch: the readable truth.

Read it beside the paper's pseudocode: `learn_critics` (on a replay batch, then on the current
transitions), `policy_gradient_terms` (the traces and Z1, Z2), `learn_actor`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from ray.rllib.core.columns import Columns
from torch import nn

from rllib_geoffpac.connectors import EmphaticTraces
from rllib_geoffpac.connectors.lane_aligner import CHAIN_START, DISCOUNT, VALID
from rllib_geoffpac.maths.density_ratio import (
    clip_density_ratio,
    density_ratio_loss,
    soft_normalization_loss,
)
from rllib_geoffpac.maths.emphatic import first_term, second_term
from rllib_geoffpac.maths.moments import RunningMoments
from rllib_geoffpac.maths.value import importance_ratio, td_error, value_loss
from rllib_geoffpac.modules import EmphaticRLModule

Row = dict[str, torch.Tensor]


def to_tensors(columns: dict, module: EmphaticRLModule) -> Row:
    """Numpy columns to tensors of the module's dtype (integers and booleans as they are)."""
    device = next(module.pi.parameters()).device

    def convert(column: Any) -> torch.Tensor:
        tensor = torch.as_tensor(column, device=device)
        return tensor.to(module.dtype) if tensor.is_floating_point() else tensor

    return {name: convert(column) for name, column in columns.items()}


def interest_in(
    observations: torch.Tensor, interest_fn: Callable | None, module: EmphaticRLModule
) -> torch.Tensor:
    """i(S) [N]: 1, or what the user's `interest_fn` says of the observations (numpy, [N, ...])."""
    count, device = len(observations), observations.device
    if interest_fn is None:
        return torch.ones(count, dtype=module.dtype, device=device)
    values = torch.as_tensor(interest_fn(observations.cpu().numpy()))
    return values.to(device, module.dtype).reshape(count)


class PolicyGradientTerms(NamedTuple):
    """The two terms of the ascent direction, per lane: Z1 [L, P] and Z2 [L, P] (None for ACE)."""

    z1: torch.Tensor
    z2: torch.Tensor | None


class TorchLockstep:
    """Everything that one lockstep does to the parameters; serves any module and device.

    Args:
        module: pi, V and C.
        config: The GeoffPACConfig (or ACE, Off-PAC).
        traces: The connector that owns F1 and F2.
        optimizers: By name: "pi", "v" and, with a density ratio, "c".
        moments: Running moments of V.
    """

    def __init__(
        self,
        module: EmphaticRLModule,
        config: Any,
        traces: EmphaticTraces,
        optimizers: dict[str, torch.optim.Optimizer],
        moments: RunningMoments,
    ):
        self.module, self.config, self.traces = module, config, traces
        self.optimizers, self.moments = optimizers, moments
        self.theta = module.policy_parameters()
        num_parameters = sum(p.numel() for p in self.theta) if config.uses_second_trace else None
        lanes = torch.zeros(config.num_lanes, dtype=module.dtype, device=self.theta[0].device)
        traces.start(lanes, num_parameters)
        self.latest: dict[str, Any] = {}
        """Of the latest lockstep: [L] columns and losses."""
        self.vectors: dict[str, Any] = {}
        """Of the latest lockstep: f2, z1, z2 [L, P]."""

    name = "torch"

    def step(self, row: dict, replayed: dict | None, learn: bool) -> None:
        """One lockstep: `row` is [L, ...], the replay batch [N, ...]; only traces if not learn."""
        row = to_tensors(row, self.module)
        if learn:
            if replayed is not None:
                self.learn_critics(to_tensors(replayed, self.module))
            self.learn_critics(row)
        terms = self.policy_gradient_terms(row)
        if learn:
            self.learn_actor(terms)

    def learn_critics(self, batch: Row) -> None:
        """V: rho delta^2 / 2. C: the gamma_hat-discounted COP rule and soft normalisation."""
        module, config = self.module, self.config
        with torch.no_grad():
            rho = self.rho(batch)[1]
            next_value = module.value(batch[Columns.NEXT_OBS], target=True)
        value = module.value(batch[Columns.OBS])
        delta = td_error(batch[Columns.REWARDS], batch[DISCOUNT], next_value, value)
        self.latest["value_loss"] = self._minimise("v", value_loss(rho, delta))
        if not config.uses_density_ratio:
            return
        with torch.no_grad():
            target = module.density_ratio(batch[Columns.OBS], target=True)
        ratio = module.density_ratio(batch[Columns.NEXT_OBS])
        loss = density_ratio_loss(
            ratio, target, rho, gamma_hat=config.gamma_hat, valid=batch[VALID]
        )
        normalization = soft_normalization_loss(ratio, ratio.detach(), batch[VALID])
        self._minimise("c", loss + config.sn_loss_coeff * normalization)
        self.latest["density_ratio_loss"] = loss.detach()

    def policy_gradient_terms(self, row: Row) -> PolicyGradientTerms:
        """Advances the traces by this transition and returns Z1 and Z2 of every lane."""
        module, config, traces = self.module, self.config, self.traces
        observations = row[Columns.OBS]
        with torch.no_grad():
            value = module.value(observations)
            next_value = module.value(row[Columns.NEXT_OBS], target=True)
            delta = td_error(row[Columns.REWARDS], row[DISCOUNT], next_value, value)
            ratio = torch.ones_like(value)
            if config.uses_density_ratio:
                ratio = module.density_ratio(observations)
            clipped_ratio = clip_density_ratio(ratio, config.density_ratio_clip)
            interest = interest_in(observations, config.interest_fn, module)
        raw_rho, rho = self.rho(row)
        score = self.score(row)

        traces.restart(row[CHAIN_START])
        emphasis = traces.advance(
            rho=rho,
            discount=row[DISCOUNT],
            density_ratio=clipped_ratio,
            score=score,
            interest=interest,
        )
        # A cut transition leads nowhere in the chain: the lane's next transition starts afresh.
        traces.restart(row[VALID] == 0)

        z1 = first_term(rho, emphasis.m1, delta, score)
        z2 = None
        if config.uses_second_trace:
            weight = torch.full_like(value, config.overlap_coeff * self.moments.std)
            if config.uses_density_ratio:
                baseline = self.moments.mean if config.value_baseline == "ema" else 0.0
                weight = weight + value - baseline
            z2 = second_term(traces.gamma_hat, interest, weight, emphasis.m2)
        self.moments.update(float(value.mean()), float((value**2).mean()))
        self.latest.update(
            rho=raw_rho, clipped_rho=rho, density_ratio=ratio, f1=emphasis.f1, m1=emphasis.m1
        )
        self.vectors = {"f2": emphasis.f2, "z1": z1, "z2": z2}
        return PolicyGradientTerms(z1, z2)

    def learn_actor(self, terms: PolicyGradientTerms) -> None:
        """Ascends the mean over the lanes of Z1 + Z2."""
        direction = terms.z1.mean(0)
        if terms.z2 is not None:
            direction = direction + terms.z2.mean(0)
        offset = 0
        for parameter in self.theta:
            part = direction[offset : offset + parameter.numel()]
            parameter.grad = -part.view_as(parameter)  # optimizers descend
            offset += parameter.numel()
        self._apply("pi", self.theta)

    def score(self, row: Row) -> torch.Tensor:
        """grad log pi(A_t|S_t) of every lane: [L, P]."""
        logp = self.module.log_prob(row[Columns.OBS], row[Columns.ACTIONS])
        rows = torch.eye(len(logp), dtype=logp.dtype, device=logp.device)
        gradients = torch.autograd.grad(logp, self.theta, rows, is_grads_batched=True)
        return torch.cat([g.reshape(len(logp), -1) for g in gradients], dim=1)

    @torch.no_grad()
    def rho(self, batch: Row) -> tuple[torch.Tensor, torch.Tensor]:
        """rho_t = pi(A_t|S_t) / mu(A_t|S_t): as it is, and clipped to [0, rho_clip]."""
        logp = self.module.log_prob(batch[Columns.OBS], batch[Columns.ACTIONS])
        rho = importance_ratio(logp, batch[Columns.ACTION_LOGP])
        return rho, rho.clip(max=self.config.rho_clip)

    def sync_targets(self) -> None:
        """Copies V and C into the target networks."""
        self.module.sync_targets()

    def terms(self, row: dict) -> PolicyGradientTerms:
        """Z1 and Z2 of every lane [L, P], from numpy columns; learns nothing."""
        return self.policy_gradient_terms(to_tensors(row, self.module))

    def store_state(self) -> None:
        """Nothing to do: the connector's traces and the torch optimizers are what it works on."""

    def load_state(self) -> None:
        """Nothing to do, see `store_state`."""

    def _minimise(self, name: str, loss: torch.Tensor) -> torch.Tensor:
        parameters = list(getattr(self.module, name).parameters())
        gradients = torch.autograd.grad(loss, parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        self._apply(name, parameters)
        return loss.detach()

    def _apply(self, name: str, parameters: list[nn.Parameter]) -> None:
        """Clips the gradient of one network by its norm and takes an optimizer step."""
        if self.config.grad_clip is not None:
            nn.utils.clip_grad_norm_(parameters, self.config.grad_clip)
        self.optimizers[name].step()
