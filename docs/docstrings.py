"""Makes Markdown of this project's docstrings, for the API reference."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Readable(griffe.Extension):
    """`E[Z1 | s] [S]` is a shape, no link to an object S; `Example:` begins a doctest."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrites the docstring of every object that is loaded."""
        if obj.docstring is not None:
            text = re.sub(r"\](\s?)\[", r"]\1\\[", obj.docstring.value)
            obj.docstring.value = re.sub(r"^(\s*)Example:$", r"\1Examples:", text, flags=re.M)
