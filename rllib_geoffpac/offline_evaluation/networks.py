"""The fitted functions of off-policy evaluation as small networks with target copies.

Two networks. One has the action values of a state and an action,

    q   <- R + gamma E_pi[q(S', a')],
    q_u <- gamma_hat E_pi[i(S') q(S', a') + q_u(S', a')],  q_l <- gamma_hat E_pi[1 + q_l(S', a')],

with nothing after an episode's end, and no importance ratio. The other has the weights of a state,
C and its emphasis M, by the rules of `maths.density_ratio` and `maths.emphasis`, where an episode's
end leads to a first state of the data. All gamma_hats that are asked for are outputs of the same
two networks.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from rllib_geoffpac.maths.arrays import softplus
from rllib_geoffpac.maths.density_ratio import density_ratio_loss
from rllib_geoffpac.maths.emphasis import emphasis_loss, emphasis_target
from rllib_geoffpac.maths.off_policy_evaluation import Data, Fits
from rllib_geoffpac.modules.mlp import make_mlp

RHO_CAP = 20.0
"""Largest ratio from which C and M learn: squared errors of larger ones would drown all others."""
_BATCH = 256
_TARGET_RATE = 0.01
_LEARNING_RATE = 1e-3
_ROWS_AT_ONCE = 20_000


@dataclass(frozen=True)
class Inputs:
    """What the networks see, float32 arrays; K candidate actions of pi in every state."""

    states: np.ndarray  # [N, k]
    actions: np.ndarray  # [N, d] as the network takes them
    candidates: np.ndarray  # [N, K, d] actions of pi
    chances: np.ndarray  # [N, K] their weights, which sum to 1


def fit_networks(
    data: Data,
    inputs: Inputs,
    gamma_hats: Sequence[float],
    *,
    hiddens: Sequence[int] = (64, 64),
    updates: int = 20_000,
    seed: int = 0,
) -> list[Fits]:
    """Fits all functions for every gamma_hat; the same seed gives the same fits.

    Args:
        data: N logged transitions.
        inputs: The same as the networks see them.
        gamma_hats: in [0, 1].
        hiddens: Units of the hidden layers.
        updates: Learning steps of each network.
        seed: Of the initial weights and of the batches.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        values = _Values(data, inputs, gamma_hats, hiddens)
        weights = _Weights(data, inputs, gamma_hats, hiddens)
        for network in (values, weights):
            _learn(network, updates, np.random.default_rng([seed, updates]))
    v, q, q_u, q_l, mean_u, mean_l = values.at_data()
    ratios, emphases = weights.at_data()
    return [
        Fits(
            v=v,
            q=q,
            u=data.interest * v + mean_u[k],
            q_u=q_u[k],
            l=1 + mean_l[k],
            q_l=q_l[k],
            density_ratio=ratios[k],
            emphasis=emphases[k],
        )
        for k in range(len(gamma_hats))
    ]


def _learn(network: _Network, updates: int, rng: np.random.Generator) -> None:
    optimizer = torch.optim.Adam(network.net.parameters(), lr=_LEARNING_RATE, fused=True)
    for step in range(updates):
        for group in optimizer.param_groups:
            group["lr"] = _LEARNING_RATE * max(0.1, 1 - step / updates)
        loss = network.loss(torch.from_numpy(rng.integers(network.size, size=_BATCH)), rng)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(network.net.parameters(), 10.0)
        optimizer.step()
        with torch.no_grad():
            pairs = zip(network.target.parameters(), network.net.parameters(), strict=True)
            for kept, learned in pairs:
                kept.lerp_(learned, _TARGET_RATE)


class _Network:
    """A network, its slowly following copy, and the columns of the data as tensors."""

    net: nn.Module
    target: nn.Module

    def __init__(self, data: Data, inputs: Inputs, gamma_hats: Sequence[float]):
        self.data, self.gamma_hats = data, torch.tensor(gamma_hats, dtype=torch.float32)
        self.size, ends = len(data.rewards), data.episodes.ends
        self.states = torch.from_numpy(inputs.states)
        self.rewards, self.discounts, self.interest, self.rho = (
            torch.from_numpy(np.asarray(column, np.float32))
            for column in (data.rewards, data.discounts, data.interest, data.rho)
        )
        going_on = np.ones(self.size, np.float32)
        going_on[ends] = 0
        self.going_on = torch.from_numpy(going_on)
        lengths = data.episodes.lengths
        # What a gamma adds up over an episode: outputs in these units are all of the size of 1.
        self.visits = np.array([_horizon(gamma_hat, lengths) for gamma_hat in gamma_hats])
        self.rewarded = _horizon(float(data.discounts.max(initial=0)), lengths)

    def build(self, inputs: int, outputs: int, hiddens: Sequence[int]) -> None:
        """Makes the network and its copy."""
        self.net = make_mlp(inputs, list(hiddens), outputs)
        self.target = copy.deepcopy(self.net).requires_grad_(False)

    def loss(self, rows: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        """What to descend on the given transitions."""
        raise NotImplementedError


class _Values(_Network):
    """q, q_u and q_l: outputs [1 + 2 G], in units of their horizons."""

    def __init__(
        self, data: Data, inputs: Inputs, gamma_hats: Sequence[float], hiddens: Sequence[int]
    ):
        super().__init__(data, inputs, gamma_hats)
        self.actions = torch.from_numpy(inputs.actions)
        self.candidates = torch.from_numpy(inputs.candidates)
        self.chances = torch.from_numpy(inputs.chances)
        self.count = len(gamma_hats)
        reward = float(np.sqrt(np.mean(np.square(data.rewards)))) or 1.0
        value = reward * self.rewarded
        scale = [value, *(value * self.visits), *self.visits]
        self.scale = torch.tensor(scale, dtype=torch.float32)
        size = self.states.shape[1] + self.actions.shape[1]
        self.build(size, 1 + 2 * self.count, hiddens)

    def loss(self, rows: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        following = (rows + 1).clamp(max=self.size - 1)
        going_on = self.going_on[rows][:, None]
        v, u, l = self._means(following)  # noqa: E741
        u = self.interest[following][:, None] * v + u
        target = torch.cat(
            [
                self.rewards[rows][:, None] + going_on * self.discounts[rows][:, None] * v,
                going_on * self.gamma_hats * u,
                going_on * self.gamma_hats * (1 + l),
            ],
            dim=1,
        )
        outputs = self.net(torch.cat([self.states[rows], self.actions[rows]], dim=1))
        return ((outputs - target / self.scale) ** 2).sum(dim=1).mean()

    def _means(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """E_pi of q [B, 1], q_u and q_l [B, G] by the target copy."""
        candidates = self.candidates[rows]
        states = self.states[rows][:, None].expand(-1, candidates.shape[1], -1)
        with torch.no_grad():
            outputs = self.target(torch.cat([states, candidates], dim=2)) * self.scale
            mean = (self.chances[rows][:, :, None] * outputs).sum(dim=1)
        return mean.split([1, self.count, self.count], dim=1)

    def at_data(self) -> tuple[np.ndarray, ...]:
        """v, q [N], q_u, q_l [G, N], and their means over pi's actions [G, N]."""
        taken, means = [], []
        with torch.no_grad():
            for rows in torch.arange(self.size).split(_ROWS_AT_ONCE):
                pair = torch.cat([self.states[rows], self.actions[rows]], dim=1)
                taken.append(self.target(pair) * self.scale)
                means.append(torch.cat(self._means(rows), dim=1))
        at_actions = torch.cat(taken).numpy().astype(np.float64).T
        mean = torch.cat(means).numpy().astype(np.float64).T
        split = 1 + self.count
        return (
            mean[0],
            at_actions[0],
            at_actions[1:split],
            at_actions[split:],
            mean[1:split],
            mean[split:],
        )


class _Weights(_Network):
    """C and its emphasis M: outputs [2 G], before a softplus, M in units of its horizon."""

    def __init__(
        self, data: Data, inputs: Inputs, gamma_hats: Sequence[float], hiddens: Sequence[int]
    ):
        super().__init__(data, inputs, gamma_hats)
        self.rho = self.rho.clip(max=RHO_CAP)
        self.starts = torch.from_numpy(data.episodes.starts)
        self.count = len(gamma_hats)
        self.build(self.states.shape[1], 2 * self.count, hiddens)

    def loss(self, rows: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        # Where the next episode begins does not depend on how this one ends.
        first = self.starts[torch.from_numpy(rng.integers(len(self.starts), size=len(rows)))]
        going_on = self.going_on[rows]
        following = torch.where(going_on > 0, (rows + 1).clamp(max=self.size - 1), first)
        ratios, emphases = self._weights(self.net, following)
        with torch.no_grad():
            old_ratios, old_emphases = self._weights(self.target, rows)
        rho, valid = self.rho[rows], torch.ones(len(rows))
        loss = torch.zeros(())
        for k, gamma_hat in enumerate(self.gamma_hats.tolist()):
            # At 1 the chain itself has no restarts: there every first state is one.
            kept = gamma_hat if gamma_hat < 1 else going_on
            loss = loss + density_ratio_loss(
                ratios[:, k], old_ratios[:, k], rho, gamma_hat=kept, valid=valid
            )
            target = emphasis_target(
                self.interest[following],
                ratios[:, k].detach(),
                self.discounts[rows],
                rho,
                old_emphases[:, k],
                valid,
            )
            loss = loss + emphasis_loss(emphases[:, k] / self.rewarded, target / self.rewarded)
        return loss

    def _weights(self, net: nn.Module, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """C and M [B, G]."""
        ratios, emphases = softplus(net(self.states[rows])).split(self.count, dim=1)
        return ratios, emphases * self.rewarded

    def at_data(self) -> tuple[np.ndarray, np.ndarray]:
        """C and M [G, N]."""
        with torch.no_grad():
            parts = [
                torch.cat(self._weights(self.target, rows), dim=1)
                for rows in torch.arange(self.size).split(_ROWS_AT_ONCE)
            ]
        both = torch.cat(parts).numpy().astype(np.float64).T
        return both[: self.count], both[self.count :]


def _horizon(discount: float, lengths: np.ndarray) -> float:
    """sum_n discount^n over an episode, in the mean over its states, about."""
    left = lengths.mean()
    return 1 / (1 - discount * (1 - 1 / max(left, 1)))
