"""Values that are code in Python are written ``package.module:name`` in YAML.

Only the keys listed here are looked up, and only by importing a module by its name: a YAML file
chooses among the code that is installed, it cannot bring its own.
"""

import os
import re
import sys
from typing import Any

from rllib_cli import plugins
from rllib_cli.errors import UserError
from rllib_geoffpac.validation import import_by_name

_REFERENCE = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")

# RLlib's keys that take code; ``env`` is handled apart, because gymnasium ids contain colons too.
CODE_KEYS = frozenset(
    {
        "callbacks",
        "callbacks_class",
        "custom_evaluation_function",
        "env_runner_cls",
        "env_to_module_connector",
        "module_to_env_connector",
        "learner_connector",
        "learner_class",
        "rl_module_spec",
        "policy_mapping_fn",
        "policies_to_train",
        "offline_data_class",
        "prelearner_class",
        "input_",
    }
)


def is_kept_as_text(key: str) -> bool:
    """True for a key whose code the algorithm imports itself, so that params.json can keep it."""
    return key in plugins.code_keys()


def is_reference(value: Any) -> bool:
    """True for text of the form ``package.module:name``."""
    return isinstance(value, str) and bool(_REFERENCE.match(value))


def takes_code(key: str) -> bool:
    """True for a config key whose value may be code."""
    return key in CODE_KEYS or is_kept_as_text(key) or key.startswith("callbacks_on_")


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


def resolve(config: dict[str, Any], where: str = "config") -> dict[str, Any]:
    """Returns a copy of ``config`` with the references of code keys imported.

    Raises:
        UserError: If one cannot be imported, also if it is only kept as text.
    """
    resolved: dict[str, Any] = {}
    for key, value in config.items():
        if takes_code(key):
            imported = _import_all(value, key, where)
            value = value if is_kept_as_text(key) else imported
        elif isinstance(value, dict) and key == "evaluation_config":
            value = resolve(value, f"{where}.{key}")
        resolved[key] = value
    return resolved


def _import_all(value: Any, key: str, where: str) -> Any:
    if is_reference(value):
        return import_reference(value, key, where)
    if isinstance(value, list):
        return [_import_all(child, key, where) for child in value]
    if isinstance(value, dict):
        return {name: _import_all(child, key, where) for name, child in value.items()}
    return value


def find_references(config: dict[str, Any]) -> list[str]:
    """The references in a config: those of the code keys, and the environment."""
    found: list[str] = []
    for key, value in config.items():
        if takes_code(key) or key == "env":
            found += _references_in(value)
        elif isinstance(value, dict) and key == "evaluation_config":
            found += find_references(value)
    return found


def _references_in(value: Any) -> list[str]:
    if isinstance(value, list | dict):
        children = value.values() if isinstance(value, dict) else value
        return [reference for child in children for reference in _references_in(child)]
    return [value] if is_reference(value) else []
