"""What values a setting may have, by the annotations of RLlib's config methods.

RLlib's ``update_from_dict`` accepts any value for any key; the annotations of ``training()``,
``env_runners()`` ... say what was meant. Only what they exclude for certain is refused.
"""

import collections.abc
import inspect
import types
import typing
from typing import Any

from rllib_geoffpac.compat import is_deprecated

_PLAIN = (int, float, bool, str, list, dict, tuple, type(None))
_SEQUENCES = (list, tuple, set, collections.abc.Collection, collections.abc.Sequence)
# Ray takes parts of a CPU or GPU wherever RLlib asks for them, also where it writes ``int``.
_RESOURCES = ("num_cpus_", "num_gpus_")


def annotations_of(config: Any) -> dict[str, Any]:
    """Key -> annotation, over all methods of an ``AlgorithmConfig`` that take settings.

    An argument that a method has only to say that it is deprecated is none of them.
    """
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
            for parameter in parameters:
                if parameter.name != "self" and not is_deprecated(parameter.default):
                    # A key without an annotation is known all the same.
                    found[parameter.name] = hints.get(parameter.name, Any)
    for key in [key for key in found if key.startswith(_RESOURCES)]:
        found[key] = found[key] | float
    return found


def members(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of an annotation."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return tuple(m for arg in typing.get_args(annotation) for m in members(arg))
    return (annotation,)


def is_code(annotation: Any) -> bool:
    """Whether code may be given: a function, a class or an object of one."""
    for member in members(annotation):
        origin = typing.get_origin(member)
        if origin in (collections.abc.Callable, type) or isinstance(member, typing.ForwardRef):
            return True
        if origin is None and inspect.isclass(member) and member not in _PLAIN:
            return True
    return False


def takes_schedule(annotation: Any) -> bool:
    """Whether ``[[0, 1e-3], [1e6, 1e-4]]`` may be given instead of a number."""
    kinds = members(annotation)
    lists = [typing.get_args(member) for member in kinds if typing.get_origin(member) is list]
    return float in kinds and any(
        typing.get_origin(inner) in (list, tuple) for arguments in lists for inner in arguments
    )


def child(annotation: Any, container: type) -> Any:
    """The annotation of what a list, or a dict, of this annotation holds; Any if it says none."""
    origins = _SEQUENCES if container is list else (dict, collections.abc.Mapping)
    for member in members(annotation):
        arguments = typing.get_args(member)
        if typing.get_origin(member) in origins and arguments:
            return arguments[0 if container is list else -1]
    return Any


def as_meant(value: Any, annotation: Any) -> Any:
    """A list is a tuple where only a tuple is meant: YAML has none."""
    origins = {typing.get_origin(member) for member in members(annotation)}
    if isinstance(value, list) and tuple in origins and not origins & {*_SEQUENCES} - {tuple}:
        return tuple(value)
    return value


def matches(value: Any, annotation: Any) -> bool:
    """False only if the annotation excludes the value for certain."""
    return any(_matches(value, member) for member in members(annotation))


def _matches(value: Any, annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    if annotation is Any or isinstance(annotation, str | typing.TypeVar):
        return True
    if origin is typing.Literal:
        return value in typing.get_args(annotation)
    if origin in _SEQUENCES:
        # Lists stand for tuples in YAML, and for schedules such as [[0, 1e-3], [1e6, 1e-4]].
        return isinstance(value, list | tuple | set)
    if origin in (dict, collections.abc.Mapping):
        return isinstance(value, dict)
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation in _PLAIN:
        return isinstance(value, annotation)
    # Code: whatever is no plain value may be it.
    return not is_code(annotation) or not isinstance(value, bool | int | float | str | list)


def describe(annotation: Any) -> str:
    """An annotation in the user's words."""
    said = [_describe(member) for member in members(annotation) if member is not type(None)]
    return " or ".join(dict.fromkeys(said))


def _describe(annotation: Any) -> str:
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return " or ".join(repr(arg) for arg in typing.get_args(annotation))
    words = {int: "an integer", float: "a number", bool: "true or false", str: "text"}
    words |= {list: "a list", tuple: "a list", dict: "a mapping"}
    if (origin or annotation) in words:
        return words[origin or annotation]
    if is_code(annotation):
        return "code, written package.module:name"
    return getattr(annotation, "__name__", str(annotation))
