"""What learning and evaluation ask of a module, whoever wrote it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

_DOCUMENTED = "All that is needed is listed in docs/connectors.md, under 'A module of your own'"


@dataclass(frozen=True)
class ModuleProtocol:
    """What an algorithm asks of its module.

    Attributes:
        base: The class of this package that has all of it.
        methods: What is called.
        attributes: What is read of a module that has been set up.
    """

    base: type
    methods: tuple[str, ...] = (
        "function",
        "parameters_of",
        "make_target_networks",
        "get_target_network_pairs",
    )
    attributes: tuple[str, ...] = (
        "distribution",
        "std_parameter",
        "acting_std_parameter",
        "dtype",
    )

    def with_methods(self, *names: str) -> ModuleProtocol:
        """The same with more to call."""
        return replace(self, methods=(*self.methods, *names))

    def complaint_about_class(self, module: Any, setting: str) -> str | None:
        """Why a class can't serve, as far as it shows before one is made; None if it doesn't.

        Args:
            module: What the user gave.
            setting: The name of the setting that gave it.
        """
        if not (inspect.isclass(module) and issubclass(module, TorchRLModule)):
            return (
                f"`{setting}` gives {module!r}; allowed is a subclass of RLlib's TorchRLModule: "
                f"derive yours from {_name(self.base)}. {_DOCUMENTED}."
            )
        missing = [name for name in self.methods if not callable(getattr(module, name, None))]
        return self._complaint(module, missing)

    def check(self, module: Any) -> None:
        """Raises a ValueError if a module that has been set up lacks something."""
        complaint = self._complaint(
            type(module), (name for name in self.attributes if not hasattr(module, name))
        )
        if complaint:
            raise ValueError(complaint)

    def _complaint(self, module: type, missing: Iterable[str]) -> str | None:
        names = ", ".join(f"`{name}`" for name in missing)
        if not names:
            return None
        return (
            f"The module {_name(module)} has no {names}: derive it from {_name(self.base)}, or add "
            f"what is missing. {_DOCUMENTED}."
        )


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
