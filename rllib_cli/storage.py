"""Results in a folder or behind a URI such as ``s3://bucket/results``, read and written alike.

Ray Tune writes to URIs through ``pyarrow.fs``, and so do these functions. A URI may end in a query
(``?endpoint_override=...``): it belongs to the file system and stays at the end of every sub-path.
pyarrow is imported only for URIs.
"""

import contextlib
import fnmatch
import functools
import posixpath
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rllib_cli import interruption
from rllib_cli.errors import UserError, exception_summary
from rllib_geoffpac.validation import did_you_mean

SCHEMES = ("file", "s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
# Any of fsspec's file systems, as pyarrow spells it: fsspec+sftp://...
_FSSPEC = "fsspec+"
# Of the folders above a trial or a checkpoint only the descriptions are copied.
_DESCRIPTIONS = ("experiment.json", "params.json")
# Without it, Google's client tries again for a quarter of an hour, even without credentials.
_GCS_PATIENCE = "retry_limit_seconds=10"
_SILENCE_S = 5.0
# All that may stand unescaped in the path of a URI (RFC 3986).
_UNESCAPED = "/:@!$&'()*+,;="


def is_uri(location: str | Path) -> bool:
    """Whether a location is a URI, as opposed to a folder or file of this machine."""
    return "://" in str(location)


def join(location: str | Path, *names: str) -> str:
    """The location of something below another one: ``s3://b/p?q=1``, ``x`` -> ``s3://b/p/x?q=1``.

    ``names`` are plain names; in a URI they get escaped (but fsspec's are taken literally).
    """
    if not is_uri(location):
        return str(Path(location, *names))
    head, mark, query = str(location).partition("?")
    scheme, _, path = head.partition("://")
    if not scheme.startswith(_FSSPEC):
        names = tuple(quote(name, safe=_UNESCAPED) for name in names)
    path = "/".join([path.rstrip("/"), *names])
    return f"{scheme}://{path}{mark}{query}"


def locate(location: str) -> tuple[Any, str]:
    """What Tune takes: a ``pyarrow.fs.FileSystem`` (None for this machine's) and a path on it."""
    if not is_uri(location):
        return None, location
    return _from_uri(location, location)


def location_of(path: str, folder: str) -> str:
    """How the user writes a path that Tune reports below ``folder``."""
    if not is_uri(folder):
        return path
    return join(folder, posixpath.relpath(path, _open(folder)[1]))


def check(uri: str) -> None:
    """Looks whether results can be behind a URI, and writes nothing.

    Raises:
        UserError: If the URI is malformed, nobody answers, or there is no such bucket.
    """
    from pyarrow.fs import FileType

    filesystem, path = _open(uri)
    with _explained(uri):
        info = filesystem.get_file_info(path)
    if info.is_file:
        raise UserError(f"{uri!r} cannot be used: it is a file. Choose another place.")
    bucket, missing = path.partition("/")[0], False
    if bucket and info.type == FileType.NotFound:
        # Not everybody who may write into a bucket may also ask for it.
        with contextlib.suppress(OSError):
            missing = filesystem.get_file_info(bucket).type == FileType.NotFound
    if missing:
        raise UserError(
            f"{uri!r} cannot be used: there is no bucket {bucket!r}. Create it, or choose another."
        )


def exists(location: str) -> bool:
    """Whether there is a file or folder."""
    if not is_uri(location):
        return Path(location).exists()
    return _info(location).type.name != "NotFound"


def read_text(location: str) -> str | None:
    """The text of a file; None if there is no such file."""
    if not is_uri(location):
        return Path(location).read_text() if Path(location).exists() else None
    filesystem, path = _open(location)
    with _explained(location):
        if not filesystem.get_file_info(path).is_file:
            return None
        with filesystem.open_input_file(path) as file:
            return file.read().decode()


def write_text(location: str, text: str) -> None:
    """Writes a file, and its folder if that is missing.

    Raises:
        UserError: If that is behind a URI and cannot be written.
    """
    if not is_uri(location):
        Path(location).write_text(text)
        return
    filesystem, path = _open(location)
    with _explained(location, "is not writable"):
        filesystem.create_dir(posixpath.dirname(path))
        with filesystem.open_output_stream(path, compression=None) as file:
            file.write(text.encode())


def glob(location: str, pattern: str) -> list[str]:
    """The locations below a folder that match a pattern such as ``*/checkpoint_*``, sorted."""
    if not is_uri(location):
        return sorted(map(str, Path(location).glob(pattern)))
    from pyarrow.fs import FileSelector

    filesystem, path = _open(location)
    *folders, last = pattern.split("/")
    found = [path]
    with _explained(location):
        for number, part in enumerate([*folders, last]):
            found = [
                info.path
                for folder in found
                for info in filesystem.get_file_info(FileSelector(folder, allow_not_found=True))
                if fnmatch.fnmatchcase(info.base_name, part)
                and (number == len(folders) or info.type.name == "Directory")
            ]
    return [location_of(path, location) for path in sorted(found)]


def size(location: str) -> int:
    """The bytes of all files below a folder."""
    if not is_uri(location):
        return sum(file.stat().st_size for file in Path(location).rglob("*") if file.is_file())
    from pyarrow.fs import FileSelector

    filesystem, path = _open(location)
    with _explained(location):
        below = filesystem.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
    return sum(info.size or 0 for info in below if info.is_file)


@contextlib.contextmanager
def local_copy(location: str, names: tuple[str, ...] = ()) -> Iterator[Path]:
    """A folder of this machine with the files of a location; it is removed afterwards.

    What is on this machine already is not copied. The two folders above come along with their
    descriptions, because a trial's settings stand beside its checkpoints.

    Args:
        location: A folder, or its URI.
        names: Copy only files with these names, at any depth; empty for all.
    """
    if not is_uri(location):
        yield Path(location)
        return
    filesystem, path = _open(location)
    with interruption.unwinding(), tempfile.TemporaryDirectory(prefix="rllib-") as root:
        with _explained(location):
            for source in [*_files(filesystem, path, names), *_above(filesystem, path)]:
                _download(filesystem, source, Path(root, source.strip("/")))
        folder = Path(root, path.strip("/"))
        folder.mkdir(parents=True, exist_ok=True)
        try:
            yield folder
        except UserError as error:
            # The user knows the place by its URI.
            start = f"{location.partition('://')[0]}://{'/' * path.startswith('/')}"
            raise UserError(str(error).replace(f"{root}/", start)) from None


def _files(filesystem: Any, path: str, names: tuple[str, ...]) -> list[str]:
    from pyarrow.fs import FileSelector

    below = filesystem.get_file_info(FileSelector(path, recursive=True))
    return [info.path for info in below if info.is_file and (not names or info.base_name in names)]


def _above(filesystem: Any, path: str) -> list[str]:
    parent = posixpath.dirname(path.rstrip("/"))
    wanted = [
        f"{folder}/{name}"
        for folder in (parent, posixpath.dirname(parent))
        if folder.strip("/")
        for name in _DESCRIPTIONS
    ]
    return [info.path for info in filesystem.get_file_info(wanted) if info.is_file]


def _download(filesystem: Any, source: str, target: Path) -> None:
    # The keys of a bucket are free text: none may lead out of the temporary folder.
    if ".." in source.split("/"):
        raise UserError(f"The file {source!r} has '..' in its name; refused.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with filesystem.open_input_file(source) as file, open(target, "wb") as copy:
        shutil.copyfileobj(file, copy, 1 << 20)


def _info(uri: str) -> Any:
    filesystem, path = _open(uri)
    with _explained(uri):
        return filesystem.get_file_info(path)


@functools.lru_cache(maxsize=64)
def _open(uri: str) -> tuple[Any, str]:
    """The file system of a URI and the path on it; it gives up early if nobody answers."""
    scheme = uri.partition("://")[0]
    if scheme not in SCHEMES and not scheme.startswith(_FSSPEC):
        allowed = ", ".join(f"{known}://" for known in SCHEMES)
        raise UserError(
            f"{uri!r} cannot be used: {scheme}:// is not known.{did_you_mean(scheme, SCHEMES)} "
            f"Allowed are folders of this machine, {allowed} and {_FSSPEC}...://."
        )
    opened = uri
    if scheme in ("gs", "gcs") and "retry_limit_seconds=" not in uri:
        opened += ("&" if "?" in uri else "?") + _GCS_PATIENCE
    filesystem, path = _from_uri(opened, uri)
    if not path:
        raise UserError(f"{uri!r} cannot be used: Missing bucket name. Write {scheme}://BUCKET.")
    return filesystem, path


def _from_uri(uri: str, shown: str) -> tuple[Any, str]:
    from pyarrow.fs import FileSystem

    with _explained(shown):
        return FileSystem.from_uri(uri)


@contextlib.contextmanager
def _explained(uri: str, what: str = "cannot be used") -> Iterator[None]:
    """Makes one sentence of the many exceptions of file systems, and says what it waits for.

    Looking for credentials, or for a host that does not answer, may take minutes.
    """
    waiting = threading.Timer(_SILENCE_S, print, [f"Waiting for {uri} ..."], {"file": sys.stderr})
    waiting.daemon = True
    waiting.start()
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = exception_summary(error, 300)
        raise UserError(
            f"{uri!r} {what}: {reason}{'.' * (not reason.endswith('.'))} Check the name, the "
            "network and your credentials, or choose another place."
        ) from None
    finally:
        waiting.cancel()
