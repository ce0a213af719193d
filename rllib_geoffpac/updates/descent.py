"""How a gradient becomes a step of an optimizer, beyond the optimizer itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

Gradients = dict[Any, torch.Tensor]


class GradientHooks(Protocol):
    """The methods of RLlib's Learner through which a user's gradients go."""

    def compute_gradients(self, loss_per_module: dict[str, torch.Tensor]) -> Gradients: ...

    def postprocess_gradients(self, gradients_dict: Gradients) -> Gradients: ...

    def apply_gradients(self, gradients_dict: Gradients) -> None: ...


@dataclass(frozen=True)
class Descent:
    """What is done with a function's gradient before and after the optimizer's step.

    Attributes:
        grad_clip_by: What `grad_clip` bounds, with RLlib's words: "global_norm", the norm of the
            whole gradient of a function; "norm", that of each of its parameters; "value", each
            number.
        logs_norms: Whether the norms of the gradients are reported, as they are before clipping.
        hooks: A learner whose methods take the gradients their own way; None: nobody does.
        after_update: Called after every update that learns; None: nothing to call.
    """

    grad_clip_by: str = "global_norm"
    logs_norms: bool = False
    hooks: GradientHooks | None = None
    after_update: Callable[[], None] | None = None

    @property
    def why_not_fast(self) -> str | None:
        """Why the compiled backend can't do it; None if it can."""
        if self.logs_norms:
            return "`log_gradients` is True, and it does not tell gradients"
        if self.after_update is not None:
            return "learning rates follow schedulers of torch"
        return None
