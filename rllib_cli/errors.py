"""The exception that means 'the user can fix this': exit status 2, one message, no traceback."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in what the user gave; the message names it, what is allowed and what to do."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns `` Did you mean 'x'?`` for the closest known word, or an empty string."""
    by_lower = {name.lower(): name for name in known}
    matches = difflib.get_close_matches(str(word).lower(), by_lower, n=3, cutoff=0.6)
    if not matches:
        return ""
    return " Did you mean " + " or ".join(repr(by_lower[match]) for match in matches) + "?"


def exception_summary(error: BaseException, limit: int = 400) -> str:
    """Returns an exception as one line of at most ``limit`` characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."
