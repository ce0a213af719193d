"""The paper's networks: three separate MLPs with two hidden ReLU layers of 64 units."""

from __future__ import annotations

import itertools

import gymnasium as gym
import torch
import torch.nn.functional as F
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.models.utils import get_activation_fn
from ray.rllib.utils.annotations import override
from torch import nn

from rllib_geoffpac.modules.action_value import ActionValue, ActionValues
from rllib_geoffpac.modules.actor_critic import MODEL_CONFIG_KEYS, EmphaticRLModule
from rllib_geoffpac.modules.model_config import check_model_config

# Last layers start small, as in the authors' code: pi near the centre of the box, V near 0.
_LAST_LAYER_SCALE = 1e-3


class OneHot(nn.Module):
    """Discrete observations [N] to one-hot rows [N, n]."""

    def __init__(self, space: gym.spaces.Discrete, dtype: torch.dtype):
        super().__init__()
        self.start, self.n, self.dtype = int(space.start), int(space.n), dtype

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return F.one_hot(observations.long() - self.start, self.n).to(self.dtype)


def make_mlp(
    num_inputs: int, hiddens: list[int], num_outputs: int, activation: str = "relu"
) -> nn.Sequential:
    """Linear, activation, ..., Linear with orthogonal weights and zero biases.

    Orthogonal initialisation is the authors'; the paper doesn't say.
    """
    layers: list[nn.Module] = []
    activate = get_activation_fn(activation, framework="torch")
    sizes = [num_inputs, *hiddens]
    for fan_in, fan_out in itertools.pairwise(sizes):
        layers += [_linear(fan_in, fan_out, 1.0), *([activate()] if activate else [])]
    return nn.Sequential(*layers, _linear(sizes[-1], num_outputs, _LAST_LAYER_SCALE))


def _linear(fan_in: int, fan_out: int, scale: float) -> nn.Linear:
    layer = nn.Linear(fan_in, fan_out)
    nn.init.orthogonal_(layer.weight)
    with torch.no_grad():
        layer.weight.mul_(scale)
    nn.init.zeros_(layer.bias)
    return layer


class MLPRLModule(EmphaticRLModule):
    """pi and the learned functions as separate MLPs over the flattened (or one-hot) observation.

    Model config keys beyond the base's: `fcnet_hiddens` (default [64, 64]), `fcnet_activation`
    ("relu", the paper's, "tanh" or another of RLlib's).
    """

    @override(RLModule)
    def setup(self) -> None:
        space, model = self.observation_space, self.model_config
        check_model_config(model, {*MODEL_CONFIG_KEYS, "fcnet_hiddens", "fcnet_activation"})
        discrete = isinstance(space, gym.spaces.Discrete)
        inputs = int(space.n) if discrete else gym.spaces.flatdim(space)
        hiddens = list(model["fcnet_hiddens"])
        distribution = self.make_distribution()
        joins_action = isinstance(self.action_space, gym.spaces.Box)

        def one_hot() -> OneHot:
            return OneHot(space, getattr(torch, model["dtype"]))

        def network(num_outputs: int) -> nn.Module:
            mlp = make_mlp(inputs, hiddens, num_outputs, model["fcnet_activation"])
            return nn.Sequential(one_hot(), *mlp) if discrete else mlp

        def critic() -> nn.Module:
            size = distribution.action_size
            sizes = (inputs + size, 1) if joins_action else (inputs, size)
            mlp = make_mlp(sizes[0], hiddens, sizes[1], model["fcnet_activation"])
            return ActionValue(one_hot() if discrete else nn.Identity(), mlp, joins_action)

        # pi and V first: ACE and Off-PAC, which have no C, then start from the same weights.
        pi, functions = network(distribution.num_outputs), {}
        for function in self.learned_functions:
            critics = ActionValues(critic() for _ in range(function.num_critics))
            functions[function.name] = critics if function.of_actions else network(1)
        self.build(pi, **functions)
