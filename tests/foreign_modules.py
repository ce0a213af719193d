"""RLModules of a user's who knows RLlib and the protocol of docs/connectors.md alone."""

from __future__ import annotations

import copy

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import TargetNetworkAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import nn

from rllib_geoffpac.maths.distributions import make_distribution


class Plain(TorchRLModule):
    """As for RLlib's own policy gradients: a policy, and nothing that these algorithms ask for."""

    def setup(self):
        self.pi = nn.Linear(self.observation_space.shape[0], 4)

    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: self.pi(batch[Columns.OBS])}


class Foreign(TorchRLModule, TargetNetworkAPI):
    """Everything that the protocol lists for GeoffPAC's default settings, and nothing else."""

    def setup(self):
        size = self.observation_space.shape[0]
        self.distribution = make_distribution(self.action_space, "gaussian")
        self.networks = nn.ModuleDict(
            {
                "pi": nn.Linear(size, self.distribution.num_outputs),
                "v": nn.Sequential(nn.Linear(size, 4), nn.GELU(), nn.Linear(4, 1)),
                "c": nn.Linear(size, 1),
            }
        )
        self.std_parameter = nn.Parameter(torch.zeros(self.distribution.num_outputs))

    @property
    def acting_std_parameter(self):
        return self.std_parameter

    @property
    def dtype(self):
        return torch.float32

    def function(self, name, observations, target=False):
        outputs = (self.targets if target else self.networks)[name](observations)
        if name == "pi":
            return outputs
        return nn.functional.softplus(outputs)[:, 0] if name == "c" else outputs[:, 0]

    def log_prob(self, observations, actions):
        outputs = self.function("pi", observations)
        return self.distribution.log_prob(outputs, self.std_parameter, actions)

    def entropy(self, observations):
        return self.distribution.entropy(self.function("pi", observations), self.std_parameter)

    def parameters_of(self, name):
        parameters = list(self.networks[name].parameters())
        return [*parameters, self.std_parameter] if name == "pi" else parameters

    def make_target_networks(self):
        functions = nn.ModuleDict({name: self.networks[name] for name in ("v", "c")})
        self.targets = copy.deepcopy(functions).requires_grad_(False)

    def get_target_network_pairs(self):
        return [(self.networks[name], self.targets[name]) for name in ("v", "c")]

    def forward_target(self, batch, **kwargs):
        return {Columns.VF_PREDS: self.function("v", batch[Columns.OBS], target=True)}

    def _forward(self, batch, **kwargs):
        outputs = self.function("pi", batch[Columns.OBS])
        std = self.std_parameter.expand(len(outputs), -1)
        return {Columns.ACTION_DIST_INPUTS: torch.cat([outputs, std], dim=-1)}
