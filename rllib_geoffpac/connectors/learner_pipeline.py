"""The learner's pipeline: aligned lanes, then the user's pieces, then the algorithm's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ray.rllib.connectors.common.flatten_observations import FlattenObservations
from ray.rllib.connectors.common.frame_stacking import FrameStacking
from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.learner import (
    AddColumnsFromEpisodesToTrainBatch,
    AddNextObservationsFromEpisodesToTrainBatch,
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    BatchIndividualItems,
    LearnerConnectorPipeline,
    NumpyToTensor,
)

from rllib_geoffpac.compat import SETTING_ATTRIBUTES
from rllib_geoffpac.connectors.pipelines import Spaces, has_env_to_module, pieces_of

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

_DONE = (
    AddColumnsFromEpisodesToTrainBatch,
    AddNextObservationsFromEpisodesToTrainBatch,
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    BatchIndividualItems,
    NumpyToTensor,
)
"""RLlib's pieces whose work the `LaneAligner` and the backends do; no network has a state."""


def make_learner_pipeline(
    config: AlgorithmConfig, spaces: Spaces, own: list[ConnectorV2]
) -> LearnerConnectorPipeline:
    """The whole pipeline.

    Args:
        config: The algorithm's config, with the pieces of `learner_connector`.
        spaces: Of the module.
        own: The algorithm's pieces: the `LaneAligner`, which comes first, then the others.

    Raises:
        ValueError: For a piece that can't work here, by its name.
    """
    pieces = list(_usable(_custom(config, spaces), config))
    if config.add_default_connectors_to_learner_pipeline:
        pieces = [own[0], *pieces, *own[1:]]
    for needed in own:
        name = type(needed).__name__
        if not any(isinstance(piece, type(needed)) for piece in pieces):
            raise ValueError(
                f"`add_default_connectors_to_learner_pipeline` is False, and `learner_connector` "
                f"has no {name}: add one, or leave the default connectors in."
            )
    return LearnerConnectorPipeline(
        connectors=pieces, input_observation_space=spaces[0], input_action_space=spaces[1]
    )


def _custom(config: AlgorithmConfig, spaces: Spaces) -> Iterator[ConnectorV2]:
    """The pieces of `learner_connector`, not yet in any pipeline: they may not fit the spaces."""
    function = getattr(config, SETTING_ATTRIBUTES["learner_connector"])
    made = [] if function is None else function(*spaces)
    for piece in made if isinstance(made, list | tuple) else [made]:
        if isinstance(piece, ConnectorPipelineV2):
            yield from pieces_of(piece)
        elif isinstance(piece, ConnectorV2):
            yield piece
        else:
            raise ValueError(
                f"`learner_connector` returns {made!r}; allowed is a ConnectorV2 or a list of them."
            )


def _usable(custom: Iterator[ConnectorV2], config: AlgorithmConfig) -> Iterator[ConnectorV2]:
    for piece in custom:
        if not type(piece).__module__.startswith("ray.rllib.connectors."):
            yield piece
        elif isinstance(piece, FrameStacking | FlattenObservations):
            if not has_env_to_module(config):
                raise ValueError(
                    f"`learner_connector` has {type(piece).__name__}: give it as "
                    "`env_to_module_connector`, which serves the learner and the policy alike."
                )
        elif not isinstance(piece, _DONE):
            raise ValueError(
                f"`learner_connector` has RLlib's {type(piece).__name__}, which works on episodes: "
                "here the learner gets lanes, and their returns and advantages follow from the "
                "critics at every update. Leave it out; a piece of your own can change the columns "
                "of the batch, each [time, lanes, ...]."
            )
