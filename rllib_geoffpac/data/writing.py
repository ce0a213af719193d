"""Writes recorded episodes as a data set: RLlib's episodes in parquet files, or Minari.

Episodes are written in rounds, the first of each lane, then the second of each, and so on: so
they are dealt to the same lanes again when they are read.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from rllib_geoffpac.data.data_set import MINARI
from rllib_geoffpac.data.episodes import DataError
from rllib_geoffpac.lanes.recording import RecordedEpisode

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

_STEPS_PER_FILE = 20_000


class EpisodeWriter(ABC):
    """Collects complete rounds and writes them a few at a time.

    Args:
        num_lanes: Episodes of a round.
    """

    def __init__(self, num_lanes: int):
        self.num_lanes = num_lanes
        self.written = 0
        """Episodes."""
        self.steps = 0
        """Transitions written."""
        self._waiting: dict[int, RecordedEpisode] = {}  # by number in the data set
        self._complete: list[RecordedEpisode] = []  # rounds that are not written yet

    def add(self, episodes: Iterable[RecordedEpisode], max_rounds: float = np.inf) -> None:
        """Takes episodes, each once, in any order; those of later rounds are left out."""
        for episode in episodes:
            if episode.index < max_rounds:
                self._waiting[episode.index * self.num_lanes + episode.lane] = episode
        while all(number in self._waiting for number in self._next_round):
            self._complete += [self._waiting.pop(number) for number in self._next_round]
            if sum(map(len, self._complete)) >= _STEPS_PER_FILE:
                self.flush()

    @property
    def _next_round(self) -> range:
        first = self.written + len(self._complete)
        return range(first, first + self.num_lanes)

    def flush(self) -> None:
        """Writes the complete rounds."""
        if self._complete:
            self._write(self._complete)
            self.written += len(self._complete)
            self.steps += sum(map(len, self._complete))
            self._complete = []

    def get_state(self) -> dict[str, Any]:
        """What a checkpoint has to keep: what came and was not written."""
        pending = [*self._complete, *self._waiting.values()]
        return {
            "written": self.written,
            "steps": self.steps,
            "pending": [vars(episode) for episode in pending],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint; what was written since is written once more, the same."""
        self.written, self.steps = state["written"], state["steps"]
        self._waiting, self._complete = {}, []
        self.add(RecordedEpisode(**values) for values in state["pending"])

    @abstractmethod
    def _write(self, episodes: list[RecordedEpisode]) -> None:
        """Writes episodes that follow the `self.written` ones before."""


class ParquetWriter(EpisodeWriter):
    """RLlib's packed episodes in parquet files, as its env runners write them.

    Args:
        folder: A folder or URI.
        spaces: Of observations and actions.
        num_lanes: Episodes of a round.
    """

    def __init__(self, folder: str, spaces: tuple[gym.Space, gym.Space], num_lanes: int):
        from pyarrow import fs

        super().__init__(num_lanes)
        self.spaces = spaces
        path = folder if "://" in folder else os.path.abspath(os.path.expanduser(folder))
        self._filesystem, self.folder = fs.FileSystem.from_uri(path)

    def check_empty(self) -> None:
        """Refuses a folder that holds a data set already, or that is none.

        Raises:
            DataError: naming it.
        """
        from pyarrow import fs

        try:
            found = self._filesystem.get_file_info(
                fs.FileSelector(self.folder, recursive=True, allow_not_found=True)
            )
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else error
            raise DataError(
                f"{self.folder} can't hold a data set ({why}): choose a folder that may be "
                "written to."
            ) from error
        if any(entry.path.endswith(".parquet") for entry in found):
            raise DataError(
                f"{self.folder} holds a data set already: choose another folder, or remove it."
            )

    def _write(self, episodes: list[RecordedEpisode]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._filesystem.create_dir(self.folder, recursive=True)
        path = f"{self.folder}/episodes-{self.written:08d}.parquet"
        table = pa.table({"item": pa.array([self._pack(e) for e in episodes], pa.binary())})
        try:
            # Beside its place first: whoever reads finds it whole or not at all.
            pq.write_table(table, f"{path}.part", filesystem=self._filesystem)
            self._filesystem.move(f"{path}.part", path)
        except OSError as error:
            raise DataError(
                f"The data set at {self.folder} can't be written ({error}): is there room, and is "
                "writing allowed?"
            ) from error

    def _pack(self, episode: RecordedEpisode) -> bytes:
        import msgpack
        import msgpack_numpy
        from ray.rllib.env.single_agent_episode import SingleAgentEpisode

        made = SingleAgentEpisode(
            id_=f"lane-{episode.lane}-episode-{episode.index}",
            observations=episode.observations,
            actions=episode.actions,
            rewards=episode.rewards,
            infos=[{}, *episode.infos],
            terminated=episode.terminated,
            truncated=episode.truncated,
            extra_model_outputs={"action_logp": [float(logp) for logp in episode.logp]},
            observation_space=self.spaces[0],
            action_space=self.spaces[1],
            len_lookback_buffer=0,
        )
        return msgpack.packb(made.get_state(), default=msgpack_numpy.encode)


class MinariWriter(EpisodeWriter):
    """A Minari data set (extra `offline`).

    Args:
        dataset_id: Minari's name, e.g. "reacher/uniform-v0".
        env: The environment, for its spaces and its spec.
        num_lanes: Episodes of a round.
        metadata: Further arguments of `minari.create_dataset_from_buffers`.
    """

    def __init__(self, dataset_id: str, env: gym.Env, num_lanes: int, **metadata: Any):
        try:
            import minari
        except ImportError:
            raise DataError(
                "Minari is not installed: pip install 'rllib_geoffpac[offline]' (Python >= 3.11)."
            ) from None
        super().__init__(num_lanes)
        self.dataset_id, self._env, self._metadata = dataset_id, env, metadata
        self.dataset: Any = None
        if dataset_id in minari.list_local_datasets():
            raise DataError(
                f"minari:{dataset_id} exists already: choose another name, or remove it with "
                f"`minari delete {dataset_id}`."
            )

    def _write(self, episodes: list[RecordedEpisode]) -> None:
        from minari import create_dataset_from_buffers
        from minari.data_collector import EpisodeBuffer

        buffers = [
            EpisodeBuffer(
                id=self.written + position,
                **_minari_columns(episode, self._env.observation_space),
            )
            for position, episode in enumerate(episodes)
        ]
        if self.dataset is None:
            self.dataset = create_dataset_from_buffers(
                self.dataset_id, buffers, env=self._env, **self._metadata
            )
        else:
            self.dataset.update_dataset_from_buffer(buffers)


def output_name(config: AlgorithmConfig) -> str:
    """The folder below `output`: trials of one sweep write beside each other."""
    env = config.env if isinstance(config.env, str) else getattr(config.env, "__name__", "env")
    return f"{re.sub(r'[^-_.A-Za-z0-9]+', '-', env)}-seed-{config.seed}"


def make_writer(
    out: str, env: gym.Env, num_lanes: int, **metadata: Any
) -> ParquetWriter | MinariWriter:
    """The writer of a folder, of a URI or of `minari:DATASET-ID`; refuses what exists already."""
    if out.startswith(MINARI):
        return MinariWriter(out.removeprefix(MINARI), env, num_lanes, **metadata)
    writer = ParquetWriter(out, (env.observation_space, env.action_space), num_lanes)
    writer.check_empty()
    return writer


def _by_parts(space: gym.Space, observations: list[Any]) -> Any:
    """The observations of an episode as Minari keeps them: a list for every part of the space."""
    if isinstance(space, gym.spaces.Dict):
        return {
            key: _by_parts(part, [observation[key] for observation in observations])
            for key, part in space.spaces.items()
        }
    if isinstance(space, gym.spaces.Tuple):
        columns = zip(*observations, strict=True)
        return tuple(map(_by_parts, space.spaces, map(list, columns)))
    return observations


def _minari_columns(episode: RecordedEpisode, space: gym.Space) -> dict[str, Any]:
    last = np.arange(len(episode)) == len(episode) - 1
    discounts = [info.get("discount", np.nan) for info in episode.infos]
    # As Minari's own collector, one info for the reset and one for each step.
    infos = {"action_logp": np.array([np.nan, *episode.logp])}
    if not np.isnan(discounts).all():
        infos["discount"] = np.array([np.nan, *discounts])
    return {
        "seed": episode.seed,
        "observations": _by_parts(space, episode.observations),
        "actions": episode.actions,
        "rewards": episode.rewards,
        "terminations": (last & episode.terminated).tolist(),
        "truncations": (last & episode.truncated).tolist(),
        "infos": infos,
    }
