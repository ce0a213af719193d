"""The policy's forward pass in numpy is torch's, and gives way where it can't be."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from rllib_geoffpac.modules import MLPRLModule, TabularRLModule
from rllib_geoffpac.modules.deterministic_actor_critic import DeterministicActorCriticRLModule
from rllib_geoffpac.modules.networks import OneHot
from rllib_geoffpac.modules.numpy_forward import numpy_forward, numpy_policy

BOX, STATES = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(5, start=3)


def module_of(module_class, observations, actions=BOX, dtype="float32", **model):
    defaults = {"fcnet_hiddens": [16, 16], "dtype": dtype}
    if module_class is DeterministicActorCriticRLModule:
        own = {"num_critics": 1, "action_layer": 0, "last_layer_bound": None}
    else:
        own = {"policy_distribution": "gaussian", "learned_functions": ["v"]}
        own |= {"fcnet_activation": "relu"}
    module = module_class(
        observation_space=observations,
        action_space=actions,
        model_config={**defaults, **own, **model},
        inference_only=False,
    )
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter))
    return module


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("module_class", "observations", "actions"),
    [
        (MLPRLModule, gym.spaces.Box(-1, 1, (7,)), BOX),
        (MLPRLModule, STATES, gym.spaces.Discrete(4)),
        (TabularRLModule, STATES, gym.spaces.Discrete(4)),
        (DeterministicActorCriticRLModule, gym.spaces.Box(-1, 1, (7,)), BOX),
        (DeterministicActorCriticRLModule, STATES, BOX),
    ],
)
def test_the_numpy_pass_gives_torchs_outputs(module_class, observations, actions, dtype):
    torch.manual_seed(0)
    module = module_of(module_class, observations, actions, dtype)
    observations.seed(0)
    rows = np.stack([observations.sample() for _ in range(30)])
    as_torch = torch.from_numpy(rows)
    if as_torch.is_floating_point():
        as_torch = as_torch.to(module.dtype)
    expected = module.forward_inference({"obs": as_torch})["action_dist_inputs"].detach().numpy()
    outputs = numpy_policy(module)(rows)
    expected = expected[:, : module.distribution.num_outputs]  # behind them stands the std
    assert outputs.dtype == expected.dtype == dtype
    tolerance = {"float32": 1e-6, "float64": 1e-13}[dtype]
    np.testing.assert_allclose(outputs, expected, rtol=tolerance, atol=10 * tolerance)


def test_a_row_does_not_depend_on_the_others():
    torch.manual_seed(0)
    forward = numpy_policy(module_of(MLPRLModule, gym.spaces.Box(-1, 1, (7,))))
    batch = np.random.default_rng(0).normal(size=(10, 7)).astype(np.float32)
    outputs = forward(batch)
    for row in range(10):
        alone = np.zeros_like(batch)
        alone[row] = batch[row]
        assert np.array_equal(forward(alone)[row], outputs[row])


def test_networks_with_other_layers_or_hooks_are_left_to_torch():
    assert numpy_forward(nn.Sequential(nn.Linear(3, 2), nn.Softplus())) is None
    hooked = nn.Sequential(OneHot(STATES, torch.float32), nn.Linear(5, 2))
    assert numpy_forward(hooked) is not None
    hooked[1].register_forward_hook(lambda *_: None)
    assert numpy_forward(hooked) is None


def test_a_module_that_acts_in_a_way_of_its_own_is_left_to_torch():
    class Shy(MLPRLModule):
        def _forward_inference(self, batch, **kwargs):
            return {"action_dist_inputs": torch.zeros(len(batch["obs"]), 2)}

    assert numpy_policy(module_of(Shy, gym.spaces.Box(-1, 1, (7,)))) is None
