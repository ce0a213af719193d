"""Values that are code in Python are written ``package.module:name`` in YAML.

Only where RLlib's annotations ask for code is such text looked up, and only by importing a module
by its name: a YAML file chooses among the code that is installed, it cannot bring its own.
"""

import os
import re
import sys
from typing import Any

from rllib_cli import plugins
from rllib_cli.errors import UserError
from rllib_cli.experiment import search_space, value_types
from rllib_geoffpac.validation import import_by_name

_REFERENCE = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")


def is_kept_as_text(key: str) -> bool:
    """True for a key whose code the algorithm imports itself, so that params.json can keep it."""
    return key in plugins.code_keys()


def is_reference(value: Any) -> bool:
    """True for text of the form ``package.module:name``."""
    return isinstance(value, str) and bool(_REFERENCE.match(value))


def import_reference(reference: str, key: str, where: str = "config") -> Any:
    """Imports the object that ``package.module:name`` names.

    Raises:
        UserError: If the module cannot be imported or lacks the name.
    """
    look_in_working_folder()
    try:
        return import_by_name(reference, key)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def look_in_working_folder() -> None:
    """Lets modules that lie in the working folder be imported."""
    if (cwd := os.getcwd()) not in sys.path:
        sys.path.insert(0, cwd)


def resolve(value: Any, annotation: Any, key: str, where: str = "config") -> Any:
    """Returns a value with the references imported that stand where code is meant.

    Raises:
        UserError: If one cannot be imported, also if it is only kept as text.
    """
    if search_space.is_search_space(value):
        return search_space.map_choices(value, lambda v: resolve(v, annotation, key, where))
    if is_kept_as_text(key):
        if is_reference(value):
            import_reference(value, key, where)
        return value
    if is_reference(value) and value_types.is_code(annotation):
        return import_reference(value, key, where)
    if isinstance(value, list):
        inner = value_types.child(annotation, list)
        return [resolve(element, inner, key, where) for element in value]
    if isinstance(value, dict):
        inner = value_types.child(annotation, dict)
        return {name: resolve(element, inner, key, where) for name, element in value.items()}
    return value


def find_references(value: Any, annotation: Any, key: str) -> list[str]:
    """The references in a value that stand where code is meant."""
    if search_space.is_search_space(value):
        choices = search_space.choices(value)
        return [r for choice in choices for r in find_references(choice, annotation, key)]
    if isinstance(value, list | dict):
        inner = value_types.child(annotation, type(value))
        children = value.values() if isinstance(value, dict) else value
        return [r for element in children for r in find_references(element, inner, key)]
    meant = is_kept_as_text(key) or value_types.is_code(annotation)
    return [value] if meant and is_reference(value) else []
