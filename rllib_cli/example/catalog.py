"""The tuned examples: shipped inside the wheel, or in the repository's ``tuned_examples``."""

import itertools
import re
import textwrap
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from rllib_cli.errors import UserError
from rllib_geoffpac.validation import did_you_mean

QUICK_START = "quickstart"
"""The example for a reader's first minutes: its run is shown at the end."""


_SENTENCE = re.compile(r"(?<=[.?])\s")
_LINE = 160
"""Characters of a summary."""


@dataclass(frozen=True)
class Example:
    """One tuned example.

    Attributes:
        id: ``folder/name``, for instance ``geoffpac/two_circle``; the quick start's has no folder.
        text: The YAML with its header comment.
    """

    id: str
    text: str

    @property
    def group(self) -> str:
        """Its folder; empty for the quick start."""
        return self.id.rpartition("/")[0]

    @property
    def summary(self) -> str:
        """The first sentence of the header comment, or what of it fits into a line."""
        header = itertools.takewhile(lambda line: line.startswith("# "), self.text.splitlines())
        text = " ".join(line.removeprefix("#").strip() for line in header)
        return textwrap.shorten(_SENTENCE.split(text, maxsplit=1)[0], _LINE, placeholder=" ...")


def _root() -> Any:
    """A folder inside the package in a wheel, beside it in a checkout."""
    installed = resources.files("rllib_cli") / "tuned_examples"
    if installed.is_dir():
        return installed
    return Path(__file__).resolve().parents[2] / "tuned_examples"


def list_examples() -> list[Example]:
    """All tuned examples, sorted by id."""
    root = _root()
    if not root.is_dir():
        raise UserError("The tuned examples are missing from this installation; reinstall it.")
    folders = {"": root} | {f"{f.name}/": f for f in root.iterdir() if f.is_dir()}
    return sorted(
        (
            Example(f"{place}{file.name.removesuffix('.yaml')}", file.read_text("utf-8"))
            for place, folder in folders.items()
            for file in folder.iterdir()
            if file.name.endswith(".yaml")
        ),
        key=lambda example: (example.id != QUICK_START, example.id),
    )


def find_examples(words: list[str]) -> list[Example]:
    """The tuned examples whose id or summary has all the words, in any case of letters.

    Raises:
        UserError: If none has.
    """
    found = [
        example
        for example in list_examples()
        if all(word.lower() in f"{example.id} {example.summary}".lower() for word in words)
    ]
    if not found:
        raise UserError(
            f"No tuned example has {' and '.join(map(repr, words))} in its line. "
            "'rllib example list' shows them all."
        )
    return found


def get_example(example_id: str) -> Example:
    """Returns one tuned example.

    Raises:
        UserError: If there is no example of this id.
    """
    known = {example.id: example for example in list_examples()}
    example_id = example_id.removesuffix(".yaml")
    if example_id not in known:
        raise UserError(
            f"There is no tuned example {example_id!r}.{did_you_mean(example_id, known)} "
            "'rllib example list' shows them all."
        )
    return known[example_id]
