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
        outputs = self.make_distribution().num_outputs

        def network(num_outputs: int) -> nn.Module:
            mlp = make_mlp(inputs, hiddens, num_outputs, model["fcnet_activation"])
            if not discrete:
                return mlp
            return nn.Sequential(OneHot(space, getattr(torch, model["dtype"])), *mlp)

        # pi and V first: ACE and Off-PAC, which have no C, then start from the same weights.
        pi = network(outputs)
        self.build(pi, **{function.name: network(1) for function in self.learned_functions})
