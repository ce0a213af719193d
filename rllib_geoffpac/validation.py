"""Small checks of what users write, shared by all algorithms and the command; without Ray."""

from __future__ import annotations

import difflib
import math
import os
import pkgutil
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
    number = float(value)
    return (number > low if above else number >= low) and (
        number < high if below else number <= high
    )


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


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'x' or 'y'?` for the known words that are nearest, or nothing."""
    by_lower = {name.lower(): name for name in known}
    matches = difflib.get_close_matches(str(word).lower(), by_lower, n=3, cutoff=0.6)
    if not matches:
        return ""
    return " Did you mean " + " or ".join(repr(by_lower[match]) for match in matches) + "?"


def unknown_key_message(key: str, known: Iterable[str], owner: str) -> str:
    """One sentence for a misspelt key, with the nearest right ones."""
    hint = did_you_mean(key, known) or " See its documentation for the known keys."
    return f"{owner} has no key `{key}`.{hint}"


def import_by_name(path: str, key: str) -> Any:
    """Imports what `package.module:name` names; `key`, where it was written, is for the error.

    Raises:
        ValueError: If it can't be imported, with the reason.
    """
    if ":" not in path:
        raise ValueError(
            f"`{key}` is {path!r}: write it as 'package.module:name', or give the object itself."
        )
    try:
        return pkgutil.resolve_name(path)
    except Exception as error:  # the module runs here, and may raise anything
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, AttributeError) and error.name is not None:
            public = [name for name in dir(error.obj) if not name.startswith("_")]
            reason += "." + did_you_mean(error.name, public)
        raise ValueError(
            f"`{key}` is {path!r}, which can't be imported ({reason}): it must be installed, or "
            "lie in the working folder or on PYTHONPATH, on every machine."
        ) from None
