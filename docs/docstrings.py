"""Docstrings of this project in Markdown: `E[Z1 | s] [S]` is a shape, not a link."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Shapes(griffe.Extension):
    """Keeps a bracket after a bracket from becoming a reference to another object."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Escapes the second bracket, for every object that is loaded."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"\](\s?)\[", r"]\1\\[", obj.docstring.value)
