"""The target policy as a plain torch module that knows nothing of RLlib, for ONNX and TorchScript.

It maps observations [N, ...] as the module sees them, behind env-to-module connectors if there are
any, to the most likely action (the mean of a Gaussian), ready for `env.step`, and to what the
distribution of actions depends on, in the units of the environment:

    gaussian            mean, std [N, d]; samples are clipped to the box
    truncated_gaussian  mean, std [N, d] of the Gaussian before it is cut to the box
    beta                alpha, beta [N, d]; the action is low + (high - low) x, x ~ Beta
    categorical         probabilities [N, n]
    deterministic       nothing more
"""

from __future__ import annotations

from typing import Any

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
from rllib_geoffpac.maths.beta import beta_mode, concentrations
from rllib_geoffpac.maths.distributions import (
    Beta,
    Categorical,
    DiagonalGaussian,
    TruncatedGaussian,
    UnboundedGaussian,
)

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

    Attributes:
        kind: Its distribution, a key of `OUTPUTS`.
    """

    center: torch.Tensor
    half_width: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor

    def __init__(self, module: Any):
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
        if self.kind != "categorical":
            box = self.distribution.box
            for name, array in (
                ("center", box.center),
                ("half_width", box.half_width),
                ("low", module.action_space.low.reshape(-1)),
                ("high", module.action_space.high.reshape(-1)),
            ):
                self.register_buffer(name, torch.as_tensor(np.asarray(array, np.float64)))

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Observations [N, ...] to the outputs that `OUTPUTS` names."""
        inputs = self.module.forward_inference({Columns.OBS: observations})
        # With 64 bits from here on, as in evaluation.
        outputs = inputs[Columns.ACTION_DIST_INPUTS].double()
        if self.kind == "categorical":
            return self._most_likely(outputs), torch.softmax(outputs, -1)
        if self.kind == "deterministic":
            return (self._action(outputs),)
        size = self.distribution.box.size
        if self.kind == "beta":
            alpha, beta = concentrations(outputs[:, :size]), concentrations(outputs[:, size:])
            return self._action(2 * beta_mode(alpha, beta) - 1), alpha, beta
        mean = torch.tanh(outputs[:, :size])
        std = self.distribution.std(outputs[:, size:])
        return self._action(mean), self.center + self.half_width * mean, self.half_width * std

    def _most_likely(self, outputs: torch.Tensor) -> torch.Tensor:
        return torch.argmax(outputs, -1) + self.distribution.start

    def _action(self, unit: torch.Tensor) -> torch.Tensor:
        """From the unit box [N, d] to the environment's [N, *shape], in its bounds and dtype."""
        scaled = self.center + self.half_width * unit
        scaled = torch.minimum(torch.maximum(scaled, self.low), self.high)
        dtype = getattr(torch, str(self.module.action_space.dtype))
        return scaled.reshape(-1, *self.shape).to(dtype)


def exported_policy(config: Any, weights: dict[str, Any]) -> tuple[ExportedPolicy, dict[str, Any]]:
    """pi of a config with some weights, and its description.

    Args:
        config: Of one of this package's algorithms; its environment tells the spaces.
        weights: The module's state, as a checkpoint holds it.

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
    policy = ExportedPolicy(module).eval().requires_grad_(False)
    return policy, describe(policy)


def describe(policy: ExportedPolicy) -> dict[str, Any]:
    """What a file says of itself: format, distribution, outputs, spaces; plain data for JSON."""
    return {
        "format": FORMAT,
        "distribution": policy.kind,
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
