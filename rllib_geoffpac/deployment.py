"""The target policy as a plain torch module that knows nothing of RLlib, for ONNX and TorchScript.

It maps observations [N, ...] as the module sees them, behind env-to-module connectors if there are
any, to the most likely action (the mean of a Gaussian), ready for `env.step`, and to what the
distribution of actions depends on, in the units of the environment:

    gaussian            mean, std [N, d]; samples are clipped to the box
    truncated_gaussian  mean, std [N, d] of the Gaussian before it is cut to the box
    beta                alpha, beta [N, d]; the action is low + (high - low) x, x ~ Beta
    categorical         probabilities [N, n]
    deterministic       nothing more

Asked to sample, it takes uniform numbers in [0, 1) as a second input, [N, d] or [N, 1] for a
categorical, and the action is the sample that they choose: its quantile in every dimension.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.core.columns import Columns
from torch import nn

from rllib_geoffpac.connectors.pipelines import (
    has_env_to_module,
    has_module_to_env,
    spaces_of,
)
from rllib_geoffpac.envs.make_env import make_env
from rllib_geoffpac.maths.beta import beta_mode, beta_sample, concentrations
from rllib_geoffpac.maths.distributions import (
    Beta,
    Categorical,
    DiagonalGaussian,
    TruncatedGaussian,
    UnboundedGaussian,
)
from rllib_geoffpac.maths.plain_erf import plain_erf, plain_erfinv
from rllib_geoffpac.maths.truncated_gaussian import MARGIN, ROOT_HALF

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.core.rl_module.torch import TorchRLModule

FORMAT = "rllib_geoffpac policy 1"
OUTPUTS = {
    "gaussian": ("action", "mean", "std"),
    "truncated_gaussian": ("action", "mean", "std"),
    "beta": ("action", "alpha", "beta"),
    "categorical": ("action", "probabilities"),
    "deterministic": ("action",),
}
"""What the module returns, in order, by the kind of distribution."""

_KINDS: dict[type, str] = {
    DiagonalGaussian: "gaussian",
    TruncatedGaussian: "truncated_gaussian",
    Beta: "beta",
    Categorical: "categorical",
}


class ExportedPolicy(nn.Module):
    """pi as a function of observations alone.

    Args:
        module: The RLModule of one of this package's algorithms, with its weights.
        sampled: Whether the action is a sample, chosen by a second input; else the most likely.

    Attributes:
        kind: Its distribution, a key of `OUTPUTS`.
        noise_size: Columns of the second input; 0: there is none.
    """

    center: torch.Tensor
    half_width: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor

    def __init__(self, module: TorchRLModule, sampled: bool = False):
        super().__init__()
        self.module = module
        self.distribution = module.distribution
        if isinstance(self.distribution, UnboundedGaussian):
            raise ValueError(
                f"The action space {module.action_space} is unbounded, and a policy on it can't be "
                "exported: use `RLModule.from_checkpoint`."
            )
        self.kind = _KINDS.get(type(self.distribution), "deterministic")
        self.shape = tuple(module.action_space.shape)
        self.noise_size = self._noise_size() if sampled else 0
        if self.kind != "categorical":
            box = self.distribution.box
            for name, array in (
                ("center", box.center),
                ("half_width", box.half_width),
                ("low", module.action_space.low.reshape(-1)),
                ("high", module.action_space.high.reshape(-1)),
            ):
                self.register_buffer(name, torch.as_tensor(np.asarray(array, np.float64)))

    def _noise_size(self) -> int:
        if self.kind == "categorical":
            return 1
        return 0 if self.kind == "deterministic" else self.distribution.box.size

    @property
    def columns(self) -> tuple[str, ...]:
        """Its inputs, in order."""
        return ("observations", "noise") if self.noise_size else ("observations",)

    def forward(
        self, observations: torch.Tensor, noise: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Observations [N, ...] and noise [N, noise_size] to the outputs that `OUTPUTS` names."""
        inputs = self.module.forward_inference({Columns.OBS: observations})
        # With 64 bits from here on, as in evaluation.
        outputs = inputs[Columns.ACTION_DIST_INPUTS].double()
        if self.kind == "categorical":
            probabilities = torch.softmax(outputs, -1)
            if noise is None:
                index = torch.argmax(outputs, -1)
            else:
                index = (torch.cumsum(probabilities, -1)[:, :-1] <= noise).sum(-1)
            return index + self.distribution.start, probabilities
        if self.kind == "deterministic":
            return (self._action(outputs),)
        size = self.distribution.box.size
        if self.kind == "beta":
            alpha, beta = concentrations(outputs[:, :size]), concentrations(outputs[:, size:])
            x = beta_mode(alpha, beta) if noise is None else beta_sample(noise, alpha, beta)
            return self._action(2 * x - 1), alpha, beta
        mean = torch.tanh(outputs[:, :size])
        std = self.distribution.std(outputs[:, size:])
        unit = mean if noise is None else mean + std * self._quantile(noise, mean, std)
        return self._action(unit), self.center + self.half_width * mean, self.half_width * std

    def _quantile(self, noise: torch.Tensor, mean: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
        """z [N, d] of mean + std z, see `maths.truncated_gaussian`; without bounds 2 u - 1."""
        low, high = torch.full_like(mean, -1.0), torch.ones_like(mean)
        if self.kind == "truncated_gaussian":
            low, high = (plain_erf((bound - mean) / std * ROOT_HALF) for bound in (low, high))
        signed = (1 - noise) * low + noise * high
        return plain_erfinv(signed.clip(2 * MARGIN - 1, 1 - 2 * MARGIN)) / ROOT_HALF

    def _action(self, unit: torch.Tensor) -> torch.Tensor:
        """From the unit box [N, d] to the environment's [N, *shape], in its bounds and dtype."""
        scaled = self.center + self.half_width * unit
        scaled = torch.minimum(torch.maximum(scaled, self.low), self.high)
        dtype = getattr(torch, str(self.module.action_space.dtype))
        return scaled.reshape(-1, *self.shape).to(dtype)


def exported_policy(
    config: AlgorithmConfig, weights: dict[str, Any], sampled: bool = False
) -> tuple[ExportedPolicy, dict[str, Any]]:
    """pi of a config with some weights, and its description.

    Args:
        config: Of one of this package's algorithms; its environment tells the spaces.
        weights: The module's state, as a checkpoint holds it.
        sampled: Whether its actions are samples.

    Raises:
        ValueError: If connectors stand between the environment and the module.
    """
    if has_env_to_module(config) or has_module_to_env(config):
        raise ValueError(
            "the file would hold the module without its connectors, and so play another policy. "
            "Use RLlib's Algorithm.from_checkpoint for a policy with `env_to_module_connector` or "
            "`module_to_env_connector`"
        )
    env = make_env(config, 0, 0)
    try:
        spaces = spaces_of(config, (env.observation_space, env.action_space))
        module = config.get_rl_module_spec(spaces=spaces, inference_only=True).build()
    finally:
        env.close()
    module.set_state({name: weights[name] for name in module.get_state()})
    policy = ExportedPolicy(module, sampled).eval().requires_grad_(False)
    return policy, describe(policy)


def describe(policy: ExportedPolicy) -> dict[str, Any]:
    """What a file says of itself: format, distribution, inputs, outputs, spaces; for JSON."""
    return {
        "format": FORMAT,
        "distribution": policy.kind,
        "action": "sampled" if policy.noise_size else "most likely",
        "inputs": list(policy.columns),
        "noise_size": policy.noise_size,
        "outputs": list(OUTPUTS[policy.kind]),
        "observation_space": _described(policy.module.observation_space),
        "action_space": _described(policy.module.action_space),
    }


def _described(space: gym.Space) -> dict[str, Any]:
    if isinstance(space, gym.spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    assert isinstance(space, gym.spaces.Box)
    return {
        "type": "Box",
        "shape": list(space.shape),
        "dtype": str(space.dtype),
        "low": [_bound(value) for value in space.low.reshape(-1)],
        "high": [_bound(value) for value in space.high.reshape(-1)],
    }


def _bound(value: float) -> float | None:
    """JSON has no infinity: None is no bound."""
    return float(value) if np.isfinite(value) else None
