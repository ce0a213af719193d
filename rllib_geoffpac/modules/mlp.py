"""The paper's networks: three separate MLPs with two hidden ReLU layers of 64 units."""

from __future__ import annotations

import gymnasium as gym
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override
from torch import nn

from rllib_geoffpac.modules.action_value import ActionValue, ActionValues
from rllib_geoffpac.modules.actor_critic import MODEL_CONFIG_KEYS, EmphaticRLModule
from rllib_geoffpac.modules.model_config import check_model_config
from rllib_geoffpac.modules.networks import (
    CONV_KEYS,
    INITIALIZER_KEYS,
    STACK_KEYS,
    Encoder,
    make_mlp,
)

_STACKS = [
    f"{stack}_{key}" for stack in ("fcnet", "head_fcnet") for key in STACK_KEYS + INITIALIZER_KEYS
]


class MLPRLModule(EmphaticRLModule):
    """pi and the learned functions as separate MLPs over the flattened (or one-hot) observation.

    Model config keys beyond the base's are those of RLlib's `DefaultModelConfig`: `fcnet_hiddens`
    (default [64, 64]) with `fcnet_activation` ("relu", the paper's), then `head_fcnet_hiddens`
    (none), their initializers and layer normalisations. `conv_filters`, for observations of shape
    (width, height, channels), stand before them.
    """

    @override(RLModule)
    def setup(self) -> None:
        model, distribution = self.model_config, self.make_distribution()
        used = {*MODEL_CONFIG_KEYS, *CONV_KEYS, *_STACKS}
        check_model_config(model, used, distribution.has_global_std)
        encoder = Encoder(self.observation_space, model)
        joins_action = isinstance(self.action_space, gym.spaces.Box)

        def network(num_outputs: int) -> nn.Module:
            return encoder.before(make_mlp(encoder.size, num_outputs, model))

        def critic() -> nn.Module:
            size = distribution.action_size
            sizes = (encoder.size + size, 1) if joins_action else (encoder.size, size)
            return ActionValue(encoder.make(), make_mlp(*sizes, model), joins_action)

        # pi and V first: ACE and Off-PAC, which have no C, then start from the same weights.
        pi, functions = network(distribution.num_outputs), {}
        for function in self.learned_functions:
            critics = ActionValues(critic() for _ in range(function.num_critics))
            functions[function.name] = critics if function.of_actions else network(1)
        self.build(pi, **functions)
