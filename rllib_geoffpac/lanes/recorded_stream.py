"""Recorded streams: what a lane of a fixed behaviour policy produced, on disk, for other trials.

    <experience_cache>/<stream name>/stream.json          what the stream is the stream of
    <experience_cache>/<stream name>/lane-3/00017.chunk   transitions 17 * 500 ... of lane 3

A chunk is written to a file of its own and renamed: it is there completely or not at all, however
many trials write the same one and wherever they crash. A checksum at its end finds out damage.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rllib_geoffpac.lanes.events import RECORDED_CHUNKS_DAMAGED, EventCounts
from rllib_geoffpac.lanes.fragments import LaneColumns
from rllib_geoffpac.lanes.stream_identity import stream_name

logger = logging.getLogger(__name__)

CHUNK_LENGTH = 500
"""Transitions of one lane in a file; a stream's last one may hold fewer."""

_CHECKSUM_BYTES = 32
_WRITES_BETWEEN_SIZE_CHECKS = 64
_SECONDS_UNTIL_ABANDONED = 3600.0


class DamagedChunkError(ValueError):
    """A chunk's file is not what was written."""


@dataclass
class Chunk:
    """The first transitions of a chunk, and where the lane stood before them."""

    episode: int
    step: int
    episode_return: float
    columns: LaneColumns | None = None

    def __len__(self) -> int:
        return 0 if self.columns is None else len(self.columns)

    def extended(self, part: LaneColumns) -> Chunk:
        """Returns the chunk with the transitions that follow."""
        columns = part if self.columns is None else LaneColumns.join([self.columns, part])
        return Chunk(self.episode, self.step, self.episode_return, columns)


class RecordedStream:
    """The recorded lanes of one stream; nothing that goes wrong here stops a run.

    Args:
        cache: The folder of all streams.
        description: See `describe_stream`.
        max_bytes: Nothing more is recorded once the folder holds so much.
    """

    def __init__(self, cache: str | Path, description: dict[str, Any], max_bytes: float):
        self.cache, self.max_bytes = Path(cache), max_bytes
        self.folder = self.cache / stream_name(description)
        self.events = EventCounts()
        self._records = True
        self._writes, self._bytes = 0, 0
        if not (self.folder / "stream.json").exists():
            self._write("stream.json", json.dumps(description, indent=1).encode())

    def read(self, lane: int, number: int) -> Chunk | None:
        """Returns a chunk, memory-mapped; None if it is not recorded, or not any more as it was."""
        path = self.folder / _chunk_name(lane, number)
        try:
            return _load(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            self.events[RECORDED_CHUNKS_DAMAGED] += 1
            logger.warning(
                "The recorded chunk %s is damaged (%s): it is removed and simulated again.",
                path,
                error,
            )
            with contextlib.suppress(OSError):
                path.unlink()
            return None

    def write(self, lane: int, number: int, chunk: Chunk) -> None:
        """Records a chunk, unless the cache is full or can't be written to."""
        if self._records:
            self._write(_chunk_name(lane, number), _dump(chunk))

    def write_if_longer(self, lane: int, number: int, chunk: Chunk) -> None:
        """Records a chunk that is not complete, unless as much of it is recorded already."""
        recorded = self.read(lane, number)
        if recorded is None or len(recorded) < len(chunk):
            self.write(lane, number, chunk)

    def _write(self, name: str, data: bytes) -> None:
        path = self.folder / name
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            if self._writes % _WRITES_BETWEEN_SIZE_CHECKS == 0:
                self._bytes = _tidy_and_measure(self.cache)
            self._writes, self._bytes = self._writes + 1, self._bytes + len(data)
            if self._bytes > self.max_bytes:
                self._stop_recording(
                    f"it holds the {self.max_bytes / 1e9:g} GB of `experience_cache_max_gb`. "
                    "Remove streams that you don't need any more, or raise the limit"
                )
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(data)
            os.replace(temporary, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            self._stop_recording(f"it can't be written to ({error})")

    def _stop_recording(self, why: str) -> None:
        self._records = False
        logger.warning(
            "Nothing more is recorded into experience_cache=%s: %s. The run goes on, simulating "
            "what is not recorded.",
            self.cache,
            why,
        )


def _chunk_name(lane: int, number: int) -> str:
    return f"lane-{lane}/{number:05d}.chunk"


def _dump(chunk: Chunk) -> bytes:
    """One numpy array of one structured element, then a checksum of it."""
    columns = chunk.columns
    assert columns is not None  # an empty chunk is not written
    final_rows = sorted(columns.final)
    fields = {
        "episode": np.int64(chunk.episode),
        "step": np.int64(chunk.step),
        "episode_return": np.float64(chunk.episode_return),
        "observations": columns.observations,
        "actions": columns.actions,
        "rewards": np.asarray(columns.rewards, np.float64),  # exact: returns are summed from them
        "discounts": np.asarray(columns.discounts, np.float32),
        "behavior_logp": np.asarray(columns.behavior_logp, np.float32),
        "terminated": columns.terminated,
        "truncated": columns.truncated,
        "chain_start": columns.chain_start,
        "final_rows": np.array(final_rows, np.int64),
        "final_observations": np.array(
            [columns.final[row] for row in final_rows], columns.observations.dtype
        ).reshape(len(final_rows), *columns.observations.shape[1:]),
        "finished": np.array(columns.finished, np.float64).reshape(-1, 3),
    }
    dtype = np.dtype([(name, value.dtype, value.shape) for name, value in fields.items()])
    element = np.empty(1, dtype)
    for name, value in fields.items():
        element[name][0] = value
    buffer = io.BytesIO()
    np.save(buffer, element, allow_pickle=False)
    data = buffer.getvalue()
    return data + hashlib.sha256(data).digest()


def _load(path: Path) -> Chunk:
    data = np.memmap(path, np.uint8, mode="r")
    checksum = data[-_CHECKSUM_BYTES:].tobytes()
    if hashlib.sha256(data[:-_CHECKSUM_BYTES].data).digest() != checksum:
        raise DamagedChunkError("its checksum is wrong")
    element = np.load(path, mmap_mode="r", allow_pickle=False)
    fields = {name: np.asarray(element[name])[0] for name in element.dtype.names}
    episode, step, episode_return = (
        fields.pop(name).item() for name in ("episode", "step", "episode_return")
    )
    final_rows, final = fields.pop("final_rows"), fields.pop("final_observations")
    finished = fields.pop("finished")
    columns = LaneColumns(
        **fields,
        final=dict(zip(final_rows.tolist(), final, strict=True)),
        finished=[(int(row), total, int(length)) for row, total, length in finished.tolist()],
    )
    return Chunk(episode, step, episode_return, columns)


def _tidy_and_measure(cache: Path) -> int:
    """Returns the bytes in the cache; removes what crashed writers left behind."""
    total = 0
    abandoned = time.time() - _SECONDS_UNTIL_ABANDONED
    for folder, _, names in os.walk(cache):
        for name in names:
            path = os.path.join(folder, name)
            try:
                status = os.stat(path)
                if name.endswith(".tmp") and status.st_mtime < abandoned:
                    os.unlink(path)
                else:
                    total += status.st_size
            except FileNotFoundError:  # renamed or removed by another trial
                continue
    return total
