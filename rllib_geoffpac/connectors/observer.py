"""What the module sees of running episodes, and what its actions become: RLlib's connectors."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import ENV_TO_MODULE_CONNECTOR, MODULE_TO_ENV_CONNECTOR
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rllib_geoffpac.compat import freeze_statistics
from rllib_geoffpac.connectors.pipelines import (
    Spaces,
    make_env_to_module,
    make_module_to_env,
    pieces_of,
)
from rllib_geoffpac.envs.observations import make_decoder, observation_dtype, observation_shape

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.core.rl_module.torch import TorchRLModule

_LOOKBACK = 64

PiecesState = dict[str, Any]
"""By the names of connector pieces: their class and, from the second of a class on, a number."""


class Observer:
    """Keeps the episode of every row as RLlib's env runners do, and calls the pipelines on them.

    A row is a lane, or an evaluation episode. Of an episode at least the latest
    `episode_lookback_horizon` steps are kept, and 64 in any case; where it is cut depends on its
    own steps alone.

    Args:
        config: Of the algorithm, or of its evaluation.
        spaces: Of the environment.
        module: For the pieces that ask it something.
        frozen: Whether the pipelines keep the state that they were given. What is seen of a row
            then depends on no other row.
        metrics: Where the pieces log their times, and what they like; None: nowhere.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        spaces: Spaces,
        module: TorchRLModule,
        frozen: bool = False,
        metrics: MetricsLogger | None = None,
    ):
        self.env_to_module = make_env_to_module(config, spaces)
        self.module_to_env = make_module_to_env(config, spaces)
        self.explore, self.module, self.metrics = config.explore, module, metrics
        self.episodes: dict[int, SingleAgentEpisode] = {}
        self.shape = observation_shape(self.env_to_module.observation_space)
        self.dtype = observation_dtype(self.env_to_module.observation_space)
        self._spaces, self._decode = spaces, make_decoder(spaces[0])
        self._lookback = max(_LOOKBACK, config.episode_lookback_horizon)
        self._shared_data: dict[str, Any] = {}  # as in RLlib: both pipelines may write into it
        self._pieces = _named([*pieces_of(self.env_to_module), *pieces_of(self.module_to_env)])
        # Pieces that can't be told to keep their state get it back before every call.
        self._changing = {
            name: frozen and not freeze_statistics(piece) for name, piece in self._pieces.items()
        }
        self._frozen_state: PiecesState = {}
        self._one_by_one = False
        self.set_state(self.get_state())

    def start(self, row: int, observation: np.ndarray) -> None:
        """Begins an episode with a flat observation."""
        space, actions = self._spaces
        episode = SingleAgentEpisode(observation_space=space, action_space=actions)
        episode.add_env_reset(self._decode(observation), {})
        self.episodes[row] = episode

    def step(self, row: int, observation: np.ndarray, action: Any, reward: float) -> None:
        """Goes on with an episode."""
        episode = self.episodes[row]
        if len(episode) >= self._lookback:
            episode = self.episodes[row] = episode.cut(self._lookback)
        episode.add_env_step(self._decode(observation), action, reward, {})

    def observe(self, rows: list[int]) -> np.ndarray:
        """What the module sees of the current observations of some rows: [rows, ...], flat."""
        if not self._one_by_one:
            return self._observe(rows)
        seen = []
        for row in rows:
            self._put_back()
            seen.append(self._observe([row]))
        return np.concatenate(seen)

    def _observe(self, rows: list[int]) -> np.ndarray:
        batch = self.env_to_module(
            episodes=[self.episodes[row] for row in rows], **self._call({}, ENV_TO_MODULE_CONNECTOR)
        )
        observations = batch.get(Columns.OBS)
        if isinstance(observations, torch.Tensor):
            observations = observations.cpu().numpy()
        if not isinstance(observations, np.ndarray) or len(observations) != len(rows):
            raise ValueError(
                "`env_to_module_connector` gave no observation for every episode: its pieces must "
                f"leave an array in the batch's column {Columns.OBS!r}, as RLlib's default pieces "
                "do (`add_default_connectors_to_env_to_module_pipeline`)."
            )
        return observations.astype(self.dtype).reshape(len(rows), *self.shape)

    def act(
        self, rows: list[int], outputs: np.ndarray, actions: np.ndarray
    ) -> tuple[list[Any], list[Any]]:
        """pi's actions [rows, ...] as they enter episodes, and as they enter the environments."""
        if not self._one_by_one:
            return self._act(rows, outputs, actions)
        acted: tuple[list[Any], list[Any]] = ([], [])
        for k, row in enumerate(rows):
            self._put_back()
            for done, more in zip(
                acted, self._act([row], outputs[k : k + 1], actions[k : k + 1]), strict=True
            ):
                done.extend(more)
        return acted

    def _act(
        self, rows: list[int], outputs: np.ndarray, actions: np.ndarray
    ) -> tuple[list[Any], list[Any]]:
        batch = {Columns.ACTIONS: actions, Columns.ACTION_DIST_INPUTS: outputs}
        episodes = [self.episodes[row] for row in rows]
        batch = self.module_to_env(episodes=episodes, **self._call(batch, MODULE_TO_ENV_CONNECTOR))
        taken = list(batch[Columns.ACTIONS])
        return taken, list(batch.get(Columns.ACTIONS_FOR_ENV, taken))

    def _call(self, batch: dict[str, Any], place: str) -> dict[str, Any]:
        return {
            "metrics": self.metrics,
            "metrics_prefix_key": (place,),
            "batch": batch,
            "explore": self.explore,
            "rl_module": self.module,
            "shared_data": self._shared_data,
        }

    def get_state(self) -> PiecesState:
        """The state of every piece that has one."""
        states = {name: piece.get_state() for name, piece in self._pieces.items()}
        return {name: own for name, own in states.items() if own}

    def set_state(self, state: PiecesState) -> None:
        """Gives the pieces the state of those of the same name; others keep theirs."""
        self._frozen_state = {name: own for name, own in state.items() if name in self._pieces}
        self._one_by_one = any(self._changing[name] for name in self._frozen_state)
        self._put_back()

    def _put_back(self) -> None:
        for name, own in self._frozen_state.items():
            self._pieces[name].set_state(copy.deepcopy(own))


def _named(pieces: list[ConnectorV2]) -> dict[str, ConnectorV2]:
    """RLlib's own state has one place for all pieces of a class; here each has its own."""
    named: dict[str, ConnectorV2] = {}
    for piece in pieces:
        name = type(piece).__name__
        same = sum(known.partition(" ")[0] == name for known in named)
        named[f"{name} {same + 1}" if same else name] = piece
    return named
