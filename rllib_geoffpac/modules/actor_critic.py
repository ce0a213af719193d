"""What the emphatic actor-critics ask of an RLModule: pi, V, C and the target copies."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI, TargetNetworkAPI, ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override
from torch import nn

from rllib_geoffpac.maths.distributions import PolicyDistribution, make_distribution
from rllib_geoffpac.modules.exact_state import ExactStateRLModule

MODEL_CONFIG_KEYS = ("policy_distribution", "uses_density_ratio", "dtype")


class EmphaticRLModule(ExactStateRLModule, InferenceOnlyAPI, TargetNetworkAPI, ValueFunctionAPI):
    """Base class: a subclass builds the three separate function approximators in `setup`.

    `setup` must call `self.build(pi, v, c)` with modules that map observations [N, ...] to
    [N, num_outputs], [N, 1] and [N, 1] (before C's softplus). `c` is None for ACE and Off-PAC.

    Model config keys: `policy_distribution` ("gaussian" or "truncated_gaussian"),
    `uses_density_ratio` (whether there is a C), `dtype` ("float32" or "float64").
    """

    distribution: PolicyDistribution

    def build(self, pi: nn.Module, v: nn.Module, c: nn.Module | None) -> None:
        """Takes over the three approximators; call it at the end of `setup`."""
        self.pi, self.v, self.c = pi, v, c
        if self.distribution.has_global_std:
            self.std_parameter = nn.Parameter(torch.zeros(self.distribution.num_outputs))
        else:
            self.register_parameter("std_parameter", None)
        self.to(getattr(torch, self.model_config["dtype"]))

    def make_distribution(self) -> PolicyDistribution:
        """Sets and returns the distribution of the action space."""
        self.distribution = make_distribution(
            self.action_space, self.model_config["policy_distribution"]
        )
        return self.distribution

    def policy_parameters(self) -> list[nn.Parameter]:
        """theta, in the order in which the flat vectors F2, I and the scores are laid out."""
        own = [] if self.std_parameter is None else [self.std_parameter]
        return [*self.pi.parameters(), *own]

    def log_prob(self, observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """log pi(A|S): [N, ...], [N, ...] -> [N]."""
        return self.distribution.log_prob(self.pi(observations), self.std_parameter, actions)

    def entropy(self, observations: torch.Tensor) -> torch.Tensor:
        """Entropy of pi(.|S): [N, ...] -> [N]."""
        return self.distribution.entropy(self.pi(observations), self.std_parameter)

    def value(self, observations: torch.Tensor, target: bool = False) -> torch.Tensor:
        """V(S), or V'(S) of the target copy: [N, ...] -> [N]."""
        return (self.v_target if target else self.v)(observations).squeeze(-1)

    def density_ratio(self, observations: torch.Tensor, target: bool = False) -> torch.Tensor:
        """C(S) >= 0 through a softplus, or C'(S) of the target copy: [N, ...] -> [N]."""
        return F.softplus((self.c_target if target else self.c)(observations).squeeze(-1))

    def sync_targets(self) -> None:
        """Copies V and C into their target copies."""
        with torch.no_grad():
            for network, target in self.get_target_network_pairs():
                for parameter, copied in zip(
                    network.parameters(), target.parameters(), strict=True
                ):
                    copied.copy_(parameter)

    @override(TargetNetworkAPI)
    def make_target_networks(self) -> None:
        self.v_target = copy.deepcopy(self.v).requires_grad_(False)
        self.c_target = None if self.c is None else copy.deepcopy(self.c).requires_grad_(False)

    @override(TargetNetworkAPI)
    def get_target_network_pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        pairs = [(self.v, self.v_target)]
        return pairs if self.c is None else [*pairs, (self.c, self.c_target)]

    @override(TargetNetworkAPI)
    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {Columns.VF_PREDS: self.value(batch[Columns.OBS], target=True)}

    @override(ValueFunctionAPI)
    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        return self.value(batch[Columns.OBS])

    @override(InferenceOnlyAPI)
    def get_non_inference_attributes(self) -> list[str]:
        return ["v", "c", "v_target", "c_target"]

    @override(RLModule)
    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """The policy's outputs; `self.distribution` says what they stand for."""
        return {Columns.ACTION_DIST_INPUTS: self.pi(batch[Columns.OBS])}
