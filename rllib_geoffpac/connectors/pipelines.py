"""RLlib's env-to-module and module-to-env connectors of a config, and what they do to spaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import gymnasium as gym
from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import (
    COMPONENT_ENV_TO_MODULE_CONNECTOR,
    COMPONENT_MODULE_TO_ENV_CONNECTOR,
    DEFAULT_MODULE_ID,
)
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES

from rllib_geoffpac.compat import SETTING_ATTRIBUTES

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

CONNECTOR_COMPONENTS = (COMPONENT_ENV_TO_MODULE_CONNECTOR, COMPONENT_MODULE_TO_ENV_CONNECTOR)
"""Where the checkpoint of an env runner has the two pipelines."""

Spaces = tuple[gym.Space, gym.Space]
"""Of observations and of actions."""


def has_env_to_module(config: AlgorithmConfig) -> bool:
    """Whether what the module sees is not simply what the environment shows."""
    given = getattr(config, SETTING_ATTRIBUTES["env_to_module_connector"])
    return given is not None or not config.add_default_connectors_to_env_to_module_pipeline


def has_module_to_env(config: AlgorithmConfig) -> bool:
    """Whether what pi's actions do is not simply to enter the environment."""
    given = getattr(config, SETTING_ATTRIBUTES["module_to_env_connector"])
    return given is not None or not config.add_default_connectors_to_module_to_env_pipeline


def make_env_to_module(config: AlgorithmConfig, spaces: Spaces) -> ConnectorPipelineV2:
    """The pipeline from an environment's observations to the module's.

    Raises:
        ValueError: If it can't serve the observation space.
    """
    try:
        pipeline = config.build_env_to_module_connector(spaces=_named(spaces))
    except AssertionError as error:  # RLlib's way to say what a piece needs
        raise ValueError(
            f"`env_to_module_connector` can't serve the observation space {spaces[0]} "
            f"({error or 'RLlib does not say why'}): choose other pieces, or another order."
        ) from error
    if not pipeline.connectors:
        raise ValueError(
            "`add_default_connectors_to_env_to_module_pipeline` is False, and "
            "`env_to_module_connector` gives no piece: leave the first one out, or give pieces "
            "that make a batch of observations, such as RLlib's AddObservationsFromEpisodesToBatch "
            "and BatchIndividualItems."
        )
    return pipeline


def make_module_to_env(config: AlgorithmConfig, spaces: Spaces) -> ConnectorPipelineV2:
    """The pipeline from the module's actions to those of the environment.

    Our policies act in the environment's units, so of RLlib's last piece only `clip_actions` is
    left.
    """
    in_its_units = config.copy(copy_frozen=False)
    in_its_units.normalize_actions = False
    return in_its_units.build_module_to_env_connector(spaces=_named(spaces))


def spaces_of(config: AlgorithmConfig, spaces: Spaces) -> dict[str, Spaces]:
    """The spaces of an environment and of the module, by RLlib's names."""
    seen = spaces[0]
    if has_env_to_module(config):
        seen = make_env_to_module(config, spaces).observation_space
    return {**_named(spaces), DEFAULT_MODULE_ID: (seen, spaces[1])}


def pieces_of(pipeline: ConnectorPipelineV2) -> Iterator[ConnectorV2]:
    """All pieces in the order in which they are called, those of inner pipelines as well."""
    for piece in pipeline.connectors:
        if isinstance(piece, ConnectorPipelineV2):
            yield from pieces_of(piece)
        else:
            yield piece


def _named(spaces: Spaces) -> dict[str, Spaces]:
    return {INPUT_ENV_SPACES: spaces, INPUT_ENV_SINGLE_SPACES: spaces}
