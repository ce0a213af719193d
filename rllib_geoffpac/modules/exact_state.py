"""What all modules share: a state that comes back bit for bit, and actions for deployment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.distribution import Distribution
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.annotations import override
from ray.rllib.utils.typing import StateDict

from rllib_geoffpac.envs.observations import observation_shape
from rllib_geoffpac.modules.action_distribution import action_distribution_class


class ExactStateRLModule(TorchRLModule):
    """RLlib rounds float64 to float32 on the way from torch and back; this one doesn't."""

    distribution: Any

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of all parameters."""
        return next(self.pi.parameters()).dtype

    @override(RLModule)
    def get_inference_action_dist_cls(self) -> type[Distribution]:
        """What makes actions of a forward pass's `action_dist_inputs`; exploration's is the same.

        Its samples are pi's actions as the environment takes them.
        """
        return action_distribution_class(self.distribution)

    def observations_of(self, batch: dict[str, Any]) -> torch.Tensor:
        """A batch's observations [N, ...] as they come from the environment, for the networks."""
        observations, space = batch[Columns.OBS], self.observation_space
        if isinstance(space, gym.spaces.Box):
            observations = observations.to(self.dtype)
        return observations.reshape(observations.shape[0], *observation_shape(space))

    @override(RLModule)
    def get_state(self, *args: Any, **kwargs: Any) -> StateDict:
        state, exact = super().get_state(*args, **kwargs), self.state_dict()
        return {name: exact[name].cpu().numpy().copy() for name in state}

    @override(RLModule)
    def set_state(self, state: StateDict) -> None:
        super().set_state(state)  # it checks that nothing is missing
        exact = {name: torch.as_tensor(value) for name, value in state.items()}
        self.load_state_dict(exact, strict=False)
