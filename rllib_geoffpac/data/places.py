"""Where the files of a data set are: paths, URIs and file systems."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rllib_geoffpac.data.episodes import DataError

if TYPE_CHECKING:
    from rllib_geoffpac.data.data_set import DataSettings

_FSSPEC_NAMES = {"gcs": "gcs", "abs": "abfs"}
_HIDDEN = (".", "_")
"""How the names of what is no data begin, as for pyarrow and Ray Data."""


def list_files(settings: DataSettings) -> list[str]:
    """The parquet files of a data set, in the order of their paths.

    Raises:
        DataError: If there are none.
    """
    from pyarrow import fs

    files = []
    for one in settings.paths:
        filesystem, path = filesystem_of(settings, one)
        try:
            info = filesystem.get_file_info(path)
            if info.type == fs.FileType.NotFound:
                raise _not_there(one)
            if info.type == fs.FileType.File:
                files.append(path)
                continue
            found = filesystem.get_file_info(fs.FileSelector(path, recursive=True))
        except OSError as error:
            raise _unreachable(one, error) from error
        inside = [entry.path for entry in found if _is_data(entry.path, path)]
        if not inside:
            raise DataError(
                f"{one!r} holds no parquet file. For files of another kind, set "
                "`input_read_method`, for instance to 'read_json'."
            )
        files += sorted(inside)
    return files


def _is_data(file: str, folder: str) -> bool:
    inside = file[len(folder) :].strip("/").split("/")
    return file.endswith(".parquet") and not any(part.startswith(_HIDDEN) for part in inside)


def _not_there(place: str) -> DataError:
    if place.startswith("minari:"):
        return DataError(
            f"{place!r} can't be a part of a list: give one Minari data set, or files alone."
        )
    hint = " Patterns are not expanded." if any(sign in place for sign in "*?[") else ""
    return DataError(
        f"There is no data set at {place!r}: give a folder or URI of parquet files, as "
        f"`rllib record --out` and RLlib's `output` write them, or minari:DATASET-ID.{hint}"
    )


def _unreachable(place: str, error: Exception) -> DataError:
    return DataError(
        f"{place!r} can't be reached ({str(error).splitlines()[0]}): give a path, or a URI such as "
        "file:///absolute/path or s3://bucket/folder with its credentials in the environment; "
        "`input_filesystem` and `input_filesystem_kwargs` say all else."
    )


def expanded(path: str) -> str:
    """A path from the root; a URI as it is."""
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))


def filesystem_of(settings: DataSettings, path: str) -> tuple[Any, str]:
    """The pyarrow file system of a path or URI, and the path in it.

    Raises:
        DataError: If there is none.
    """
    import pyarrow as pa
    from pyarrow import fs

    given, kwargs = settings.filesystem, settings.filesystem_kwargs
    if given is None:
        try:
            return fs.FileSystem.from_uri(expanded(path))
        except (OSError, pa.ArrowException) as error:
            raise _unreachable(path, error) from error
    if isinstance(given, fs.FileSystem):
        return given, path
    if given not in ("s3", *_FSSPEC_NAMES):
        raise DataError(
            f"`input_filesystem` is {given!r}; allowed is None, 's3', 'gcs', 'abs' or a "
            "pyarrow.fs.FileSystem."
        )
    try:
        if given == "s3":
            return fs.S3FileSystem(**kwargs), path.removeprefix("s3://")
        import fsspec

        made = fsspec.filesystem(_FSSPEC_NAMES[given], **kwargs)
        return fs.PyFileSystem(fs.FSSpecHandler(made)), path
    except (TypeError, ValueError, ImportError) as error:
        raise DataError(
            f"The file system {given!r} (`input_filesystem`) can't be had with the arguments "
            f"{sorted(kwargs)} (`input_filesystem_kwargs`): {error}."
        ) from error
