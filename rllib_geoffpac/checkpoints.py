"""Checkpoints that are complete or refused: a manifest with checksums, written last.

A run can be killed and a disk can be full at any moment. So a checkpoint is written beside its
place and moved there when it is complete; what was there before stays good until then. Reading
begins with the manifest, before anything is unpickled. Who wants nothing but the weights finds them
as plain arrays beside RLlib's pickles.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import pickle
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.utils.annotations import override
from ray.rllib.utils.checkpoints import Checkpointable

MANIFEST = "geoffpac_manifest.json"
WEIGHTS = "weights.npz"
CONSTRUCTION = "class_and_ctor_args.pkl"
"""Where RLlib keeps an algorithm's config."""
FORMAT = 2
_BLOCK = 1 << 20


class CheckpointError(RuntimeError):
    """A checkpoint can't be written, or what is there can't be trusted."""


class VerifiedCheckpoints(Checkpointable):
    """Mixin for an Algorithm: its checkpoints carry a manifest and are checked against it."""

    @override(Checkpointable)
    def save_to_path(
        self,
        path: str | Path | None = None,
        *,
        filesystem: pyarrow.fs.FileSystem | None = None,
        **kwargs: Any,
    ) -> str:
        self.check_parts()
        filesystem, path = _resolve(path, filesystem)
        if not isinstance(filesystem, pyarrow.fs.LocalFileSystem):
            with _explained(path):
                super().save_to_path(path, filesystem=filesystem, **kwargs)
                self._complete(filesystem, path)
            return path
        target = Path(path)
        staging = _beside(target)
        try:
            with _explained(path):
                staging.mkdir(parents=True)
                super().save_to_path(staging, filesystem=filesystem, **kwargs)
                self._complete(filesystem, str(staging))
                _put_in_place(staging, target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return path

    def _complete(self, filesystem: pyarrow.fs.FileSystem, path: str) -> None:
        self.check_parts()
        weights = io.BytesIO()
        arrays: dict[str, Any] = self.module_weights()
        np.savez(weights, **arrays)
        with filesystem.open_output_stream(f"{path}/{WEIGHTS}") as file:
            file.write(weights.getvalue())
        files = {
            name: [size, _sha256(filesystem, f"{path}/{name}")]
            for name, size in _files(filesystem, path).items()
            if name != MANIFEST
        }
        manifest = {"format": FORMAT, "algorithm": _names(type(self)), "files": files}
        with filesystem.open_output_stream(f"{path}/{MANIFEST}") as file:
            file.write(json.dumps(manifest, indent=1).encode())

    def module_weights(self) -> dict[str, np.ndarray]:
        """The parameters of what is saved, by name; none if it has no module."""
        return {}

    def check_parts(self) -> None:
        """Raises if a process that saves and restores its part itself is lost or failed."""

    @override(Checkpointable)
    def restore_from_path(
        self,
        path: str | Path,
        *args: Any,
        component: str | None = None,
        filesystem: pyarrow.fs.FileSystem | None = None,
        **kwargs: Any,
    ) -> None:
        filesystem, path = _resolve(path, filesystem)
        if component is None:
            names = verify(path, filesystem)
            if names[0] != type(self).__name__:
                raise CheckpointError(
                    f"The checkpoint {path} is one of {names[0]}, not of {type(self).__name__}: "
                    f"restore it with {names[0]}.from_checkpoint()."
                )
        super().restore_from_path(path, *args, component=component, filesystem=filesystem, **kwargs)
        self.check_parts()

    @classmethod
    @override(Checkpointable)
    def from_checkpoint(
        cls, path: str | Path, filesystem: pyarrow.fs.FileSystem | None = None, **kwargs: Any
    ) -> VerifiedCheckpoints:
        filesystem, path = _resolve(getattr(path, "path", path), filesystem)
        names = verify(path, filesystem)
        if cls.__name__ not in names:
            raise CheckpointError(
                f"The checkpoint {path} is one of {names[0]}, not of {cls.__name__}: "
                f"use {names[0]}.from_checkpoint()."
            )
        return super().from_checkpoint(path, filesystem=filesystem, **kwargs)


class CheckpointedPart(Checkpointable):
    """Mixin for a Learner, which RLlib saves and restores remotely without looking at errors."""

    checkpoint_error: Exception | None = None

    @override(Checkpointable)
    def save_to_path(self, *args: Any, **kwargs: Any) -> str:
        with self._remembering_errors():
            return super().save_to_path(*args, **kwargs)

    @override(Checkpointable)
    def restore_from_path(self, *args: Any, **kwargs: Any) -> None:
        with self._remembering_errors():
            super().restore_from_path(*args, **kwargs)

    @contextlib.contextmanager
    def _remembering_errors(self) -> Iterator[None]:
        self.checkpoint_error = None
        try:
            yield
        except Exception as error:
            self.checkpoint_error = error
            raise


def read_weights(path: str | Path) -> dict[str, np.ndarray]:
    """The parameters in a checkpoint's folder, by name; nothing is unpickled."""
    with np.load(Path(path, WEIGHTS), allow_pickle=False) as arrays:
        return dict(arrays)


def read_config(path: str | Path) -> AlgorithmConfig:
    """The config of any RLlib algorithm, from the folder of its checkpoint: it is unpickled."""
    stored = pickle.loads(Path(path, CONSTRUCTION).read_bytes())
    arguments, keywords = stored["ctor_args_and_kwargs"]
    config = keywords.get("config", arguments[0] if arguments else None)
    if isinstance(config, dict):
        config = AlgorithmConfig.from_state(config)
    return config.copy(copy_frozen=False)


def verify(path: str | Path, filesystem: pyarrow.fs.FileSystem | None = None) -> list[str]:
    """Checks a checkpoint against its manifest, without unpickling anything.

    Returns:
        The name of the algorithm that wrote it, then those of its base classes.

    Raises:
        CheckpointError: If it is incomplete, altered, or of another format.
        FileNotFoundError: If there is nothing.
    """
    filesystem, path = _resolve(path, filesystem)
    if filesystem.get_file_info(path).type == pyarrow.fs.FileType.NotFound:
        raise FileNotFoundError(f"There is no checkpoint {path}.")
    manifest = _read_manifest(filesystem, path)
    present = _files(filesystem, path)
    for name, (size, digest) in manifest["files"].items():
        if name not in present:
            raise CheckpointError(f"The checkpoint {path} lacks {name}. {_WAY_OUT}")
        if present[name] != size or _sha256(filesystem, f"{path}/{name}") != digest:
            raise CheckpointError(f"The checkpoint {path} is damaged: {name} differs. {_WAY_OUT}")
    return manifest["algorithm"]


_WAY_OUT = "Restore an earlier checkpoint of the run instead."


def _read_manifest(filesystem: pyarrow.fs.FileSystem, path: str) -> dict[str, Any]:
    try:
        with filesystem.open_input_stream(f"{path}/{MANIFEST}") as file:
            manifest = json.loads(file.read())
    except FileNotFoundError:
        raise CheckpointError(
            f"{path} is no complete checkpoint of this package: {MANIFEST} is missing, so writing "
            f"it was interrupted, or something else wrote it. {_WAY_OUT}"
        ) from None
    except ValueError:
        raise CheckpointError(
            f"The checkpoint {path} is damaged: {MANIFEST} can't be read. {_WAY_OUT}"
        ) from None
    if manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"The checkpoint {path} has format {manifest.get('format')}, this version of "
            f"rllib_geoffpac reads format {FORMAT}: use the version that wrote it."
        )
    return manifest


def _names(algorithm: type) -> list[str]:
    """The algorithm's name and those of its bases below this mixin."""
    return [c.__name__ for c in algorithm.__mro__ if issubclass(c, VerifiedCheckpoints)][:-1]


def _resolve(
    path: str | Path | None, filesystem: pyarrow.fs.FileSystem | None
) -> tuple[pyarrow.fs.FileSystem, str]:
    if path is None:
        path = Path(os.environ.get("TMPDIR", "/tmp"), uuid.uuid4().hex)
    if filesystem is not None:
        return filesystem, str(path)
    if "://" in str(path):
        return pyarrow.fs.FileSystem.from_uri(str(path))
    return pyarrow.fs.LocalFileSystem(), os.path.abspath(path)


def _files(filesystem: pyarrow.fs.FileSystem, path: str) -> dict[str, int]:
    """Relative names and sizes of all files below a folder, in a fixed order."""
    found = filesystem.get_file_info(pyarrow.fs.FileSelector(path, recursive=True))
    files = {f.path: f.size for f in found if f.is_file}
    root = os.path.commonpath([path, *files]) if files else path
    return {os.path.relpath(name, root): files[name] for name in sorted(files)}


def _sha256(filesystem: pyarrow.fs.FileSystem, path: str) -> str:
    digest = hashlib.sha256()
    with filesystem.open_input_stream(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turns an error of the file system into one that says what to do."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"The checkpoint {path} can't be written ({error}). Earlier checkpoints are "
            "untouched: free some space or choose another folder, then save again."
        ) from error


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")


def _put_in_place(staging: Path, target: Path) -> None:
    """Moves a complete checkpoint to its place; an earlier one there is replaced as a whole."""
    try:
        os.rename(staging, target)  # The place is free, or an empty folder.
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    if (target / MANIFEST).exists():
        earlier = _beside(target)
        os.rename(target, earlier)
        os.rename(staging, target)
        own = {Path(name).parts[0] for name in _files(pyarrow.fs.LocalFileSystem(), str(target))}
        for entry in earlier.iterdir():
            if entry.name not in own:  # Somebody else's: it stays where it was.
                shutil.move(entry, target / entry.name)
        shutil.rmtree(earlier, ignore_errors=True)
        return
    # A folder with other things in it: only our own names are replaced, the manifest last.
    for entry in sorted(staging.iterdir(), key=lambda entry: entry.name == MANIFEST):
        place = target / entry.name
        if place.is_dir():
            shutil.rmtree(place)
        os.replace(entry, place)
