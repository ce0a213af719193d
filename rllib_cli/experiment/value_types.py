"""Checks values against the type annotations of RLlib's config methods (imports nothing of Ray).

RLlib's ``update_from_dict`` accepts any value for any key; the annotations of ``training()``,
``env_runners()`` ... say what was meant. Only annotations made of plain types are judged.
"""

import inspect
import types
import typing
from typing import Any

_PLAIN = (int, float, bool, str, list, dict, tuple, type(None))


def annotations_of(config: Any) -> dict[str, Any]:
    """Key -> annotation, over all methods of an ``AlgorithmConfig`` that take settings."""
    found: dict[str, Any] = {}
    for klass in reversed(type(config).__mro__):
        for method in vars(klass).values():
            if not inspect.isfunction(method) or method.__name__.startswith("_"):
                continue
            parameters = inspect.signature(method).parameters.values()
            if not any(p.kind is p.KEYWORD_ONLY for p in parameters):
                continue
            try:
                hints = typing.get_type_hints(method)
            except (NameError, TypeError, AttributeError):
                hints = method.__annotations__
            hints = {key: hint for key, hint in hints.items() if key != "return"}
            # A key without an annotation is known all the same.
            found.update({p.name: hints.get(p.name, Any) for p in parameters if p.name != "self"})
    return found


def matches(value: Any, annotation: Any) -> bool:
    """False only if a plain annotation excludes the value for certain."""
    if annotation is Any or isinstance(annotation, str | typing.TypeVar | typing.ForwardRef):
        return True
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(matches(value, member) for member in typing.get_args(annotation))
    if origin is typing.Literal:
        return value in typing.get_args(annotation)
    if origin in (list, tuple, dict):
        # Lists stand for tuples in YAML, and for schedules such as [[0, 1e-3], [1e6, 1e-4]].
        return isinstance(value, list | tuple) if origin is not dict else isinstance(value, dict)
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation in _PLAIN:
        return isinstance(value, annotation)
    return True


def describe(annotation: Any) -> str:
    """An annotation in the user's words."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(describe(arg) for arg in typing.get_args(annotation)))
    if origin is typing.Literal:
        return " or ".join(repr(arg) for arg in typing.get_args(annotation))
    words = {int: "an integer", float: "a number", bool: "true or false", str: "text"}
    words |= {list: "a list", tuple: "a list", dict: "a mapping", type(None): "null"}
    return words.get(origin or annotation, getattr(annotation, "__name__", str(annotation)))
