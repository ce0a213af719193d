"""Tables for V, C, Q and softmax logits: the real algorithms on any finite MDP."""

from __future__ import annotations

import gymnasium as gym
import torch
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override
from torch import nn

from rllib_geoffpac.modules.action_value import ActionValue, ActionValues
from rllib_geoffpac.modules.actor_critic import EmphaticRLModule


class Table(nn.Module):
    """One row of `num_outputs` numbers for every discrete state."""

    def __init__(self, space: gym.spaces.Discrete, num_outputs: int, value: float = 0.0):
        super().__init__()
        self.start = int(space.start)
        self.table = nn.Parameter(torch.full((int(space.n), num_outputs), value))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.table[observations.long() - self.start]


class TabularRLModule(EmphaticRLModule):
    """The learned functions and the policy's logits as tables over Discrete observations.

    Actions are Discrete, too. All logits and values start at 0; C starts at 1, the density ratio of
    pi = mu. The table of C holds C itself (its base class's softplus is left out): the paper's rule
    c_td, state by state.
    """

    softplus_outputs = False

    @override(RLModule)
    def setup(self) -> None:
        space = self.observation_space
        if not isinstance(space, gym.spaces.Discrete) or not isinstance(
            self.action_space, gym.spaces.Discrete
        ):
            raise ValueError(
                f"The tabular module needs Discrete observations and actions, not {space} and "
                f"{self.action_space}: use module='mlp'."
            )
        outputs = self.make_distribution().num_outputs
        functions: dict[str, nn.Module] = {}
        for function in self.learned_functions:
            if function.of_actions:
                tables = (
                    Table(space, outputs, function.start) for _ in range(function.num_critics)
                )
                functions[function.name] = ActionValues(
                    ActionValue(nn.Identity(), table, joins_action=False) for table in tables
                )
            else:
                functions[function.name] = Table(space, 1, function.start)
        self.build(Table(space, outputs), **functions)
