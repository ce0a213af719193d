"""Evaluates the target policy of a checkpoint on a data set, without a simulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from rllib_geoffpac.checkpoints import read_config, read_weights, verify
from rllib_geoffpac.connectors.pipelines import (
    has_env_to_module,
    has_module_to_env,
    spaces_of,
)
from rllib_geoffpac.data import DataSet, DataSettings, LoggedEpisode, open_data_set
from rllib_geoffpac.data.fitting import EpisodeFitter
from rllib_geoffpac.data.survey import survey_data
from rllib_geoffpac.envs.make_env import make_env
from rllib_geoffpac.offline_evaluation.evaluation import OfflineEvaluation, evaluate_transitions
from rllib_geoffpac.offline_evaluation.policies import ModulePolicy
from rllib_geoffpac.offline_evaluation.seen import SeenEpisode
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
    return evaluate_config(
        read_config(checkpoint),
        read_weights(checkpoint),
        data,
        checkpoint=Path(checkpoint),
        **options,
    )


def evaluate_config(
    config: AlgorithmConfig,
    weights: Mapping[str, np.ndarray],
    data: str,
    *,
    checkpoint: Path | None = None,
    gamma_hat: float | None = None,
    behavior: Any = None,
    deterministic: bool = False,
    confidence: float = 0.95,
    updates: int = 3_000,
    seed: int = 0,
) -> OfflineEvaluation:
    """The same for a config of this package and the weights of its module.

    Args:
        config: Of the algorithm that learned pi.
        weights: Names and arrays, as a checkpoint has them.
        data: Name of the data set.
        checkpoint: The folder where the pieces of `env_to_module_connector` were saved; None:
            they are as they were made.
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
    if has_module_to_env(config):
        raise ValueError(
            "`module_to_env_connector` changes pi's actions on their way into the environment, so "
            "the densities of logged actions are not pi's: evaluate it by playing episodes."
        )
    settings = replace(DataSettings.of(config), input_=data)
    spaces = _spaces(config, open_data_set(settings))
    module = config.get_rl_module_spec(
        spaces=spaces_of(config, spaces), inference_only=True
    ).build()
    module.set_state({name: weights[name] for name in module.get_state()})
    policy = ModulePolicy(module, deterministic)
    mu = config.behavior if behavior is None else behavior
    episodes, said = _episodes(settings, spaces, mu if policy.has_density else None, seed)
    if has_env_to_module(config):
        episodes = map(SeenEpisode(config, spaces, module, checkpoint), episodes)
    transitions = Transitions.of(episodes, config.gamma)
    interest_fn = getattr(config, "interest_fn", None)
    if isinstance(interest_fn, str):
        interest_fn = import_by_name(interest_fn, "interest_fn")
    result = evaluate_transitions(
        transitions,
        policy,
        gamma=config.gamma,
        gamma_hat=_gamma_hat(config) if gamma_hat is None else gamma_hat,
        interest_fn=interest_fn,
        confidence=confidence,
        updates=updates,
        seed=seed,
    )
    return replace(result, warnings=[*said, *result.warnings])


def _gamma_hat(config: AlgorithmConfig) -> float | None:
    """The config's, a schedule's last one; None for an algorithm without."""
    given = getattr(config, "gamma_hat", None)
    return given[-1][1] if isinstance(given, list | tuple) else given


def _spaces(config: AlgorithmConfig, data: DataSet) -> tuple[gym.Space, gym.Space]:
    """Observation and action space: of the config, else of the data set, else of the simulator."""
    observations = config.observation_space or data.observation_space
    actions = config.action_space or data.action_space
    if observations is not None and actions is not None:
        return observations, actions
    env = make_env(config)
    try:
        return env.observation_space, env.action_space
    finally:
        env.close()


def _episodes(
    settings: DataSettings, spaces: tuple[gym.Space, gym.Space], behavior: Any, seed: int
) -> tuple[Iterator[LoggedEpisode], list[str]]:
    """The data set's episodes, checked, with mu's log-densities, and what is to be said of them.

    Args:
        settings: Where they are.
        spaces: Observation and action space.
        behavior: mu; None: its density is not asked for.
        seed: Of an estimate of mu.
    """
    if behavior is None:
        return map(EpisodeFitter(*spaces), open_data_set(settings).episodes()), []
    survey = survey_data(settings, spaces, behavior, num_lanes=1, seed=seed)
    said = ["mu's densities are estimates, and so are all ratios."] if survey.report else []
    return map(survey.fitter(), survey.data.episodes()), said
