"""The networks of DDPG and TD3: a deterministic policy, one or two critics, their target copies."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable
from typing import Any, cast

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI, TargetNetworkAPI
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override
from torch import nn

from rllib_geoffpac.maths.action_spaces import UnitBox
from rllib_geoffpac.modules.exact_state import ExactStateRLModule
from rllib_geoffpac.modules.model_config import check_model_config
from rllib_geoffpac.modules.networks import (
    CONV_KEYS,
    INITIALIZER_KEYS,
    Encoder,
    UnsupportedSpace,
    initialize,
    make_activation,
)
from rllib_geoffpac.validation import is_count

_MODEL_CONFIG_KEYS = (
    *("fcnet_hiddens", "fcnet_activation", *(f"fcnet_{key}" for key in INITIALIZER_KEYS)),
    *CONV_KEYS,
    *("num_critics", "action_layer", "last_layer_bound", "dtype"),
)


class DeterministicPolicy:
    """What the policy's outputs stand for: the action itself, scaled from [-1, 1]^d to the box.

    It has the methods that the evaluation asks of a `PolicyDistribution`; sampling from a
    deterministic policy takes its one action.

    Args:
        action_space: A bounded Box of floats, of any shape and bounds.
    """

    def __init__(self, action_space: gym.Space):
        if not isinstance(action_space, gym.spaces.Box):
            raise UnsupportedSpace(
                f"The action space {action_space} is not supported: DDPG and TD3 need continuous "
                "actions, a bounded Box of floats. Use GeoffPAC, ACE or OffPAC (or RLlib's DQN) "
                "for Discrete actions."
            )
        self.action_space, self.box = action_space, UnitBox(action_space)
        self.num_outputs = self.box.size

    def mode(self, outputs: np.ndarray, std_parameter: None = None) -> np.ndarray:
        """Unit-box actions [N, d] to [N, *shape] in the environment's units."""
        return self.to_env(self.box.from_unit(outputs))

    def sample(self, outputs: np.ndarray, std_parameter: None, rng: Any) -> np.ndarray:
        """The mode: there is nothing to draw."""
        return self.mode(outputs)

    def to_env(self, actions: np.ndarray) -> np.ndarray:
        """`actions[N, *shape]` as `env.step` takes them; rounding may have left the box."""
        return self.box.clip(actions)

    def to_unit(self, actions: np.ndarray) -> np.ndarray:
        """`actions[..., *shape]` in the environment's units to [..., d] in the unit box."""
        return self.box.to_unit(actions).astype(np.float32)


class Critic(nn.Module):
    """Q(S, A); the action enters at layer `action_layer` (0: beside the state).

    Args:
        encoder: What the layers see of observations.
        num_inputs: Its size.
        num_actions: d.
        model: The model config: `fcnet_hiddens`, `fcnet_activation`, `action_layer`.
    """

    def __init__(
        self, encoder: nn.Module, num_inputs: int, num_actions: int, model: dict[str, Any]
    ):
        super().__init__()
        self.encoder = encoder
        self.activation = nn.Sequential(*make_activation(model.get("fcnet_activation", "relu")))
        hiddens = list(model["fcnet_hiddens"])
        self.action_layer = min(model["action_layer"], len(hiddens))
        sizes = [num_inputs, *hiddens, 1]
        self.layers = nn.ModuleList(
            nn.Linear(fan_in + num_actions * (k == self.action_layer), fan_out)
            for k, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes))
        )

    @property
    def last(self) -> nn.Linear:
        """The layer that gives Q."""
        return cast(nn.Linear, self.layers[-1])

    def forward(self, observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """[N, ...], [N, d] -> [N]."""
        features, last = self.encoder(observations), len(self.layers) - 1
        for k, layer in enumerate(self.layers):
            if k == self.action_layer:
                features = torch.cat([features, actions], dim=-1)
            features = layer(features)
            if k < last:
                features = self.activation(features)
        return features.squeeze(-1)


class DeterministicActorCriticRLModule(ExactStateRLModule, InferenceOnlyAPI, TargetNetworkAPI):
    """pi (tanh, in the unit box), the critics Q_k and, on the learner, target copies of both.

    The critics see actions in the unit box, so that bounds of any size are the same to them.

    Model config keys: `fcnet_hiddens` ([400, 300]), `fcnet_activation` ("relu") and the other
    keys of RLlib's `DefaultModelConfig` for convolutions and initializers; `num_critics`,
    `action_layer` (where the action enters the critics), `last_layer_bound` (the last layers'
    initial weights are uniform in +- this; None: as all layers, +- 1/sqrt(fan_in)), `dtype`.
    """

    std_parameter = None

    @override(RLModule)
    def setup(self) -> None:
        model = self.model_config
        check_model_config(model, _MODEL_CONFIG_KEYS)
        for key, least in (("num_critics", 1), ("action_layer", 0)):
            possible, allowed = is_count(model[key], least)
            if not possible:
                raise ValueError(f"`model_config` has {key} {model[key]!r}; allowed is {allowed}.")
        self.distribution = DeterministicPolicy(self.action_space)
        encoder = Encoder(self.observation_space, model)
        # Without parameters it is the same for all networks.
        shared = encoder.make if not encoder.has_layers else nn.Identity
        own = encoder.make if encoder.has_layers else nn.Identity
        self.features = shared()
        outputs, hiddens = self.distribution.num_outputs, list(model["fcnet_hiddens"])
        # torch's own initialisation of a Linear is Lillicrap's: uniform in +- 1/sqrt(fan_in).
        layers: list[nn.Module] = [own()] if encoder.has_layers else []
        for fan_in, fan_out in itertools.pairwise([encoder.size, *hiddens]):
            layers.append(nn.Linear(fan_in, fan_out))
            layers += make_activation(model.get("fcnet_activation", "relu"))
        last = nn.Linear([encoder.size, *hiddens][-1], outputs)
        self.pi = nn.Sequential(*layers, last, nn.Tanh())
        self.q = nn.ModuleList(
            Critic(own(), encoder.size, outputs, model) for _ in range(model["num_critics"])
        )
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                initialize(layer, model, "fcnet")
        if model["last_layer_bound"] is not None:
            bound = model["last_layer_bound"]
            critics = cast(Iterable[Critic], self.q)
            for layer in [last, *(critic.last for critic in critics)]:
                nn.init.uniform_(layer.weight, -bound, bound)
                nn.init.uniform_(layer.bias, -bound, bound)
        self.to(encoder.dtype)

    @property
    def acting_policy(self) -> nn.Module:
        """The network that acts outside of learning."""
        return self.pi

    @property
    def acting_std_parameter(self) -> None:
        """There is nothing to draw."""

    def average_parameters(self) -> list[nn.Parameter]:
        """There is no average of pi."""
        return []

    def policy(self, observations: torch.Tensor, target: bool = False) -> torch.Tensor:
        """pi(S), or pi'(S), in the unit box: [N, ...] -> [N, d]."""
        return (self.pi_target if target else self.pi)(self.features(observations))

    def q_values(
        self, observations: torch.Tensor, actions: torch.Tensor, target: bool = False
    ) -> list[torch.Tensor]:
        """Q_k(S, A), or Q'_k(S, A), of all critics: [N, ...], [N, d] -> K times [N]."""
        features = self.features(observations)
        return [critic(features, actions) for critic in (self.q_target if target else self.q)]

    def function(self, name: str, *inputs: torch.Tensor, target: bool = False) -> Any:
        """pi(S), or Q_k(S, A) of all critics, or of the target copies."""
        if name == "pi":
            (observations,) = inputs
            return self.policy(observations, target)
        observations, actions = inputs
        return self.q_values(observations, actions, target)

    def parameters_of(self, name: str, target: bool = False) -> list[nn.Parameter]:
        """The parameters of "pi" or of all critics, "q", or of their target copies."""
        return list(getattr(self, f"{name}_target" if target else name).parameters())

    @property
    def target_names(self) -> list[str]:
        """What has a target copy."""
        return ["pi", "q"]

    @override(TargetNetworkAPI)
    def make_target_networks(self) -> None:
        self.pi_target = copy.deepcopy(self.pi).requires_grad_(False)
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)

    @override(TargetNetworkAPI)
    def get_target_network_pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        return [(self.pi, self.pi_target), (self.q, self.q_target)]

    @override(TargetNetworkAPI)
    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.policy(batch[Columns.OBS], target=True)}

    @override(InferenceOnlyAPI)
    def get_non_inference_attributes(self) -> list[str]:
        return ["q", "q_target", "pi_target"]

    @override(RLModule)
    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """The action in the unit box; `get_inference_action_dist_cls` scales it to the env's."""
        return {Columns.ACTION_DIST_INPUTS: self.policy(self.observations_of(batch))}
