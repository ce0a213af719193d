"""A module whose state comes back bit for bit, in float64 too."""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.annotations import override
from ray.rllib.utils.typing import StateDict


class ExactStateRLModule(TorchRLModule):
    """RLlib rounds float64 to float32 on the way from torch and back; this one doesn't."""

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of all parameters."""
        return next(self.pi.parameters()).dtype

    @override(RLModule)
    def get_state(self, *args: Any, **kwargs: Any) -> StateDict:
        state, exact = super().get_state(*args, **kwargs), self.state_dict()
        return {name: exact[name].cpu().numpy().copy() for name in state}

    @override(RLModule)
    def set_state(self, state: StateDict) -> None:
        super().set_state(state)  # it checks that nothing is missing
        exact = {name: torch.as_tensor(value) for name, value in state.items()}
        self.load_state_dict(exact, strict=False)
