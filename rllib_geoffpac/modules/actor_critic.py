"""What the emphatic actor-critics ask of an RLModule: pi, the learned functions, target copies."""

from __future__ import annotations

import copy
from typing import Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI, TargetNetworkAPI, ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override
from torch import nn

from rllib_geoffpac.maths.arrays import softplus
from rllib_geoffpac.maths.distributions import PolicyDistribution, make_distribution
from rllib_geoffpac.modules.action_distribution import distribution_inputs
from rllib_geoffpac.modules.exact_state import ExactStateRLModule
from rllib_geoffpac.updates.learned import LEARNED, LearnedFunction

MODEL_CONFIG_KEYS = ("policy_distribution", "learned_functions", "averages_policy", "dtype")


class EmphaticRLModule(ExactStateRLModule, InferenceOnlyAPI, TargetNetworkAPI, ValueFunctionAPI):
    """Base class: a subclass builds the separate function approximators in `setup`.

    `setup` must call `self.build(pi, v=..., c=...)` with one network for each of
    `self.learned_functions`, by its name. pi maps observations [N, ...] to [N, num_outputs], the
    others to [N, 1], before the softplus of those that are positive. Those that are `of_actions`
    are `ActionValues`, of observations and of actions as vectors, in place of V.

    Model config keys: `policy_distribution` ("gaussian", "truncated_gaussian" or "beta"),
    `learned_functions` (names: "v" and, but for ACE and Off-PAC, "c"), `averages_policy` (whether
    there is an average of pi's weights, which then acts), `dtype` ("float32" or "float64").
    """

    distribution: PolicyDistribution
    std_parameter: nn.Parameter | None
    std_parameter_target: nn.Parameter | None
    pi_average: nn.Module | None
    std_parameter_average: nn.Parameter | None
    softplus_outputs = True
    """Whether the outputs of positive functions (C) pass through a softplus."""

    @property
    def learned_functions(self) -> list[LearnedFunction]:
        """The functions that are learned beside pi, in the order in which they learn."""
        return [LEARNED[name] for name in self.model_config["learned_functions"]]

    def build(self, pi: nn.Module, **functions: nn.Module) -> None:
        """Takes over the approximators; call it at the end of `setup`."""
        self.pi = pi
        for function in self.learned_functions:
            setattr(self, function.name, functions.pop(function.name))
        if functions:
            raise ValueError(
                f"`build` was given {', '.join(functions)}, which nothing here learns: give it the "
                "networks of `self.learned_functions`."
            )
        if self.distribution.has_global_std:
            self.std_parameter = nn.Parameter(torch.zeros(self.distribution.num_outputs))
        else:
            self.register_parameter("std_parameter", None)
        self.register_parameter("std_parameter_target", None)
        self.pi_average = None
        self.register_parameter("std_parameter_average", None)
        if self.model_config.get("averages_policy"):
            self.pi_average = copy.deepcopy(pi).requires_grad_(False)
            if self.std_parameter is not None:
                self.std_parameter_average = _fixed_copy(self.std_parameter)
        self.to(getattr(torch, self.model_config["dtype"]))

    def make_distribution(self) -> PolicyDistribution:
        """Sets and returns the distribution of the action space."""
        self.distribution = make_distribution(
            self.action_space, self.model_config["policy_distribution"]
        )
        return self.distribution

    def parameters_of(self, name: str, target: bool = False) -> list[nn.Parameter]:
        """The parameters of a learned function, or theta for "pi", or of the target copy.

        Theta's order is that in which the flat vectors F2, I and the scores are laid out.
        """
        suffix = "_target" if target else ""
        parameters = list(getattr(self, f"{name}{suffix}").parameters())
        std = getattr(self, f"std_parameter{suffix}")
        return [*parameters, std] if name == "pi" and std is not None else parameters

    def average_parameters(self) -> list[nn.Parameter]:
        """Those of pi's average, in theta's order; none if there is no average."""
        if self.pi_average is None:
            return []
        parameters, std = list(self.pi_average.parameters()), self.std_parameter_average
        return parameters if std is None else [*parameters, std]

    @property
    def acting_policy(self) -> nn.Module:
        """The network that acts outside of learning: that of pi's average, if there is one."""
        return self.pi if self.pi_average is None else self.pi_average

    @property
    def acting_std_parameter(self) -> nn.Parameter | None:
        """The std parameter [d] that goes with it, if there is one."""
        return self.std_parameter if self.pi_average is None else self.std_parameter_average

    def function(self, name: str, *inputs: torch.Tensor, target: bool = False) -> Any:
        """What a learned function, or its target copy, says: [N, ...] -> [N].

        pi: its outputs [N, num_outputs]. Action values: K times [N], of observations and actions.
        """
        outputs = getattr(self, f"{name}_target" if target else name)(*inputs)
        if name == "pi":
            return outputs
        if LEARNED[name].of_actions:
            return [values.squeeze(-1) for values in outputs]
        outputs = outputs.squeeze(-1)
        return softplus(outputs) if LEARNED[name].positive and self.softplus_outputs else outputs

    def log_prob(self, observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """log pi(A|S): [N, ...], [N, ...] -> [N]."""
        return self.distribution.log_prob(self.pi(observations), self.std_parameter, actions)

    def action(
        self, observations: torch.Tensor, noise: torch.Tensor | None, target: bool = False
    ) -> torch.Tensor:
        """a of pi(.|S), or of its target copy, as action values see it: -> [N, action_size]."""
        outputs = self.function("pi", observations, target=target)
        std = self.std_parameter_target if target else self.std_parameter
        return self.distribution.differentiable_action(outputs, std, noise)

    def entropy(self, observations: torch.Tensor) -> torch.Tensor:
        """Entropy of pi(.|S): [N, ...] -> [N]."""
        return self.distribution.entropy(self.pi(observations), self.std_parameter)

    @property
    def target_names(self) -> list[str]:
        """What has a target copy: all learned functions; pi too, where action values follow it."""
        functions = self.learned_functions
        with_policy = any(function.of_actions for function in functions)
        return [*(function.name for function in functions), *(["pi"] if with_policy else [])]

    @override(TargetNetworkAPI)
    def make_target_networks(self) -> None:
        for name in self.target_names:
            copied = copy.deepcopy(getattr(self, name)).requires_grad_(False)
            setattr(self, f"{name}_target", copied)
        if "pi" in self.target_names and self.std_parameter is not None:
            self.std_parameter_target = _fixed_copy(self.std_parameter)

    @override(TargetNetworkAPI)
    def get_target_network_pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        names = self.target_names
        pairs = [(getattr(self, name), getattr(self, f"{name}_target")) for name in names]
        std, copied = self.std_parameter, self.std_parameter_target
        if std is None or copied is None:
            return pairs
        return [*pairs, (nn.ParameterList([std]), nn.ParameterList([copied]))]

    @override(TargetNetworkAPI)
    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {Columns.VF_PREDS: self._values(batch[Columns.OBS], target=True)}

    @override(ValueFunctionAPI)
    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        return self._values(batch[Columns.OBS])

    def _values(self, observations: torch.Tensor, target: bool = False) -> torch.Tensor:
        """V(S) [N]; without a V, Q_1(S, a) at the median action, or summed over all actions."""
        if "q" not in self.target_names:
            return self.function("v", observations, target=target)
        size = len(observations), self.distribution.noise_size
        noise = torch.full(size, 0.5, dtype=self.dtype, device=observations.device)
        action = self.action(observations, noise, target=target)
        return self.function("q", observations, action, target=target)[0]

    @override(InferenceOnlyAPI)
    def get_non_inference_attributes(self) -> list[str]:
        names = [function.name for function in self.learned_functions]
        targets = [f"{name}_target" for name in (*self.target_names, "std_parameter")]
        return [*names, *targets]

    @override(RLModule)
    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """What pi's actions depend on; `get_inference_action_dist_cls` makes actions of it."""
        outputs = self.acting_policy(self.observations_of(batch))
        return {Columns.ACTION_DIST_INPUTS: distribution_inputs(outputs, self.acting_std_parameter)}


def _fixed_copy(parameter: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(parameter.detach().clone(), requires_grad=False)
