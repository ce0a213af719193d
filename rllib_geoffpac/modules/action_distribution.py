"""pi's distribution as RLlib's inference loop wants it: a class with `from_logits`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.core.distribution.distribution import Distribution
from ray.rllib.core.distribution.torch.torch_distribution import TorchDeterministic
from ray.rllib.utils.annotations import override

from rllib_geoffpac.maths.distributions import PolicyDistribution


def distribution_inputs(
    outputs: torch.Tensor, std_parameter: torch.Tensor | None = None
) -> torch.Tensor:
    """Everything that an action's distribution depends on, one row for each state.

    Args:
        outputs: [N, num_outputs] of pi's network.
        std_parameter: [d], if the policy has one: every row gets it.
    """
    if std_parameter is None:
        return outputs
    return torch.cat([outputs, std_parameter.expand(outputs.shape[0], -1)], dim=-1)


class ActionDistribution(Distribution):
    """The actions of pi, in the shape, the units and the dtype that `env.step` takes.

    A Gaussian's samples outside of the box are moved to its edge, as in evaluation. Samples follow
    torch's random numbers: `torch.manual_seed` repeats them.

    Args:
        inputs: [N, ...] from `distribution_inputs`.
    """

    policy: PolicyDistribution
    """What the inputs stand for; a subclass made by `action_distribution_class` has it."""

    def __init__(self, inputs: torch.Tensor):
        super().__init__()
        size, rest = self.policy.num_outputs, None
        self._outputs = inputs[..., :size]
        if self.policy.has_global_std:
            rest = inputs[..., size:]
        self._std_parameter = rest

    @classmethod
    @override(Distribution)
    def from_logits(cls, logits: torch.Tensor, **kwargs: Any) -> ActionDistribution:
        return cls(logits)

    @override(Distribution)
    def sample(self, *, sample_shape: tuple[int, ...] | None = None, **kwargs: Any) -> torch.Tensor:
        """Actions [*sample_shape, N, *action shape]."""
        rng = np.random.default_rng(int(torch.randint(2**62, ())))
        if not sample_shape:
            return self._actions(self.policy.sample, rng)
        drawn = [self._actions(self.policy.sample, rng) for _ in range(int(np.prod(sample_shape)))]
        return torch.stack(drawn).reshape(*sample_shape, *drawn[0].shape)

    @override(Distribution)
    def to_deterministic(self) -> TorchDeterministic:
        """The mean of a Gaussian, the most likely action of the others."""
        return TorchDeterministic(loc=self._actions(self.policy.mode))

    def _actions(self, choose: Callable[..., np.ndarray], *how: Any) -> torch.Tensor:
        std = None if self._std_parameter is None else _to_numpy(self._std_parameter)
        actions = choose(_to_numpy(self._outputs), std, *how)
        return torch.as_tensor(self.policy.to_env(actions), device=self._outputs.device)

    @override(Distribution)
    def logp(self, value: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        """log pi(A|S) [N] of actions [N, *action shape], in the units of the environment."""
        return self.policy.log_prob(self._outputs, self._std_parameter, value)

    @override(Distribution)
    def entropy(self, **kwargs: Any) -> torch.Tensor:
        return self.policy.entropy(self._outputs, self._std_parameter)

    @override(Distribution)
    def rsample(self, **kwargs: Any) -> torch.Tensor:
        raise NotImplementedError("Samples of pi can't be differentiated; `sample` draws them.")

    @override(Distribution)
    def kl(self, other: Distribution, **kwargs: Any) -> torch.Tensor:
        raise NotImplementedError("Only `logp` and `entropy` are known of pi.")

    @staticmethod
    @override(Distribution)
    def required_input_dim(space: gym.Space, **kwargs: Any) -> int:
        raise NotImplementedError("`module.distribution.num_outputs` says it, for its own space.")


def action_distribution_class(policy: Any) -> type[Distribution]:
    """The class for the actions of one policy: of a `PolicyDistribution`, or a deterministic one.

    Example:
        >>> from rllib_geoffpac.maths.distributions import make_distribution
        >>> policy = make_distribution(gym.spaces.Discrete(3, start=7), "gaussian")
        >>> actions = action_distribution_class(policy).from_logits(torch.tensor([[0.0, 9.0, 0.0]]))
        >>> actions.to_deterministic().sample()
        tensor([8])
    """
    if not isinstance(policy, PolicyDistribution):
        return type("DeterministicAction", (_DeterministicAction,), {"policy": policy})
    return type(f"{type(policy).__name__}Actions", (ActionDistribution,), {"policy": policy})


class _DeterministicAction(TorchDeterministic):
    """The one action of a deterministic policy, in the units of the environment."""

    policy: Any

    @classmethod
    @override(Distribution)
    def from_logits(cls, logits: torch.Tensor, **kwargs: Any) -> _DeterministicAction:
        return cls(torch.as_tensor(cls.policy.mode(_to_numpy(logits)), device=logits.device))


def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()
