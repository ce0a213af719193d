"""The default networks are those that RLlib's `DefaultModelConfig` describes, or say why not."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from torch import nn

from rllib_geoffpac import DDPGConfig, GeoffPACConfig
from rllib_geoffpac.updates.choice import why_not_fast

VECTOR = gym.spaces.Box(-1, 1, (3,), np.float32)
IMAGE = gym.spaces.Box(0, 255, (6, 5, 2), np.uint8)
ACTIONS = gym.spaces.Box(-1, 1, (2,), np.float32)


def module_of(model_config, observations=VECTOR, config=GeoffPACConfig):
    config = config().rl_module(model_config=model_config)
    spec = config.get_default_rl_module_spec()
    spec.observation_space, spec.action_space = observations, ACTIONS
    spec.model_config = config.model_config
    torch.manual_seed(0)
    return spec.build()


def linears(network):
    return [layer for layer in network.modules() if isinstance(layer, nn.Linear)]


def test_hidden_layers_and_heads_follow_each_other():
    model = {
        "fcnet_hiddens": [7],
        "head_fcnet_hiddens": [5, 4],
        "head_fcnet_activation": "tanh",
        "fcnet_use_layernorm": True,
        "head_fcnet_use_layernorm": False,
    }
    network = module_of(model).v
    assert [layer.out_features for layer in linears(network)] == [7, 5, 4, 1]
    kinds = [type(layer) for layer in network]
    assert kinds[:3] == [nn.Linear, nn.LayerNorm, nn.ReLU]
    assert kinds[3:] == [nn.Linear, nn.Tanh, nn.Linear, nn.Tanh, nn.Linear]


@pytest.mark.parametrize("config", [GeoffPACConfig, DDPGConfig])
def test_initializers_draw_the_parameters(config):
    model = {
        "fcnet_hiddens": [7],
        "fcnet_kernel_initializer": "constant_",
        "fcnet_kernel_initializer_kwargs": {"val": 0.25},
        "fcnet_bias_initializer": "ones_",
    }
    first, *_ = linears(module_of(model, config=config).pi)
    assert (first.weight == 0.25).all() and (first.bias == 1).all()


def test_a_head_s_initializer_is_also_that_of_the_outputs():
    model = {"fcnet_hiddens": [7], "head_fcnet_kernel_initializer": "zeros_"}
    model |= {"head_fcnet_bias_initializer": nn.init.ones_}
    *_, last = linears(module_of(model).pi)
    assert not last.weight.any() and (last.bias == 1).all()


@pytest.mark.parametrize("config", [GeoffPACConfig, DDPGConfig])
def test_convolutions_see_bytes_as_numbers_up_to_one(config):
    model = {
        "conv_filters": [[4, 3, 2], [3, [2, 2], 1, "valid"]],
        "conv_activation": "linear",
        "conv_bias_initializer": "zeros_",
        "fcnet_hiddens": [],
    }
    module = module_of(model, IMAGE, config)
    (first, *_) = [layer for layer in module.pi.modules() if isinstance(layer, nn.Conv2d)]
    seen = []
    first.register_forward_hook(lambda layer, inputs, output: seen.append(inputs[0]))
    pictures = torch.full((2, 6 * 5 * 2), 255.0)
    module.function("pi", pictures)
    assert seen[0].shape[:2] == (2, 2), "channels come first"
    assert seen[0].max() == 1
    assert why_not_fast("auto", module) == "it has no convolutions"


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("config", [GeoffPACConfig, DDPGConfig])
@pytest.mark.parametrize("depth", [0, 1, 4])
def test_the_compiled_backend_serves_relu_and_tanh_of_any_depth(config, activation, depth):
    model = {"fcnet_hiddens": [5] * depth, "fcnet_activation": activation}
    if config is GeoffPACConfig:
        model["head_fcnet_hiddens"] = [3] * depth
    assert why_not_fast("auto", module_of(model, config=config)) is None


def test_rllib_s_own_defaults_are_taken_as_a_whole():
    network = module_of(DefaultModelConfig(fcnet_hiddens=[6], vf_share_layers=False)).pi
    assert [type(layer) for layer in network] == [nn.Linear, nn.Tanh, nn.Linear]
    module_of(DefaultModelConfig(free_log_std=True))


REFUSED = {
    "has use_lstm True, but there are no recurrent networks.*FrameStacking": {"use_lstm": True},
    "has lstm_cell_size 9, but there are no recurrent": {"lstm_cell_size": 9},
    "has max_seq_len 5, but": {"max_seq_len": 5},
    "has fusionnet_hiddens .*, but a module has one stream": {"fusionnet_hiddens": [3]},
    "has vf_share_layers True, but pi and every": {"vf_share_layers": True},
    "has log_std_clip_param 2.0, but": {"log_std_clip_param": 2.0},
    "has conv_filters, which need images": {"conv_filters": [[4, 3, 2]]},
    r"conv_filters 3; allowed is a list of \[filters": {"conv_filters": 3},
    "conv_activation 'rely'; allowed is 'relu'": {"conv_activation": "rely"},
    "fcnet_kernel_initializer 'zeros'; allowed is": {"fcnet_kernel_initializer": "zeros"},
    "head_fcnet_hiddens 'big'; allowed is a list": {"head_fcnet_hiddens": "big"},
    "has no key `fcnet_hidens`": {"fcnet_hidens": [3]},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_can_t_be_honoured_is_named(message):
    with pytest.raises(ValueError, match=message):
        module_of(REFUSED[message])


def test_ddpg_has_no_heads():
    with pytest.raises(ValueError, match=r"has head_fcnet_hiddens .*, but .*: use fcnet_hiddens"):
        module_of({"head_fcnet_hiddens": [3]}, config=DDPGConfig)
