"""One step of a torch optimizer down a function's gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from torch import nn

from rllib_geoffpac.updates.descent import Descent, GradientHooks


class TorchDescent:
    """Bounds gradients, tells them to those who ask, and steps the optimizers.

    Args:
        parameters: Of every function.
        optimizers: By the names of the functions, which may share one.
        grad_clip: Bound of each function's gradient; None: no bound.
        descent: What else is done with a gradient.

    Attributes:
        numbers: Of the present update: `lr/<name>` sets a function's learning rate.
        norms: Of the gradients of the present update, by the names of their metrics.
    """

    def __init__(
        self,
        parameters: Mapping[str, list[nn.Parameter]],
        optimizers: Mapping[str, torch.optim.Optimizer],
        grad_clip: float | None,
        descent: Descent,
    ):
        self._parameters, self._optimizers = parameters, optimizers
        self._grad_clip, self._descent = grad_clip, descent
        self._shared = len({id(o) for o in optimizers.values()}) < len(optimizers)
        self.numbers: Mapping[str, float] = {}
        self.norms: dict[str, torch.Tensor] = {}

    def begin(self, numbers: Mapping[str, float]) -> None:
        """Begins an update with its numbers."""
        self.numbers, self.norms = numbers, {}

    def __call__(
        self, name: str, gradients: Sequence[torch.Tensor], objective: torch.Tensor | None = None
    ) -> None:
        """Steps a function's parameters down their gradients.

        Args:
            name: Of the function.
            gradients: Of its parameters.
            objective: What was differentiated, if it was one number.
        """
        optimizer, parameters = self._optimizers[name], self._parameters[name]
        rate = self.numbers.get(f"lr/{name}")
        if rate is not None:
            for group in optimizer.param_groups:
                group["lr"] = rate
        if self._descent.logs_norms:
            self.norms[f"gradients_{name}_global_norm"] = nn.utils.get_total_norm(gradients)
        if self._descent.hooks is not None:
            _through(self._descent.hooks, parameters, gradients, objective)
            return
        if self._shared:
            optimizer.zero_grad(set_to_none=True)
        by = self._descent.grad_clip_by
        if self._grad_clip is not None and by != "global_norm":
            gradients = [_clip(gradient, self._grad_clip, by) for gradient in gradients]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        if self._grad_clip is not None and by == "global_norm":
            nn.utils.clip_grad_norm_(parameters, self._grad_clip)
        optimizer.step()


def _clip(gradient: torch.Tensor, bound: float, by: str) -> torch.Tensor:
    if by == "value":
        return gradient.clip(-bound, bound)
    norm = torch.sqrt((gradient * gradient).sum())
    return gradient * (bound / (norm + 1e-6)).clip(max=1.0)


def _through(
    hooks: GradientHooks,
    parameters: Sequence[nn.Parameter],
    gradients: Sequence[torch.Tensor],
    objective: torch.Tensor | None,
) -> None:
    """Takes a step the way RLlib's learners do, so that a user's methods have their say.

    They get a loss with the value of what is descended and with exactly these gradients: not those
    of the other functions that it depends on, which learn by rules of their own.
    """
    with torch.enable_grad():
        linear: Any = sum((p * g).sum() for p, g in zip(parameters, gradients, strict=True))
        loss = linear - linear.detach()
        if objective is not None:
            loss = loss + objective.detach()
        computed = hooks.compute_gradients({DEFAULT_MODULE_ID: loss})
    computed = {ref: gradient for ref, gradient in computed.items() if gradient is not None}
    hooks.apply_gradients(hooks.postprocess_gradients(computed))
