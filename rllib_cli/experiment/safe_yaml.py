"""YAML that never runs code, with the numbers people mean.

On top of ``yaml.SafeLoader``: every tag is refused, a key written twice is an error instead of a
silent choice (one that ``<<`` merges may be written again, as YAML says), and ``1e-3`` or ``1e6``
are numbers (YAML 1.1, which PyYAML implements, reads them as text because they lack a dot).
"""

import re
from collections.abc import Sequence
from typing import Any

import yaml

from rllib_cli.errors import UserError

# Deeper or larger documents are no experiment, but an accident or an attack (nested aliases).
_MAX_DEPTH = 40
_MAX_NODES = 100_000

_ANY_KEYS = "env_config"
_MERGE = "tag:yaml.org,2002:merge"

_EXPONENT = re.compile(r"^[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+$")


class _Loader(yaml.SafeLoader):
    """SafeLoader without tags and without duplicate keys."""

    def check_tag(self, node: yaml.Node) -> None:
        if node.tag not in self.yaml_constructors:
            line = node.start_mark.line + 1
            raise UserError(
                f"line {line}: the YAML tag {node.tag!r} is refused, because a tag could run code. "
                "Write code as 'package.module:name' instead, for the keys that take code."
            )

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        self.check_tag(node)
        return super().construct_object(node, deep=deep)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # Here, because a merge moves the keys of another mapping into this one later.
        node = super().compose_mapping_node(anchor)
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            merges = key_node.tag == _MERGE
            key = key_node.value if merges else self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if key in seen:
                raise UserError(
                    f"line {line}: the key {key!r} was already given on line {seen[key]}. "
                    "Keep one of the two."
                )
            seen[key] = line
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        self.flatten_mapping(node)
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if type(key) not in (str, int):
                raise UserError(f"line {key_node.start_mark.line + 1}: {_not_text(key)}")
        return super().construct_mapping(node, deep=deep)


def _not_text(key: Any) -> str:
    return (
        f"the key {key!r} is a {type(key).__name__}; keys must be text (inside env_config also "
        "integers). Put it in quotes if text is meant."
    )


def _construct_number(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    """``1e6`` is the integer 1000000 (a step count), ``1e-3`` and ``1.5e3`` are floats."""
    text = loader.construct_scalar(node).replace("_", "")
    value = float(text)
    mantissa, exponent = re.split("[eE]", text)
    if "." in mantissa or int(exponent) < 0 or int(exponent) > 18:
        return value
    return int(mantissa) * 10 ** int(exponent)


_Loader.add_implicit_resolver("!exponent", _EXPONENT, list("-+0123456789"))
_Loader.add_constructor("!exponent", _construct_number)
# A date is never meant in an experiment: leave it text, so that the message about it shows it.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def loads(text: str, source: str, inside: Sequence[str] = ()) -> Any:
    """Parses YAML (or JSON, its subset).

    Args:
        text: The document.
        source: What to call it in an error message: a file name or an option.
        inside: The keys below which it will stand.

    Raises:
        UserError: If it is not YAML, has a tag, a doubled key, or is nested beyond reason.
    """
    try:
        value = yaml.load(text, Loader=_Loader)
        _check(value, _ANY_KEYS in inside)
    except UserError as error:
        raise UserError(f"{source}: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise UserError(f"{source} is not valid YAML: {where}{problem}.") from None
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        # What PyYAML's constructors let through, for instance for an impossible base-60 number.
        raise UserError(
            f"{source} is not valid YAML: {type(error).__name__}: {' '.join(str(error).split())}."
        ) from None
    return value


def _check(value: Any, any_keys: bool) -> None:
    """Refuses recursive and exponentially nested documents before anything walks them.

    Environments may be given mappings from integers; all other keys are names.
    """
    stack = [(value, 0, any_keys)]
    visited = 0
    while stack:
        node, depth, any_keys = stack.pop()
        visited += 1
        if depth > _MAX_DEPTH or visited > _MAX_NODES:
            raise UserError(
                f"nested more than {_MAX_DEPTH} levels or {_MAX_NODES} values; "
                "an experiment needs far less."
            )
        if isinstance(node, dict):
            for key, child in node.items():
                if not any_keys and not isinstance(key, str):
                    raise UserError(_not_text(key))
                stack.append((child, depth + 1, any_keys or key == _ANY_KEYS))
        elif isinstance(node, list | tuple | set):
            stack.extend((child, depth + 1, any_keys) for child in node)
