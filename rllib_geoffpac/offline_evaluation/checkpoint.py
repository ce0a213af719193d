"""Evaluates the target policy of a checkpoint on a data set, without a simulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES

from rllib_geoffpac.checkpoints import read_config, read_weights, verify
from rllib_geoffpac.data import LoggedEpisode, open_data_set
from rllib_geoffpac.envs.make_env import make_env, observation_dtype, observation_shape
from rllib_geoffpac.lanes.behavior import UniformBehavior
from rllib_geoffpac.offline_evaluation.evaluation import OfflineEvaluation, evaluate_transitions
from rllib_geoffpac.offline_evaluation.policies import ModulePolicy
from rllib_geoffpac.offline_evaluation.transitions import Transitions
from rllib_geoffpac.validation import import_by_name


def evaluate_offline(checkpoint: str | Path, data: str, **options: Any) -> OfflineEvaluation:
    """Estimates J_pi, J_mu and J_gamma_hat of a checkpoint's target policy from logged data.

    Args:
        checkpoint: Folder of a checkpoint of this package. It is unpickled: use only those that
            you trust.
        data: A folder, file or URI of RLlib's episodes or of plain columns, or
            `minari:DATASET-ID`.
        options: `gamma_hat`, `behavior`, `deterministic`, `confidence`, `updates` and `seed` of
            `evaluate_config`.

    Example:
        >>> result = evaluate_offline("checkpoint_000000", "logs/reacher")  # doctest: +SKIP
        >>> result.estimate("j_pi", "doubly robust").value  # doctest: +SKIP
        -5.9
    """
    verify(checkpoint)
    return evaluate_config(read_config(checkpoint), read_weights(checkpoint), data, **options)


def evaluate_config(
    config: AlgorithmConfig,
    weights: Mapping[str, np.ndarray],
    data: str,
    *,
    gamma_hat: float | None = None,
    behavior: Any = None,
    deterministic: bool = False,
    confidence: float = 0.95,
    updates: int = 5_000,
    seed: int = 0,
) -> OfflineEvaluation:
    """The same for a config of this package and the weights of its module.

    Args:
        config: Of the algorithm that learned pi.
        weights: Names and arrays, as a checkpoint has them.
        data: Name of the data set.
        gamma_hat: Of J_gamma_hat; None: the config's.
        behavior: mu, as the setting of that name; None: the config's. Log-densities in the data
            come before "uniform".
        deterministic: Whether pi's mean or most likely action is evaluated.
        confidence: Of the intervals.
        updates: Learning steps of each network that is fitted.
        seed: Of the fits. The same seed gives the same estimates.

    Raises:
        ValueError: If the data, the settings and the weights do not fit each other.
    """
    spaces = _spaces(config, data)
    named = dict.fromkeys((DEFAULT_MODULE_ID, INPUT_ENV_SPACES, INPUT_ENV_SINGLE_SPACES), spaces)
    module = config.get_rl_module_spec(spaces=named, inference_only=True).build()
    module.set_state({name: weights[name] for name in module.get_state()})
    policy = ModulePolicy(module, deterministic)
    if behavior is None:
        behavior = config.behavior
    transitions = Transitions.of(_episodes(data, spaces, behavior), config.gamma)
    interest_fn = getattr(config, "interest_fn", None)
    if isinstance(interest_fn, str):
        interest_fn = import_by_name(interest_fn, "interest_fn")
    return evaluate_transitions(
        transitions,
        policy,
        gamma=config.gamma,
        gamma_hat=getattr(config, "gamma_hat", None) if gamma_hat is None else gamma_hat,
        interest_fn=interest_fn,
        confidence=confidence,
        updates=updates,
        seed=seed,
    )


def _spaces(config: AlgorithmConfig, data: str) -> tuple[gym.Space, gym.Space]:
    """Observation and action space: of the config, else of the data set, else of the simulator."""
    metadata = open_data_set(data)
    observations = config.observation_space or metadata.observation_space
    actions = config.action_space or metadata.action_space
    if observations is not None and actions is not None:
        return observations, actions
    env = make_env(config)
    try:
        return env.observation_space, env.action_space
    finally:
        env.close()


def _episodes(
    data: str, spaces: tuple[gym.Space, gym.Space], behavior: Any
) -> Iterator[LoggedEpisode]:
    """The data set's episodes, flat, with mu's log-densities where they are known."""
    observations, actions = spaces
    uniform = isinstance(behavior, str) and behavior == "uniform"
    for episode in open_data_set(data).episodes():
        flat = episode.observations.astype(observation_dtype(observations))
        episode = replace(
            episode, observations=flat.reshape(len(flat), *observation_shape(observations))
        )
        if episode.logp is None and uniform:
            logp = np.full(len(episode), UniformBehavior(actions).log_density)
            episode = replace(episode, logp=logp)
        yield episode
