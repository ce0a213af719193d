"""Values of plain columns as arrays of numbers; what can't become one is told with its row."""

from __future__ import annotations

from typing import Any

import numpy as np


class BadValueError(ValueError):
    """A value that is no number, or of another shape than those before it.

    Args:
        row: Of the rows that were given.
        what: What is wrong, after "the value ".
    """

    def __init__(self, row: int, what: str):
        super().__init__(what)
        self.row = row


def numbers(values: np.ndarray) -> np.ndarray:
    """[N, ...] of rows that are numbers, arrays, or lists in lists (images, for instance)."""
    if values.dtype != object:
        if values.dtype.kind not in "fiub":
            raise BadValueError(0, f"is {values[0]!r}, which is no number.")
        return values
    made: list[np.ndarray] = []
    for row, value in enumerate(values):
        array = _array(value)
        if array is None:
            raise BadValueError(row, f"is {_short(value)}, which is no array of numbers.")
        if made and array.shape != made[0].shape:
            raise BadValueError(row, f"has shape {array.shape} after {made[0].shape}.")
        made.append(array)
    return np.stack(made)


def per_step(values: np.ndarray) -> np.ndarray:
    """[N] numbers, one in each row; also where they stand in lists of one."""
    made = numbers(values)
    if made.size != len(made):
        raise BadValueError(0, f"has shape {made.shape[1:]}; allowed is one number.")
    return made.reshape(len(made))


def flags(values: np.ndarray) -> np.ndarray:
    """[N] bool, of true and false or of 1 and 0."""
    if values.dtype == object:  # a column with a gap: its other values are plain
        for row, value in enumerate(values):
            if value is None:
                raise BadValueError(row, "is missing; allowed is true or false.")
    made = per_step(values)
    bad = (made != 0) & (made != 1)
    if bad.any():
        row = int(bad.argmax())
        raise BadValueError(row, f"is {made[row]}; allowed is true or false, 1 or 0.")
    return made.astype(bool)


def _array(value: Any) -> np.ndarray | None:
    made = np.asarray(value) if not isinstance(value, list | tuple) else _of_parts(value)
    if made is None or made.dtype.kind in "fiub":
        return made
    return _of_parts(made) if made.dtype == object and made.ndim else None


def _of_parts(parts: Any) -> np.ndarray | None:
    made = [_array(part) for part in parts]
    shapes = {None if part is None else part.shape for part in made}
    return np.stack(made) if len(shapes) == 1 and None not in shapes else None  # type: ignore[arg-type]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
