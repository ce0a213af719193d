"""A data set of files: parquet row group by row group, other kinds streamed through Ray Data.

Parquet files are read here, in the order of their paths, and become rows by Ray Data's own block
format. Ray Data's `read_parquet` would hang where trials and env runners hold all CPUs, leaves out
an empty file without a word, can't begin in the middle, and a stream of it that is closed before
its end can end the whole process ("Tried to complete task that was not pending"). So the streams
of other read methods (`input_read_method`), which are Ray Data's with `preserve_order`, are always
read to their end.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from rllib_geoffpac.data.episodes import DataError, LoggedEpisode
from rllib_geoffpac.data.packed_episodes import EPISODE_COLUMN, Batch, PackedEpisodes
from rllib_geoffpac.data.places import expanded, filesystem_of, list_files
from rllib_geoffpac.data.plain_columns import PlainColumns

if TYPE_CHECKING:
    import ray.data

    from rllib_geoffpac.data.data_set import DataSettings

_PARQUET = "read_parquet"
_PATH_COLUMN = "path"
_ROWS_AT_ONCE = 256
_RESOURCES = {
    *("parallelism", "override_num_blocks", "concurrency", "num_cpus", "num_gpus", "memory"),
    *("resources", "accelerator_type", "label_selector", "fallback_strategy", "max_calls"),
    *("runtime_env", "ray_remote_args"),
}
"""Arguments of Ray Data's `read_parquet` that say who reads, which is known here."""


class FileData:
    """The `DataSet` of a folder, of files or of a URI.

    Args:
        settings: Where they are, and how to read them.
    """

    def __init__(self, settings: DataSettings):
        self.settings = settings
        self.name = ", ".join(settings.paths)
        self.files: list[str] = []
        """By part: a part of a parquet file is one of its row groups."""
        self._groups: list[int] = []
        if settings.read_method == _PARQUET:
            _check_parquet_arguments(settings.read_method_kwargs)
            for path in list_files(settings):
                count = _row_groups(settings, path)
                self.files += [path] * count
                self._groups += range(count)
        self.starts: dict[int, int] = {0: 0}
        """part: number of its first episode, where no episode reaches into the part; grows while
        episodes are read for the first time."""
        self.observation_space: gym.Space | None = None
        self.action_space: gym.Space | None = None
        next(self.episodes(), None)  # what is no data set is found out here, and its spaces

    def episodes(self, first: int = 0) -> Iterator[LoggedEpisode]:
        """All episodes from number `first` on."""
        part = 0
        if self._groups:  # other methods of Ray Data can only begin at the beginning
            part = max(index for index, number in self.starts.items() if number <= first)
        parser: PackedEpisodes | PlainColumns | None = None
        before = part - 1
        for index, batch in self._stream(part):
            if parser is None:
                parser = self._parser(batch, self.starts[part])
            elif (EPISODE_COLUMN in batch) != isinstance(parser, PackedEpisodes):
                raise DataError(
                    f"{self._name_of(index)} is of another kind than the files before it: some "
                    f"hold RLlib's packed episodes (a column {EPISODE_COLUMN!r}), some plain "
                    "columns. Give them as two data sets."
                )
            if index != before:
                if not parser.is_open:
                    self.starts.setdefault(index, parser.number)
                before = index
            for episode in parser.feed(self._name_of(index), batch):
                self._learn_spaces(parser)
                if episode.number >= first:
                    yield episode
        if parser is not None:
            for episode in parser.finish():
                if episode.number >= first:
                    yield episode

    def _parser(self, batch: Batch, number: int) -> PackedEpisodes | PlainColumns:
        settings = self.settings
        if EPISODE_COLUMN in batch:
            return PackedEpisodes(number)
        return PlainColumns(
            settings.schema, settings.compress_columns, settings.ignore_final_observation, number
        )

    def _learn_spaces(self, parser: PackedEpisodes | PlainColumns) -> None:
        if self.observation_space is None:
            self.observation_space = parser.observation_space
            self.action_space = parser.action_space

    def _name_of(self, index: int) -> str:
        return self.files[index] if self.files else self.name

    def _stream(self, first: int) -> Iterator[tuple[int, Batch]]:
        """(part, rows) from a part on; the rows of one part at a time."""
        if self.settings.read_method != _PARQUET:
            yield from self._ray_data()
        for part in range(first, len(self._groups)):
            for rows in _read_parquet(self.settings, self.files[part], self._groups[part]):
                yield part, rows

    def _ray_data(self) -> Iterator[tuple[int, Batch]]:
        # Each beginning of a stream would be five lines on the screen.
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        try:
            dataset = self._dataset()
            dataset.context.execution_options.preserve_order = True
            dataset.context.enable_progress_bars = False
            batches = iter(dataset.iter_batches(batch_size=None, batch_format="numpy"))
            try:
                for batch in batches:
                    yield from self._by_file(batch)
            finally:
                for _ in batches:  # see the module's head
                    pass
        except (DataError, GeneratorExit):
            raise
        except Exception as error:  # of Ray Data and of its readers, of many kinds
            raise DataError(
                f"{self.name} can't be read ({type(error).__name__}: {error})."
            ) from error

    def _by_file(self, batch: dict[str, np.ndarray]) -> Iterator[tuple[int, Batch]]:
        paths = batch.pop(_PATH_COLUMN, None)
        count = len(next(iter(batch.values())))
        files = self._indices(paths) if paths is not None else np.zeros(count, np.int64)
        cuts = [0, *(np.flatnonzero(np.diff(files)) + 1).tolist(), len(files)]
        for begin, end in itertools.pairwise(cuts):
            if end > begin:
                yield int(files[begin]), {name: v[begin:end] for name, v in batch.items()}

    def _indices(self, paths: np.ndarray) -> np.ndarray:
        for path in paths:
            if path not in self.files:
                self.files.append(path)
        return np.array([self.files.index(path) for path in paths])

    def _dataset(self) -> ray.data.Dataset:
        import ray.data

        settings = self.settings
        method = getattr(ray.data, settings.read_method, None)
        if method is None:
            raise DataError(
                f"`input_read_method` is {settings.read_method!r}, which ray.data does not have; "
                "it has read_parquet, read_json, read_csv and others."
            )
        filesystem, _ = filesystem_of(settings, settings.paths[0])
        more = {} if settings.filesystem is None else {"filesystem": filesystem}
        kwargs = {"include_paths": True, **more, **settings.read_method_kwargs}
        several = [expanded(path) for path in settings.paths]
        return method(several[0] if isinstance(settings.input_, str) else several, **kwargs)


def _check_parquet_arguments(given: dict[str, Any]) -> None:
    """What `read_parquet` may be told here: which columns; who reads them changes nothing."""
    for key in sorted(given.keys() - _RESOURCES - {"columns"}):
        raise DataError(
            f"`input_read_method_kwargs` has {key!r}; allowed for 'read_parquet' is 'columns', and "
            "what says who reads (such as 'override_num_blocks'), which changes nothing: files are "
            "read in the order of their paths, by who needs them."
        )


def _row_groups(settings: DataSettings, path: str) -> int:
    """How many there are in a parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    filesystem, _ = filesystem_of(settings, settings.paths[0])
    try:
        with pq.ParquetFile(path, filesystem=filesystem) as file:
            return file.num_row_groups
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _read_parquet(settings: DataSettings, path: str, group: int) -> Iterator[Batch]:
    """The rows of one row group, a few at a time, as Ray Data would give them."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from ray.data.block import BlockAccessor  # its import registers Ray Data's tensor columns

    filesystem, _ = filesystem_of(settings, settings.paths[0])
    try:
        with pq.ParquetFile(path, filesystem=filesystem) as file:
            for rows in file.iter_batches(
                batch_size=_ROWS_AT_ONCE,
                row_groups=[group],
                columns=settings.read_method_kwargs.get("columns"),
            ):
                block = pa.Table.from_batches([rows])
                yield BlockAccessor.for_block(block).to_batch_format("numpy")
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: Exception) -> DataError:
    return DataError(
        f"{path} can't be read ({str(error).splitlines()[0]}): it is missing, damaged or no "
        "parquet file. Bring it back, or take it out of the data set and start again."
    )
