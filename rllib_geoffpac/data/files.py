"""A data set of files, streamed through Ray Data.

Ray Data gets the list of the files, in the order of their paths, and reads them with a task that
claims no CPU: `ray.data.read_parquet` lists files with tasks of their own, which never start where
trials and env runners hold all CPUs, and leaves out an empty file without a word. Other read
methods (`input_read_method`) are Ray Data's own. `preserve_order` keeps the rows in the order of
the files, so that the stream is the same every time.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from rllib_geoffpac.data.episodes import DataError, LoggedEpisode
from rllib_geoffpac.data.rows import EPISODE_COLUMN, Batch, PackedEpisodes, PlainColumns

if TYPE_CHECKING:
    import pyarrow
    import ray.data

    from rllib_geoffpac.data.data_set import DataSettings

_PARQUET = "read_parquet"
_PART_COLUMN, _PATH_COLUMN, _ERROR_COLUMN = "_part", "path", "_error"
_FSSPEC_NAMES = {"gcs": "gcs", "abs": "abfs"}
_ROWS_AT_ONCE = 256
_BLOCK_BYTES = 8 * 2**20


class FileData:
    """The `DataSet` of a folder, of files or of a URI.

    Args:
        settings: Where they are, and how to read them.
    """

    def __init__(self, settings: DataSettings):
        self.settings = settings
        paths = settings.input_
        self.name = paths if isinstance(paths, str) else ", ".join(paths)
        self.files: list[str] = []
        """By part: a part of a parquet file is one of its row groups."""
        self._groups: list[int] = []
        if settings.read_method == _PARQUET:
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
        # Each beginning of a stream would be five lines on the screen.
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        try:
            dataset = self._dataset(first)
            dataset.context.execution_options.preserve_order = True
            dataset.context.enable_progress_bars = False
            dataset.context.target_max_block_size = _BLOCK_BYTES
            batches = dataset.iter_batches(
                batch_size=None, batch_format="numpy", prefetch_batches=1
            )
            for batch in batches:
                if _ERROR_COLUMN in batch:
                    raise _unreadable(next(filter(None, batch[_ERROR_COLUMN])))
                yield from self._by_part(batch)
        except (DataError, GeneratorExit):
            raise
        except Exception as error:  # of Ray Data and of its readers, of many kinds
            raise DataError(
                f"{self.name} can't be read ({type(error).__name__}: {error})."
            ) from error

    def _by_part(self, batch: dict[str, np.ndarray]) -> Iterator[tuple[int, Batch]]:
        if self.settings.read_method == _PARQUET:
            parts = batch.pop(_PART_COLUMN)
        else:
            paths = batch.pop(_PATH_COLUMN, None)
            count = len(next(iter(batch.values())))
            parts = self._indices(paths) if paths is not None else np.zeros(count, np.int64)
        cuts = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(parts)]
        for begin, end in itertools.pairwise(cuts):
            if end > begin:
                yield int(parts[begin]), {name: v[begin:end] for name, v in batch.items()}

    def _indices(self, paths: np.ndarray) -> np.ndarray:
        for path in paths:
            if path not in self.files:
                self.files.append(path)
        return np.array([self.files.index(path) for path in paths])

    def _dataset(self, first: int) -> ray.data.Dataset:
        import ray.data

        settings = self.settings
        if settings.read_method == _PARQUET:
            parts = [
                {_PART_COLUMN: part, _PATH_COLUMN: self.files[part], "group": self._groups[part]}
                for part in range(first, len(self.files))
            ]
            if not parts:
                raise DataError(f"{self.name} holds no rows.")
            read = functools.partial(_read_parquet, settings=settings)
            return ray.data.from_items(parts, override_num_blocks=len(parts)).map_batches(
                read, batch_size=1, num_cpus=0, compute=ray.data.TaskPoolStrategy(size=1)
            )
        method = getattr(ray.data, settings.read_method, None)
        if method is None:
            raise DataError(
                f"`input_read_method` is {settings.read_method!r}, which ray.data does not have; "
                "it has read_parquet, read_json, read_csv and others."
            )
        filesystem, _ = _filesystem(settings, _first(settings))
        more = {} if settings.filesystem is None else {"filesystem": filesystem}
        kwargs = {"include_paths": True, **more, **settings.read_method_kwargs}
        return method(_expanded(settings.input_), **kwargs)


def list_files(settings: DataSettings) -> list[str]:
    """The parquet files of a data set, in the order of their paths.

    Raises:
        DataError: If there are none.
    """
    from pyarrow import fs

    inputs = (settings.input_,) if isinstance(settings.input_, str) else settings.input_
    files = []
    for one in inputs:
        filesystem, path = _filesystem(settings, one)
        info = filesystem.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            raise DataError(
                f"There is no data set at {one!r}: give a folder or URI of parquet files, as "
                "`rllib record --out` and RLlib's `output` write them, or minari:DATASET-ID."
            )
        if info.type == fs.FileType.File:
            files.append(path)
            continue
        found = filesystem.get_file_info(fs.FileSelector(path, recursive=True))
        inside = [entry.path for entry in found if entry.path.endswith(".parquet")]
        if not inside:
            raise DataError(
                f"{one!r} holds no parquet file. For files of another kind, set "
                "`input_read_method`, for instance to 'read_json'."
            )
        files += sorted(inside)
    return files


def _first(settings: DataSettings) -> str:
    return settings.input_ if isinstance(settings.input_, str) else settings.input_[0]


def _expanded(paths: str | tuple[str, ...]) -> str | list[str]:
    if isinstance(paths, str):
        return paths if "://" in paths else os.path.abspath(os.path.expanduser(paths))
    return [str(_expanded(path)) for path in paths]


def _filesystem(settings: DataSettings, path: str) -> tuple[Any, str]:
    """The pyarrow file system of a path or URI, and the path in it."""
    from pyarrow import fs

    given, kwargs = settings.filesystem, settings.filesystem_kwargs
    if given is None:
        return fs.FileSystem.from_uri(str(_expanded(path)))
    if isinstance(given, fs.FileSystem):
        return given, path
    if given == "s3":
        return fs.S3FileSystem(**kwargs), path.removeprefix("s3://")
    if given in _FSSPEC_NAMES:
        import fsspec

        made = fsspec.filesystem(_FSSPEC_NAMES[given], **kwargs)
        return fs.PyFileSystem(fs.FSSpecHandler(made)), path
    raise DataError(
        f"`input_filesystem` is {given!r}; allowed is None, 's3', 'gcs', 'abs' or a "
        "pyarrow.fs.FileSystem."
    )


def _row_groups(settings: DataSettings, path: str) -> int:
    """How many there are in a parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    filesystem, _ = _filesystem(settings, _first(settings))
    try:
        with pq.ParquetFile(path, filesystem=filesystem) as file:
            return file.num_row_groups
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(_sentence(path, error)) from None


def _read_parquet(batch: dict[str, np.ndarray], settings: DataSettings) -> Iterator[pyarrow.Table]:
    """The rows of one row group, a few at a time; a task of Ray Data."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import ray.data  # noqa: F401 (registers the type of its tensor columns)

    (part,), (path,), (group,) = batch[_PART_COLUMN], batch[_PATH_COLUMN], batch["group"]
    filesystem, _ = _filesystem(settings, _first(settings))
    try:
        with pq.ParquetFile(path, filesystem=filesystem) as file:
            for rows in file.iter_batches(
                batch_size=_ROWS_AT_ONCE, row_groups=[int(group)], **settings.read_method_kwargs
            ):
                parts = pa.array(np.full(len(rows), part, np.int64))
                yield pa.Table.from_batches([rows]).append_column(_PART_COLUMN, parts)
    except (OSError, pa.ArrowException) as error:
        # A row of its own: what a task raises, Ray Data logs with its whole traceback.
        yield pa.table({_PART_COLUMN: [part], _ERROR_COLUMN: [_sentence(path, error)]})


def _sentence(path: str, error: Exception) -> str:
    return f"{path} can't be read ({str(error).splitlines()[0]})"


def _unreadable(what: str) -> DataError:
    return DataError(
        f"{what}: it is missing, damaged or no parquet file. Bring it back, or take it out of the "
        "data set and start again."
    )
