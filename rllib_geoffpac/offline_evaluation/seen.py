"""What the module sees of logged episodes, where there are env-to-module connectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from ray.rllib.core import COMPONENT_ENV_RUNNER, COMPONENT_ENV_TO_MODULE_CONNECTOR

from rllib_geoffpac.connectors.observer import Observer
from rllib_geoffpac.connectors.pipelines import Spaces
from rllib_geoffpac.data import LoggedEpisode
from rllib_geoffpac.envs.observations import make_encoder

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.core.rl_module.torch import TorchRLModule


class SeenEpisode:
    """Passes the observations of an episode through the pipeline, which learns nothing from them.

    Args:
        config: Of the algorithm that learned pi.
        spaces: Of the environment.
        module: For the pieces that ask it something.
        checkpoint: Its folder, with the state of the pipeline; None: that is as it was made.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        spaces: Spaces,
        module: TorchRLModule,
        checkpoint: Path | None = None,
    ):
        self._observer = Observer(config, spaces, module, frozen=True)
        self._encode = make_encoder(spaces[0])
        if checkpoint is not None:
            saved = checkpoint / COMPONENT_ENV_RUNNER / COMPONENT_ENV_TO_MODULE_CONNECTOR
            self._observer.env_to_module.restore_from_path(str(saved))
            self._observer.set_state(self._observer.get_state())

    def __call__(self, episode: LoggedEpisode) -> LoggedEpisode:
        """The episode with observations [T + 1, ...] as pi saw such in training, flat."""
        observer = self._observer
        first, *following = map(self._encode, episode.observations)
        observer.start(0, first)
        seen = [observer.observe([0])]
        for observation, action, reward in zip(
            following, episode.actions, episode.rewards, strict=True
        ):
            observer.step(0, observation, action, float(reward))
            seen.append(observer.observe([0]))
        return replace(episode, observations=np.concatenate(seen))
