"""The fitted functions of off-policy evaluation as small networks with target copies.

Three networks. One has the action values of a state and an action,

    q   <- R + gamma E_pi[q(S', a')],
    q_u <- gamma_hat E_pi[i(S') q(S', a') + q_u(S', a')],  q_l <- gamma_hat E_pi[1 + q_l(S', a')],

with nothing after an episode's end, and no importance ratio. The others have the weights of a
state, C and its emphasis M, by the rules of `maths.density_ratio` and `maths.emphasis`, where an
episode's end leads to a first state of the data.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from rllib_geoffpac.learners.threads import use_one_thread
from rllib_geoffpac.maths.arrays import softplus
from rllib_geoffpac.maths.density_ratio import density_ratio_loss
from rllib_geoffpac.maths.emphasis import emphasis_loss, emphasis_target
from rllib_geoffpac.maths.off_policy_evaluation import Data, Fits
from rllib_geoffpac.modules.networks import make_mlp

RHO_CAP = 10.0
"""Largest ratio from which C and M learn: squared errors of larger ones would drown all others."""
_BATCH = 512
# Fast, so that values and weights pass through a long episode within few updates.
_TARGET_RATE = 0.05
_LEARNING_RATE = 1e-3
_WEIGHT_DECAY = 0.1
_UPDATES_PER_LEVEL, _ROWS_OF_LEVEL = 50, 4096
_ROWS_AT_ONCE = 20_000


@dataclass(frozen=True)
class Inputs:
    """What the networks see, float32 arrays; K candidate actions of pi in every state."""

    states: np.ndarray  # [N, k]
    actions: np.ndarray  # [N, d] as the network takes them
    candidates: np.ndarray  # [N, K, d] actions of pi
    chances: np.ndarray  # [N, K] their weights, which sum to 1
    time_limit: int | None = None  # the longest that an episode can be; None: none is known


def fit_networks(
    data: Data,
    inputs: Inputs,
    gamma_hat: float,
    *,
    hiddens: Sequence[int] = (64, 64),
    updates: int = 3_000,
    seed: int = 0,
    with_weights: bool = True,
) -> Fits:
    """Fits all functions for one gamma_hat; the same seed gives the same fits.

    Args:
        data: N logged transitions.
        inputs: The same as the networks see them.
        gamma_hat: in [0, 1].
        hiddens: Units of the hidden layers.
        updates: Learning steps of each network.
        seed: Of the initial weights and of the batches.
        with_weights: Whether C and M are fitted, which need ratios; otherwise they are NaN.
    """
    use_one_thread()  # the number of threads changes the last bits
    columns = _Columns(data, inputs, gamma_hat)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        values = _Values(columns, hiddens)
        _learn(values, updates, np.random.default_rng([seed, 0]))
        ratio = emphasis = np.full(columns.size, np.nan)
        if with_weights:
            weights = _Weights(columns, hiddens)
            _learn(weights, updates, np.random.default_rng([seed, 1]))
            ratio, emphasis = weights.at_data()
    (q, q_u, q_l), (v, mean_u, mean_l) = values.at_data()
    u = data.interest * v + mean_u
    return Fits(v, q, u, q_u, 1 + mean_l, q_l, ratio, emphasis)


class _Columns:
    """The data as tensors, and the sizes of what is learned from them."""

    def __init__(self, data: Data, inputs: Inputs, gamma_hat: float):
        self.gamma_hat, self.size = gamma_hat, len(data.rewards)
        self.states, self.actions, self.candidates, self.chances = (
            torch.from_numpy(column)
            for column in (inputs.states, inputs.actions, inputs.candidates, inputs.chances)
        )
        going_on = np.ones(self.size)
        going_on[data.episodes.ends] = 0
        self.rewards, self.discounts, self.interest, self.rho, self.going_on = (
            torch.from_numpy(np.asarray(column, np.float32))
            for column in (data.rewards, data.discounts, data.interest, data.rho, going_on)
        )
        self.starts = torch.from_numpy(data.episodes.starts)
        self.ends = torch.from_numpy(data.episodes.ends)
        # What a discount adds up to over an episode: in these units all outputs are about 1.
        length = float(data.episodes.lengths.mean())
        self.visits = _horizon(gamma_hat, length)
        self.rewarded = _horizon(float(data.discounts.max()), length)
        self.has_time_limit = inputs.time_limit is not None
        self.left = torch.full((self.size,), self.visits)
        if inputs.time_limit is not None:
            steps = inputs.time_limit - 1 - data.episodes.steps()
            powers = np.cumsum(gamma_hat ** np.arange(1, inputs.time_limit + 1))
            left = np.concatenate([[0.0], powers])[steps]
            self.left = torch.from_numpy(left.astype(np.float32))
        self.reward = float(np.sqrt(np.mean(np.square(data.rewards)))) or 1.0

    def following(self, rows: torch.Tensor) -> torch.Tensor:
        """The next transitions of the same episodes; after an end, any."""
        return (rows + 1).clamp(max=self.size - 1)


class _Learner(ABC):
    """Networks and their slowly following copies."""

    def __init__(self, columns: _Columns, networks: list[nn.Module]):
        self.columns = columns
        self.networks = nn.ModuleList(networks)
        self.targets = copy.deepcopy(self.networks).requires_grad_(False)

    @abstractmethod
    def loss(self, rows: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        """What to descend on the given transitions."""


def _learn(learner: _Learner, updates: int, rng: np.random.Generator) -> None:
    learned, kept = list(learner.networks.parameters()), list(learner.targets.parameters())
    optimizer = torch.optim.AdamW(
        learned, lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY, fused=True
    )
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, updates)
    for _ in range(updates):
        rows = torch.from_numpy(rng.integers(learner.columns.size, size=_BATCH))
        optimizer.zero_grad(set_to_none=True)
        learner.loss(rows, rng).backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for slow, fast in zip(kept, learned, strict=True):
                slow.lerp_(fast, _TARGET_RATE)


class _Values(_Learner):
    """q, q_u and q_l, three outputs of one network."""

    def __init__(self, columns: _Columns, hiddens: Sequence[int]):
        size = columns.states.shape[1] + columns.actions.shape[1]
        super().__init__(columns, [_network(size, hiddens, 3)])
        value = columns.reward * columns.rewarded
        # q_u and q_l in units of the visits that are left, which a time limit tells exactly: so
        # they need not travel from the episode's end to its start, one update after the other.
        self.units = torch.stack(
            [torch.full_like(columns.left, value), value * columns.left, columns.left], dim=1
        )
        self.offset = torch.tensor([0.0, 0.0, 1.0 if columns.has_time_limit else 0.0])
        self.scale = torch.tensor([value, value * columns.visits, columns.visits])

    def loss(self, rows: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        data, following = self.columns, self.columns.following(rows)
        v, u, l = self._means(following).unbind(dim=1)  # noqa: E741
        kept = data.gamma_hat * data.going_on[rows]
        target = [
            data.rewards[rows] + data.discounts[rows] * v,
            kept * (data.interest[following] * v + u),
            kept * (1 + l),
        ]
        error = self._taken(self.networks, rows) - torch.stack(target, dim=1)
        return ((error / self.scale) ** 2).sum(dim=1).mean()

    def _taken(self, networks: nn.ModuleList, rows: torch.Tensor) -> torch.Tensor:
        """q, q_u and q_l of the logged actions: [B, 3]."""
        data = self.columns
        outputs = networks[0](torch.cat([data.states[rows], data.actions[rows]], dim=1))
        return (outputs + self.offset) * self.units[rows]

    @torch.no_grad()
    def _means(self, rows: torch.Tensor) -> torch.Tensor:
        """E_pi of q, q_u and q_l by the target copy: [B, 3]."""
        candidates = self.columns.candidates[rows]
        states = self.columns.states[rows][:, None].expand(-1, candidates.shape[1], -1)
        outputs = self.targets[0](torch.cat([states, candidates], dim=2))
        mean = (self.columns.chances[rows][:, :, None] * outputs).sum(dim=1)
        return (mean + self.offset) * self.units[rows]

    @torch.no_grad()
    def at_data(self) -> tuple[np.ndarray, np.ndarray]:
        """q, q_u and q_l, and their means over pi's actions: [3, N] each."""
        taken, means = [], []
        for rows in torch.arange(self.columns.size).split(_ROWS_AT_ONCE):
            taken.append(self._taken(self.targets, rows))
            means.append(self._means(rows))
        return _float64(taken).T, _float64(means).T


class _Weights(_Learner):
    """C and its emphasis M, what their rules carry to a state being a network's softplus each."""

    def __init__(self, columns: _Columns, hiddens: Sequence[int]):
        size = columns.states.shape[1]
        super().__init__(columns, [_network(size, hiddens, 1) for _ in range(2)])
        self.rho = columns.rho.clip(max=RHO_CAP)
        self.levels, self._seen = (1.0, 1.0), 0

    def loss(self, rows: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        data = self.columns
        if self._seen % _UPDATES_PER_LEVEL == 0:
            looked_at = torch.from_numpy(rng.integers(data.size, size=_ROWS_OF_LEVEL))
            self.levels = self._levels(looked_at, rng)
        self._seen += 1
        # Where the next episode begins does not depend on how this one ends.
        first = data.starts[torch.from_numpy(rng.integers(len(data.starts), size=len(rows)))]
        going_on, rho = data.going_on[rows], self.rho[rows]
        following = torch.where(going_on > 0, data.following(rows), first)
        ratio, emphasis = self._weights(self.networks, following)
        with torch.no_grad():
            old_ratio, old_emphasis = self._weights(self.targets, rows)
            old_ratio, old_emphasis = old_ratio * self.levels[0], old_emphasis * self.levels[1]
        # At gamma_hat = 1 the chain itself has no restarts: there every first state is one.
        kept = data.gamma_hat if data.gamma_hat < 1 else going_on
        connected = torch.ones_like(rho)
        loss = density_ratio_loss(ratio, old_ratio, rho, gamma_hat=kept, valid=connected)
        target = emphasis_target(
            data.interest[following],
            ratio.detach(),
            data.discounts[rows],
            rho,
            old_emphasis,
            connected,
        )
        return loss + emphasis_loss(emphasis / data.rewarded, target / data.rewarded)

    @torch.no_grad()
    def _levels(self, rows: torch.Tensor, rng: np.random.Generator) -> tuple[float, float]:
        """What C' and M' lack of the means that they must have, see `normalised_weights`.

        Without it their levels drift: the rules hold for every multiple of what is carried, but for
        the little that enters anew in every step.
        """
        data = self.columns
        ratio, emphasis = self._weights(self.targets, rows)
        if data.gamma_hat == 1:  # as many visits leave an episode at its end as enter it: one
            last = data.ends[torch.from_numpy(rng.integers(len(data.ends), size=len(rows)))]
            ratio_level = 1 / float((self.rho[last] * self._weights(self.targets, last)[0]).mean())
        else:
            ratio_level = 1 / float(ratio.mean())
        leaving = (emphasis * self.rho[rows] * (1 - data.discounts[rows])).mean()
        entering = (data.interest[rows] * ratio).mean()
        return ratio_level, float(entering / leaving)

    def _weights(
        self, networks: nn.ModuleList, rows: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """C and M [B]."""
        data = self.columns
        carried = [softplus(network(data.states[rows])[:, 0]) for network in networks]
        if data.gamma_hat == 0:
            ratio = torch.ones_like(carried[0])
        else:
            ratio = 1 - data.gamma_hat + carried[0]
        return ratio, data.interest[rows] * ratio.detach() + data.rewarded * carried[1]

    @torch.no_grad()
    def at_data(self) -> tuple[np.ndarray, np.ndarray]:
        """C and M [N]."""
        blocks = torch.arange(self.columns.size).split(_ROWS_AT_ONCE)
        parts = [torch.stack(self._weights(self.targets, rows), dim=1) for rows in blocks]
        ratio, emphasis = _float64(parts).T
        return ratio, emphasis


def _network(inputs: int, hiddens: Sequence[int], outputs: int) -> nn.Sequential:
    """The package's MLP with layer normalisation, with which bootstrapping diverges less."""
    model = {"fcnet_hiddens": hiddens, "fcnet_use_layernorm": True}
    return make_mlp(inputs, outputs, model)


def _float64(parts: list[torch.Tensor]) -> np.ndarray:
    return torch.cat(parts).numpy().astype(np.float64)


def _horizon(discount: float, length: float) -> float:
    """sum_n discount^n over an episode that ends with chance 1 / length in every step."""
    return 1 / (1 - discount * (1 - 1 / length))
