"""mu estimated from its own actions, by maximum likelihood: behavior="estimated".

A Box: a truncated Gaussian and a Beta network are fitted, and the one with the higher held-out
likelihood is taken. Discrete actions: a categorical network, or for Discrete observations a table
of counts (plus one each). Every tenth episode is held out. The same data and seed give the same
estimate, bit for bit.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from rllib_geoffpac.data.episodes import LoggedEpisode
from rllib_geoffpac.data.fitting import Density
from rllib_geoffpac.learners.threads import use_one_thread
from rllib_geoffpac.maths.action_spaces import check_action_space
from rllib_geoffpac.maths.distributions import PolicyDistribution, make_distribution
from rllib_geoffpac.modules.networks import OneHot, make_mlp

logger = logging.getLogger(__name__)

_MAX_TRANSITIONS = 200_000  # of a larger data set every second, fourth ... episode is taken
_HELD_OUT_EVERY = 10
_HIDDENS = [64, 64]
_LEARNING_RATE, _BATCH, _MAX_PASSES, _PATIENCE = 1e-3, 256, 200, 8


class Table:
    """log mu(a|s) of Discrete observations and actions, from counts.

    Args:
        observation_space: The states.
        action_space: The actions.
    """

    def __init__(self, observation_space: gym.spaces.Discrete, action_space: gym.spaces.Discrete):
        self._starts = int(observation_space.start), int(action_space.start)
        self._counts = np.ones((int(observation_space.n), int(action_space.n)))

    def fit(self, observations: np.ndarray, actions: np.ndarray) -> None:
        """Counts what was done in every state."""
        np.add.at(self._counts, self._index(observations, actions), 1)

    def logp(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """[N] of observations [N] and actions [N]."""
        logs = np.log(self._counts / self._counts.sum(axis=1, keepdims=True))
        return logs[self._index(observations, actions)]

    def _index(self, observations: np.ndarray, actions: np.ndarray) -> tuple:
        return observations - self._starts[0], actions - self._starts[1]


class Standardise(nn.Module):
    """Observations [N, ...] to flat rows of mean 0 and, where they vary, standard deviation 1."""

    def __init__(self, observations: np.ndarray):
        super().__init__()
        flat = _flat(observations)
        self.center = torch.from_numpy(flat.mean(axis=0))
        self.scale = torch.from_numpy(np.maximum(flat.std(axis=0), 1e-6))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        flat = observations.to(torch.float32).reshape(len(observations), -1)
        return (flat - self.center) / self.scale


class PolicyNetwork(nn.Module):
    """A network of a policy distribution over standardised (or one-hot) observations.

    Args:
        observation_space: Box or Discrete.
        distribution: What the outputs stand for.
        observations: To standardise by.
    """

    def __init__(
        self,
        observation_space: gym.Space,
        distribution: PolicyDistribution,
        observations: np.ndarray,
    ):
        super().__init__()
        self.distribution = distribution
        self.encode: nn.Module
        if isinstance(observation_space, gym.spaces.Discrete):
            self.encode, size = OneHot(observation_space, torch.float32), int(observation_space.n)
        else:
            self.encode, size = Standardise(observations), _flat(observations).shape[1]
        self.layers = make_mlp(size, distribution.num_outputs, {"fcnet_hiddens": _HIDDENS})
        self.std_parameter = (
            nn.Parameter(torch.zeros(distribution.action_size))
            if distribution.has_global_std
            else None
        )

    def forward(self, observations: np.ndarray, actions: np.ndarray) -> torch.Tensor:
        """log mu(a|s) [N]."""
        outputs = self.layers(self.encode(torch.from_numpy(np.asarray(observations))))
        given = torch.from_numpy(np.asarray(actions))
        return self.distribution.log_prob(outputs, self.std_parameter, given)

    def logp(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """[N] of observations [N, ...] and actions [N, ...]."""
        use_one_thread()
        with torch.no_grad():
            return self(observations, actions).numpy().astype(np.float64)


@dataclass(frozen=True)
class EstimatedDensity:
    """The log-densities of an estimate of mu."""

    model: Table | PolicyNetwork

    def __call__(self, episode: LoggedEpisode) -> np.ndarray:
        """[T] of an episode, evaluated as a whole: the last bits depend on the batch."""
        return self.model.logp(episode.observations[:-1], episode.actions)


def estimate_density(
    episodes: Iterable[LoggedEpisode],
    observation_space: gym.Space,
    action_space: gym.Space,
    seed: int = 0,
) -> tuple[Density, dict[str, Any]]:
    """Fits mu to its actions.

    Args:
        episodes: All of the data set, fitted to the spaces.
        observation_space: Box or Discrete.
        action_space: A bounded Box or Discrete.
        seed: Of the networks' first weights and of the order of the batches.

    Returns:
        The estimate, and its `behavior_model`, `behavior_log_likelihood` (held-out mean of
        log mu) and `behavior_log_likelihood_uniform` (the same of the uniform policy).
    """
    learned, held_out = _split(episodes)
    space = check_action_space(action_space)
    models: dict[str, Table | PolicyNetwork] = {}
    if isinstance(observation_space, gym.spaces.Discrete) and isinstance(
        space, gym.spaces.Discrete
    ):
        models["table"] = table = Table(observation_space, space)
        table.fit(*learned)
    elif isinstance(space, gym.spaces.Discrete):
        distribution = make_distribution(space, "gaussian")  # a Discrete is categorical
        models["categorical"] = _fit_network(
            observation_space, distribution, learned, held_out, seed
        )
    else:
        for kind in ("truncated_gaussian", "beta"):
            distribution = make_distribution(space, kind)
            models[kind] = _fit_network(observation_space, distribution, learned, held_out, seed)
    scores = {name: float(model.logp(*held_out).mean()) for name, model in models.items()}
    best = max(scores, key=lambda name: scores[name])
    uniform = (
        -float(np.log(space.n))
        if isinstance(space, gym.spaces.Discrete)
        else -float(np.log(space.high.astype(np.float64) - space.low).sum())
    )
    logger.warning(
        "mu is estimated (%s, %d transitions; mean log-likelihood of %d held-out ones %.3f, "
        "uniform %.3f): importance ratios are now estimates, which no guarantee covers.",
        best,
        len(learned[1]),
        len(held_out[1]),
        scores[best],
        uniform,
    )
    return EstimatedDensity(models[best]), {
        "behavior_model": best,
        "behavior_log_likelihood": scores[best],
        "behavior_log_likelihood_uniform": uniform,
    }


Pairs = tuple[np.ndarray, np.ndarray]
"""Observations [N, ...] and actions [N, ...]."""


def _split(episodes: Iterable[LoggedEpisode]) -> tuple[Pairs, Pairs]:
    """The transitions to learn from and the held-out ones; a bounded number of them."""
    kept: list[LoggedEpisode] = []
    every, steps = 1, 0
    for episode in episodes:
        if episode.number // _HELD_OUT_EVERY % every:
            continue
        kept.append(episode)
        steps += len(episode)
        if steps > _MAX_TRANSITIONS:
            every *= 2
            kept = [e for e in kept if e.number // _HELD_OUT_EVERY % every == 0]
            steps = sum(map(len, kept))
    last = _HELD_OUT_EVERY - 1
    held_out = [episode for episode in kept if episode.number % _HELD_OUT_EVERY == last]
    learned = [episode for episode in kept if episode.number % _HELD_OUT_EVERY != last]
    if not held_out:  # fewer than ten episodes
        held_out = learned[-1:]
        learned = learned[:-1] or held_out
    return _pairs(learned), _pairs(held_out)


def _pairs(episodes: list[LoggedEpisode]) -> Pairs:
    return (
        np.concatenate([episode.observations[:-1] for episode in episodes]),
        np.concatenate([episode.actions for episode in episodes]),
    )


def _fit_network(
    observation_space: gym.Space,
    distribution: PolicyDistribution,
    learned: Pairs,
    held_out: Pairs,
    seed: int,
) -> PolicyNetwork:
    use_one_thread()
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = PolicyNetwork(observation_space, distribution, learned[0])
    optimizer = torch.optim.Adam(network.parameters(), lr=_LEARNING_RATE)
    observations, actions = learned
    best, best_state, waited = -np.inf, copy.deepcopy(network.state_dict()), 0
    for _ in range(_MAX_PASSES):
        for rows in np.array_split(rng.permutation(len(actions)), -(-len(actions) // _BATCH)):
            loss = -network(observations[rows], actions[rows]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        score = float(network.logp(*held_out).mean())
        if score > best:
            best, best_state, waited = score, copy.deepcopy(network.state_dict()), 0
        else:
            waited += 1
            if waited == _PATIENCE:
                break
    network.load_state_dict(best_state)
    return network


def _flat(observations: np.ndarray) -> np.ndarray:
    return np.asarray(observations, np.float32).reshape(len(observations), -1)
