"""The one place for private names of Ray and torch, with the reason for each.

A private name may change in any release, so nothing else in the two packages touches one on a
foreign object or imports one (`tests/unit/test_private_names.py`). Importing this module imports
neither Ray nor torch: every function does so when it is called.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from typing import Any


class _ByReference:
    """Pickles as the object that a reference `package.module:name` names, without importing it."""

    def __init__(self, reference: str):
        self.reference = reference

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return pkgutil.resolve_name, (self.reference,)


def register_trainable_by_reference(name: str, reference: str) -> None:
    """Registers the class `package.module:name` with Ray Tune; it is imported when asked for.

    Reason: `tune.register_trainable` wants the class itself, and importing an RLlib algorithm takes
    5 s. Tune's registry keeps a pickle of the class, which for a class of a module is no more than
    such a reference; `_ByReference` writes it without the import.
    """
    from ray.tune.registry import TRAINABLE_CLASS, _global_registry

    _global_registry.register(TRAINABLE_CLASS, name, _ByReference(reference))
