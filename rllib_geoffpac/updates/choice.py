"""Which backend learns: the compiled one wherever it can serve, else torch."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from rllib_geoffpac.maths.distributions import (
    Beta,
    Categorical,
    DiagonalGaussian,
    TruncatedGaussian,
    UnboundedGaussian,
)
from rllib_geoffpac.modules import MLPRLModule, TabularRLModule
from rllib_geoffpac.modules.deterministic_actor_critic import (
    DeterministicActorCriticRLModule,
    DeterministicPolicy,
)
from rllib_geoffpac.modules.plain import UnknownLayer, layers_of
from rllib_geoffpac.updates.backend import Backend, Memory, Update
from rllib_geoffpac.updates.descent import Descent
from rllib_geoffpac.updates.torch_backend import TorchBackend

if TYPE_CHECKING:
    from ray.rllib.core.rl_module.torch import TorchRLModule

logger = logging.getLogger(__name__)

_MODULES = (MLPRLModule, TabularRLModule, DeterministicActorCriticRLModule)
_DISTRIBUTIONS = (
    *(Categorical, DiagonalGaussian, UnboundedGaussian, TruncatedGaussian, Beta),
    DeterministicPolicy,
)
GRADIENT_HOOKS = (
    "apply_gradients",
    "compute_gradients",
    "postprocess_gradients",
    "postprocess_gradients_for_module",
)
"""What a subclass of RLlib's Learner may do to a gradient: only torch asks it."""


def why_not_fast(
    kernel: str,
    module: TorchRLModule,
    optimizers: dict[str, torch.optim.Optimizer] | None = None,
    learner_class: type | None = None,
    descent: Descent | None = None,
) -> str | None:
    """Why the compiled backend can't serve; None if it can, as far as is known.

    Args:
        kernel: The config key: "auto", "torch" or "fast".
        module: The module that is learned.
        optimizers: Its optimizers by function, where there are any yet.
        learner_class: The learner's class, where it is known.
        descent: How gradients become steps, where it is known.

    Raises:
        ValueError: If it is asked for by `kernel="fast"` and can't serve.
    """
    obstacle = (
        _of_installation()
        or _of_module(module)
        or _of_optimizers(module, optimizers or {})
        or _of_learner(learner_class)
        or (descent or Descent()).why_not_fast
    )
    if obstacle and kernel == "fast":
        raise ValueError(
            f"`kernel` is 'fast', but the compiled backend can't serve: {obstacle}. "
            "Set it to 'auto' or 'torch'."
        )
    return obstacle


def _of_installation() -> str | None:
    if importlib.util.find_spec("jax") is None:
        return "JAX is not installed (pip install 'rllib_geoffpac[fast]' gives ten times the speed)"
    return None


def _of_module(module: TorchRLModule) -> str | None:
    kind = type(module)
    if kind not in _MODULES:
        return f"it serves the default networks only, and the module is a {kind.__name__}"
    if type(module.distribution) not in _DISTRIBUTIONS:
        return f"it does not know the distribution {type(module.distribution).__name__}"
    for name, parameter in module.named_parameters():
        if parameter.device.type != "cpu":
            return f"it runs on the CPU only, and the module is on {parameter.device}"
        if parameter.dtype not in (torch.float32, torch.float64):
            return f"the parameter {name} is {parameter.dtype}"
    try:
        for network in module.children():
            parts = network if isinstance(network, torch.nn.ModuleList) else [network]
            for part in parts:
                layers_of(part)
    except UnknownLayer as error:
        return str(error)
    return None


def _of_optimizers(
    module: TorchRLModule, optimizers: dict[str, torch.optim.Optimizer]
) -> str | None:
    from rllib_geoffpac.updates.xla import optimizers as compiled

    for name, optimizer in optimizers.items():
        obstacle = compiled.why_not(optimizer, module.parameters_of(name))
        if obstacle:
            return f"{obstacle} (of {name})"
    return None


def _of_learner(learner_class: type | None) -> str | None:
    hook = overridden(learner_class, GRADIENT_HOOKS)
    return hook and f"{hook}, which torch alone asks"


def overridden(learner_class: type | None, hooks: Sequence[str]) -> str | None:
    """Which of RLlib's methods a user's learner overrides: `Mine overrides ...`, or None."""
    bases = learner_class.__mro__ if learner_class else ()
    for hook in hooks:
        owner = next((base for base in bases if hook in vars(base)), None)
        if owner and owner.__module__.partition(".")[0] not in ("ray", "rllib_geoffpac"):
            return f"{owner.__name__} overrides `{hook}`"
    return None


def make_backend(
    kernel: str,
    update: Update,
    module: TorchRLModule,
    optimizers: dict[str, torch.optim.Optimizer],
    grad_clip: float | None,
    memory: Memory,
    *,
    chunk_size: int,
    learner_class: type,
    descent: Descent | None = None,
) -> Backend:
    """The backend for `kernel`, which logs what it is and, if it is not the fast one, why."""
    descent = descent or Descent()
    obstacle: str | None = "`kernel` is 'torch'"
    if kernel != "torch":
        obstacle = why_not_fast(kernel, module, optimizers, learner_class, descent)
    if obstacle is not None:
        logger.info("Learning with torch (not with the compiled backend: %s).", obstacle)
        return TorchBackend(update, module, optimizers, grad_clip, memory, descent)
    logger.info("Learning with the compiled backend.")
    from rllib_geoffpac.updates.xla.backend import XlaBackend

    return XlaBackend(
        update, module, optimizers, grad_clip, memory, chunk_size, descent.grad_clip_by
    )
