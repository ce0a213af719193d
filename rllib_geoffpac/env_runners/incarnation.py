"""Which incarnation of an env runner answers: Ray rebuilds a lost actor without a word."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

# An env runner has a process of its own, and so has each of its incarnations.
_INCARNATION = uuid.uuid4().hex


class Incarnated:
    """An env runner that says which of its incarnations answers a remote request."""

    sample: Callable[..., Any]

    def answer(self, **request: Any) -> tuple[str, Any]:
        """Returns the incarnation and what `sample` returns for the request."""
        return _INCARNATION, self.sample(**request)
