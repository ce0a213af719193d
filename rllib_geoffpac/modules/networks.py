"""Networks as RLlib's `DefaultModelConfig` describes them: convolutions, hidden layers, heads."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import torch
import torch.nn.functional as F
from ray.rllib.core.models.torch.primitives import TorchCNN
from ray.rllib.models.utils import get_activation_fn, get_initializer_fn
from ray.rllib.utils.error import UnsupportedSpaceException
from torch import nn

from rllib_geoffpac.envs.observations import is_structured

# Last layers start small, as in the authors' code: pi near the centre of the box, V near 0.
_LAST_LAYER_SCALE = 1e-3

STACK_KEYS = ("hiddens", "activation", "use_layernorm")
"""What may be said of a stack of hidden layers, behind its name `fcnet` or `head_fcnet`."""
INITIALIZER_KEYS = (
    "kernel_initializer",
    "kernel_initializer_kwargs",
    "bias_initializer",
    "bias_initializer_kwargs",
)
"""What may be said of the initial parameters of a stack, `conv` included."""
CONV_KEYS = ("conv_filters", "conv_activation", *(f"conv_{key}" for key in INITIALIZER_KEYS))


class OneHot(nn.Module):
    """Discrete observations [N] to one-hot rows [N, n]."""

    def __init__(self, space: gym.spaces.Discrete, dtype: torch.dtype):
        super().__init__()
        self.start, self.n, self.dtype = int(space.start), int(space.n), dtype

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return F.one_hot(observations.long() - self.start, self.n).to(self.dtype)


class Image(nn.Module):
    """Flat observations [N, width * height * channels] to images; bytes to numbers from 0 to 1."""

    def __init__(self, space: gym.spaces.Box):
        super().__init__()
        self.shape, self.scale = space.shape, 1 / 255 if space.dtype == "uint8" else 1.0

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return observations.reshape(-1, *self.shape) * self.scale


class UnsupportedSpace(ValueError, UnsupportedSpaceException):
    """A space that the networks can't serve: an error of the user's, and by RLlib's name for it."""


class Encoder:
    """Makes the first part of every network, the one that depends on the observation space.

    Args:
        space: Of the module's observations.
        model: The model config: `dtype`, and `conv_filters` with what belongs to them.

    Attributes:
        size: Numbers that it makes of an observation.
    """

    def __init__(self, space: gym.Space, model: dict[str, Any]):
        if is_structured(space):
            raise UnsupportedSpace(
                f"The observation space {space} is not supported by the default networks: flatten "
                "it with RLlib's connector, `.env_runners(env_to_module_connector=lambda env, "
                "spaces, device: FlattenObservations())`, or with gymnasium's wrapper "
                "FlattenObservation."
            )
        self.space, self.model = space, model
        self.dtype = getattr(torch, model["dtype"])
        self.has_layers = bool(model.get("conv_filters"))
        if self.has_layers:
            self._check_images()
            # Which size it is, tells the network; whose parameters it takes, nobody.
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                blank = torch.zeros(1, math.prod(space.shape or ()))
                self.size = self.make()(blank).shape[1]
        elif isinstance(space, gym.spaces.Discrete):
            self.size = int(space.n)
        else:
            self.size = gym.spaces.flatdim(space)

    def _check_images(self) -> None:
        shape = self.space.shape or ()
        if not isinstance(self.space, gym.spaces.Box) or len(shape) != 3:
            raise ValueError(
                "`model_config` has conv_filters, which need images: observations of shape "
                f"(width, height, channels), not {self.space}. Leave conv_filters out, or give the "
                "observations that shape with a connector or a wrapper."
            )

    def make(self) -> nn.Module:
        """A new first part; without convolutions it has no parameters."""
        if isinstance(self.space, gym.spaces.Discrete):
            return OneHot(self.space, self.dtype)
        if not self.has_layers:
            return nn.Identity()
        assert isinstance(self.space, gym.spaces.Box)
        model = self.model
        convolutions = TorchCNN(
            input_dims=self.space.shape,
            cnn_filter_specifiers=model["conv_filters"],
            cnn_activation=model.get("conv_activation", "relu"),
            cnn_kernel_initializer=model.get("conv_kernel_initializer"),
            cnn_kernel_initializer_config=model.get("conv_kernel_initializer_kwargs"),
            cnn_bias_initializer=model.get("conv_bias_initializer"),
            cnn_bias_initializer_config=model.get("conv_bias_initializer_kwargs"),
        )
        return nn.Sequential(Image(self.space), convolutions, nn.Flatten())

    def before(self, network: nn.Sequential) -> nn.Sequential:
        """A network of observations, from one of what this makes of them."""
        first = self.make()
        return network if isinstance(first, nn.Identity) else nn.Sequential(first, *network)


def make_mlp(num_inputs: int, num_outputs: int, model: dict[str, Any]) -> nn.Sequential:
    """Linear, activation, ..., Linear: the stack `fcnet`, then `head_fcnet` with the outputs.

    Where the model config has no initializers, weights are orthogonal and biases 0. Orthogonal
    initialisation is the authors'; the paper doesn't say.
    """
    layers: list[nn.Module] = []
    size = num_inputs
    for stack in ("fcnet", "head_fcnet"):
        for hidden in model.get(f"{stack}_hiddens", ()):
            layers.append(_linear(size, hidden, model, stack))
            if model.get(f"{stack}_use_layernorm"):
                layers.append(nn.LayerNorm(hidden))
            layers += make_activation(model.get(f"{stack}_activation", "relu"))
            size = hidden
    return nn.Sequential(
        *layers, _linear(size, num_outputs, model, "head_fcnet", _LAST_LAYER_SCALE)
    )


def make_activation(name: Any) -> list[nn.Module]:
    """An activation by RLlib's name, in a list; 'linear' is none."""
    activation = get_activation_fn(name, framework="torch")
    return [activation()] if activation else []


def initialize(layer: nn.Linear, model: dict[str, Any], stack: str) -> None:
    """Draws the parameters of a layer anew, where the model config says how."""
    for parameter, kind in ((layer.weight, "kernel"), (layer.bias, "bias")):
        draw = get_initializer_fn(model.get(f"{stack}_{kind}_initializer"), framework="torch")
        if draw is not None:
            draw(parameter, **(model.get(f"{stack}_{kind}_initializer_kwargs") or {}))


def _linear(
    fan_in: int, fan_out: int, model: dict[str, Any], stack: str, scale: float = 1.0
) -> nn.Linear:
    layer = nn.Linear(fan_in, fan_out)
    nn.init.orthogonal_(layer.weight)
    with torch.no_grad():
        layer.weight.mul_(scale)
    nn.init.zeros_(layer.bias)
    initialize(layer, model, stack)
    return layer
