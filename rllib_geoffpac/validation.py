"""Small checks of config values, shared by all algorithms."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


def is_number(
    value: Any,
    low: float,
    high: float = math.inf,
    *,
    above: bool = False,
    below: bool = False,
    infinite: bool = False,
) -> bool:
    """Whether value is a real number in [low, high]; `above`/`below` exclude the bounds."""
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value):
        return False
    if math.isinf(value) and not infinite:
        return False
    return (value > low if above else value >= low) and (value < high if below else value <= high)


def is_count(value: Any, low: int) -> tuple[bool, str]:
    """Whether value is a whole number >= low, and what to call it."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return whole and value >= low, f"a whole number >= {low}"


def is_choice(value: Any, *allowed: Any) -> tuple[bool, str]:
    """Whether value is one of the allowed ones, and what to call them."""
    hashable = value is None or isinstance(value, str)
    return hashable and value in allowed, " or ".join(repr(choice) for choice in allowed)


def is_folder(value: Any) -> bool:
    """Whether value is None or a path at which there is a folder, or nothing yet."""
    if value is None:
        return True
    if not isinstance(value, str | os.PathLike) or not str(value).strip():
        return False
    path = os.path.expanduser(value)
    return os.path.isdir(path) or not os.path.exists(path)


def unknown_key_message(key: str, known: Iterable[str], owner: str) -> str:
    """One sentence for a misspelt key, with the nearest right one."""
    near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.6)
    hint = f"did you mean `{near[0]}`?" if near else "see its documentation for the known keys."
    return f"{owner} has no key `{key}`: {hint}"
