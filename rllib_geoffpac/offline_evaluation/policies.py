"""The target policy as the estimators ask for it: log-densities, and actions that it would take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from rllib_geoffpac.maths.distributions import Categorical, PolicyDistribution

if TYPE_CHECKING:
    from ray.rllib.core.rl_module.torch import TorchRLModule

_ROWS_AT_ONCE = 20_000
_SAMPLES = 4


class ModulePolicy:
    """pi of a module of this package, whose networks are on the CPU.

    Args:
        module: It has `function("pi", observations)`, `distribution` and `std_parameter`.
        deterministic: Whether its mean or most likely action is evaluated, as for DDPG and TD3.
    """

    def __init__(self, module: TorchRLModule, deterministic: bool = False):
        self.module = module
        self.distribution = module.distribution
        self.has_density = isinstance(self.distribution, PolicyDistribution) and not deterministic
        std = module.std_parameter
        self._std = None if std is None else std.detach()
        self._dtype = next(module.parameters()).dtype

    def log_prob(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """log pi(A|S) [N], float64, in the environment's units."""
        parts = []
        for rows in _blocks(len(observations)):
            taken = torch.from_numpy(np.ascontiguousarray(actions[rows]))
            with torch.no_grad():
                outputs = self._outputs(observations[rows])
                logp = self.distribution.log_prob(outputs, self._std, taken)
            parts.append(logp.numpy().astype(np.float64))
        return np.concatenate(parts)

    def candidates(
        self, observations: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Actions of pi [N, K, ...] and their weights [N, K], whose rows sum to 1.

        All actions of a Discrete space with their probabilities, samples of a Box; the one action
        of a deterministic policy.
        """
        actions, chances = [], []
        std = None if self._std is None else self._std.numpy()
        for rows in _blocks(len(observations)):
            with torch.no_grad():
                outputs = self._outputs(observations[rows]).numpy()
            count = len(outputs)
            if not self.has_density:
                taken = self.distribution.mode(outputs, std)[:, None]
            elif isinstance(self.distribution, Categorical):
                shifted = np.exp(outputs - outputs.max(axis=1, keepdims=True))
                chances.append(shifted / shifted.sum(axis=1, keepdims=True))
                every = self.distribution.start + np.arange(outputs.shape[1])
                actions.append(np.tile(every, (count, 1)))
                continue
            else:
                drawn = [self.distribution.sample(outputs, std, rng) for _ in range(_SAMPLES)]
                taken = np.stack([self.distribution.to_env(action) for action in drawn], axis=1)
            actions.append(taken)
            chances.append(np.full(taken.shape[:2], 1 / taken.shape[1]))
        return np.concatenate(actions), np.concatenate(chances)

    def _outputs(self, observations: np.ndarray) -> torch.Tensor:
        flat = torch.from_numpy(np.ascontiguousarray(observations))
        if flat.is_floating_point():
            flat = flat.reshape(len(flat), -1).to(self._dtype)
        return self.module.function("pi", flat)


def _blocks(count: int) -> list[slice]:
    return [slice(first, first + _ROWS_AT_ONCE) for first in range(0, count, _ROWS_AT_ONCE)]
