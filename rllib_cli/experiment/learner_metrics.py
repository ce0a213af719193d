"""What RLlib's learners may report, read from their source (imports RLlib).

RLlib keeps no list of these metrics. But a learner can only report under a name that its code, or
that of what it is built from, holds as text: a stop key that stands nowhere in it is refused.
"""

import ast
import functools
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rllib_cli.errors import UserError
from rllib_geoffpac.validation import did_you_mean

if TYPE_CHECKING:
    from ray.rllib.algorithms import Algorithm

_PLACE = re.compile(r"^learners/[^/]+/(?P<name>[^/]+)")
_NAME = re.compile(r"^\w{5,}$")


def check(key: str, where: str, algorithm: "type[Algorithm]") -> None:
    """Raises UserError if ``key`` is a learner's metric that no learner can report.

    Args:
        key: A flat result key.
        where: What to call its place in the message, for instance ``stop``.
        algorithm: Whose learners it is about, with RLlib's own classes.
    """
    found = _PLACE.match(key)
    if found is None:
        return
    known, patterns = _names(*_files(algorithm))
    name = found["name"].removesuffix("_throughput")  # RLlib's logger adds it
    behind_prefix = {name[i + 1 :] for i in range(len(name)) if name[i] == "_" in name[i + 1 :]}
    if not known & {name, *behind_prefix} and not any(re.fullmatch(p, name) for p in patterns):
        raise UserError(
            f"{where}: the learner of {algorithm.__name__} reports no {name!r}, so {key!r} would "
            f"never come.{did_you_mean(name, known)}"
        )


def _files(algorithm: "type[Algorithm]") -> list[Path]:
    """The source behind an algorithm's learners."""
    from ray.rllib.algorithms import Algorithm
    from ray.rllib.core.learner import learner
    from ray.rllib.utils import metrics

    classes = [klass for klass in algorithm.__mro__ if issubclass(klass, Algorithm)]
    folders = {Path(inspect.getfile(klass)).parent for klass in classes if klass is not Algorithm}
    folders.add(Path(inspect.getfile(learner)).parent)
    return [*sorted(f for folder in folders for f in folder.rglob("*.py")), Path(metrics.__file__)]


@functools.cache
def _names(*files: Path) -> tuple[frozenset[str], frozenset[str]]:
    """All names in some source files, and the patterns of composed ones."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {_text(node).strip("_") for node in nodes}
    constants = {
        target.id: _text(node.value)
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and _text(node.value)
    }
    composed = {_pattern(node, constants) for node in nodes if isinstance(node, ast.JoinedStr)}
    # One without a word of its own would match everything, and a sentence is no name.
    patterns = {p for p in composed if re.search("[a-z]{3}", p) and " " not in p}
    return frozenset(names), frozenset(patterns)


def _text(node: ast.AST) -> str:
    """The name that a literal is; empty for everything else."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) and _NAME.match(value) else ""


def _pattern(node: ast.JoinedStr, constants: dict[str, str]) -> str:
    """What an f-string may become; a part that is a known constant is that text."""
    parts = []
    for part in node.values:
        name = part.value if isinstance(part, ast.FormattedValue) else part
        if isinstance(part, ast.Constant):
            parts.append(re.escape(str(part.value)))
        elif isinstance(name, ast.Name) and name.id in constants:
            parts.append(re.escape(constants[name.id]))
        else:
            parts.append(r"\w+")
    return "".join(parts)
