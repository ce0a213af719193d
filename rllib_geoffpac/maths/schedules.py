"""Numbers that change while learning goes on: piecewise linear in environment steps."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

Schedule = Sequence[tuple[float, float]]
"""Pairs (environment step, value to be reached by then), the first at step 0."""


def is_schedule(value: Any) -> bool:
    """Whether a value is a schedule: two or more pairs of numbers, steps rising from 0.

    Example:
        >>> is_schedule([[0, 1e-3], [1e6, 1e-4]]), is_schedule([[10, 1e-3], [1e6, 1e-4]])
        (True, False)
    """
    if not isinstance(value, list | tuple) or len(value) < 2:
        return False
    pairs = all(isinstance(p, list | tuple) and len(p) == 2 for p in value)
    if not pairs or not all(_is_real(number) for pair in value for number in pair):
        return False
    steps = [step for step, _ in value]
    return steps[0] == 0 and steps == sorted(steps)


def _is_real(number: Any) -> bool:
    return isinstance(number, Real) and not isinstance(number, bool)


def piecewise_linear(schedule: Schedule, steps: np.ndarray) -> np.ndarray:
    """The schedule's values [T] at `steps` [T]; after its last step, its last value.

    Of two pairs with the same step the later one holds from there on: a jump.

    Example:
        >>> piecewise_linear([(0, 1.0), (10, 0.0)], np.array([0, 4, 99])).tolist()
        [1.0, 0.6, 0.0]
    """
    times, values = np.array(schedule, np.float64).T
    piece = np.searchsorted(times, steps, side="right") - 1
    left = np.minimum(piece, len(times) - 2)
    width = np.maximum(times[left + 1] - times[left], 1e-300)  # not used where it is none
    share = (steps - times[left]) / width
    between = values[left] + share * (values[left + 1] - values[left])
    return np.where(piece >= len(times) - 1, values[-1], between)


def largest(value: Any) -> float:
    """The largest number that a setting, a number or a schedule, ever is."""
    return max(number for _, number in value) if is_schedule(value) else value


def smallest(value: Any) -> float:
    """The smallest number that a setting, a number or a schedule, ever is."""
    return min(number for _, number in value) if is_schedule(value) else value
