"""Opens a data set by its name: a folder or URI of files, or `minari:DATASET-ID`.

    data = open_data_set("~/logs/reacher")
    for episode in data.episodes():
        print(episode.number, len(episode), episode.rewards.sum())

Neither an Algorithm nor an environment is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium as gym

from rllib_geoffpac.data.episodes import DataError, LoggedEpisode

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

MINARI = "minari:"


class DataSet(Protocol):
    """A data set: its spaces, and its episodes in order. It can be pickled."""

    name: str
    observation_space: gym.Space | None
    """As the data set's metadata have it; None: they don't tell."""
    action_space: gym.Space | None
    """Likewise."""

    def episodes(self, first: int = 0) -> Iterator[LoggedEpisode]:
        """All episodes from number `first` on, streamed, in the order of the data set.

        Raises:
            DataError: If something can't be read.
        """
        ...


@dataclass(frozen=True)
class DataSettings:
    """Where a data set is and how to read it: RLlib's settings of `.offline_data()`."""

    input_: str | tuple[str, ...]
    read_method: str = "read_parquet"
    read_method_kwargs: dict[str, Any] = field(default_factory=dict)
    schema: dict[str, str] = field(default_factory=dict)
    compress_columns: tuple[str, ...] = ("obs",)  # as RLlib has it
    filesystem: Any = None
    filesystem_kwargs: dict[str, Any] = field(default_factory=dict)
    ignore_final_observation: bool = False
    actions_normalized: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """Of one file, folder or URI, or of several."""
        return (self.input_,) if isinstance(self.input_, str) else self.input_

    @classmethod
    def of(cls, config: AlgorithmConfig) -> DataSettings:
        """The settings of an `AlgorithmConfig`."""
        paths = config.input_
        return cls(
            input_=paths if isinstance(paths, str) else tuple(paths),
            read_method=config.input_read_method,
            read_method_kwargs=dict(config.input_read_method_kwargs),
            schema=dict(config.input_read_schema),
            compress_columns=tuple(config.input_compress_columns or ()),
            filesystem=config.input_filesystem,
            filesystem_kwargs=dict(config.input_filesystem_kwargs),
            ignore_final_observation=bool(config.ignore_final_observation),
            actions_normalized=bool(config.actions_in_input_normalized),
        )


def open_data_set(settings: DataSettings | str) -> DataSet:
    """Opens a data set, by its settings or by its name alone.

    Args:
        settings: `DataSettings`; or a folder, file or URI (parquet files of RLlib's episodes or of
            plain columns), or `minari:DATASET-ID`.

    Raises:
        DataError: If there is none, or if it can't be read.
    """
    if isinstance(settings, str):
        settings = DataSettings(settings)
    if not settings.paths or not all(path.strip() for path in settings.paths):
        raise DataError(
            f"{settings.input_!r} names no data set: give a folder, file or URI of parquet files, "
            "a list of those, or minari:DATASET-ID."
        )
    if isinstance(settings.input_, str) and settings.input_.startswith(MINARI):
        from rllib_geoffpac.data.minari_data import MinariData

        return MinariData(settings.input_.removeprefix(MINARI))
    from rllib_geoffpac.data.files import FileData

    return FileData(settings)
