"""The transitions before a lane's present ones, from which traces can be computed anew."""

from __future__ import annotations

import numpy as np

Columns = dict[str, np.ndarray]


def windows_of(recent: Columns, part: Columns, length: int) -> tuple[Columns, np.ndarray, Columns]:
    """The `length` rows before each of T rows, and what the next part will find before it.

    Args:
        recent: Columns [K, L, ...] of the latest rows before `part`, K <= length; {}: none.
        part: Columns [T, L, ...].
        length: Above 0.

    Returns:
        Columns [T, length + 1, L, ...], the oldest first, the row itself last; whether there was
        such a row [T, length + 1, L]; and `recent` for the next part.
    """
    count, lanes = next(iter(part.values())).shape[:2]
    known = len(next(iter(recent.values()))) if recent else 0

    def with_past(name: str) -> np.ndarray:
        column = part[name]
        missing = np.zeros((length - known, *column.shape[1:]), column.dtype)
        return np.concatenate([missing, *([recent[name]] if recent else []), column])

    joined = {name: with_past(name) for name in part}
    rows = np.arange(count)[:, None] + np.arange(length + 1)
    exists = np.broadcast_to(rows[..., None] >= length - known, (*rows.shape, lanes))
    kept = min(length, known + count)
    latest = {name: column[len(column) - kept :].copy() for name, column in joined.items()}
    return {name: column[rows] for name, column in joined.items()}, exists, latest
