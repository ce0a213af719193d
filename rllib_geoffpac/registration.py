"""Makes the algorithms known to Ray Tune and the environments to gymnasium, importing neither.

Importing `rllib_geoffpac` must stay cheap (RLlib takes 4 s, torch 2 s), and yet whoever imports it
and Ray, in either order, finds `tune.Tuner("GeoffPAC", ...)`. So what is registered are references
by name, resolved when somebody asks for the class, and the registration waits until the registry's
own module has been imported. (gymnasium has had no entry points for plugins since 1.0.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from rllib_geoffpac import compat

ALGORITHM_NAMES = ("GeoffPAC", "ACE", "OffPAC", "DDPG", "TD3")
"""Tune's names of the algorithms: the classes of these names in `rllib_geoffpac.algorithms`."""

ENVS = {"TwoCircle-v0": "rllib_geoffpac.envs.finite_mdp_env:make_two_circle"}
"""gymnasium's ids of the environments, and what makes them."""

_TUNE_REGISTRY = "ray.tune.registry"
_GYMNASIUM_REGISTRY = "gymnasium.envs.registration"


def register() -> None:
    """Registers the algorithms with Ray Tune and `TwoCircle-v0` with gymnasium, now.

    Importing `rllib_geoffpac` has done it already. Call it after `ray.shutdown()` and a second
    `ray.init()` in the same process: Tune's registry does not outlive its Ray instance.
    """
    _register_algorithms()
    _register_envs()


def register_on_import() -> None:
    """Registers with Ray Tune and with gymnasium, or leaves word with the import system to do so.

    Ray's workers import the package as well and register the same once more, which changes nothing.
    """
    _after_import(_TUNE_REGISTRY, _register_algorithms)
    _after_import(_GYMNASIUM_REGISTRY, _register_envs)


def _register_algorithms() -> None:
    for name in ALGORITHM_NAMES:
        compat.register_trainable_by_reference(name, f"rllib_geoffpac.algorithms:{name}")


def _register_envs() -> None:
    from gymnasium.envs.registration import register as register_env
    from gymnasium.envs.registration import registry

    for name, entry_point in ENVS.items():
        if name not in registry:
            register_env(name, entry_point=entry_point)


def _after_import(module: str, action: Callable[[], None]) -> None:
    """Runs `action` at once if `module` has been imported, otherwise as soon as it has been."""
    if module in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Watcher(module, action))


class _Watcher(MetaPathFinder):
    """Finds one module as the other finders do, and runs an action after it; then it is gone."""

    def __init__(self, module: str, action: Callable[[], None]):
        self.module, self.action = module, action

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.module:
            return None
        others = [finder for finder in sys.meta_path if not isinstance(finder, _Watcher)]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((found for found in specs if found is not None), None)
        # `find_spec` alone (a question, no import) may leave the watcher in place: it asks again.
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_act(module: ModuleType) -> None:
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    self.action()

            # On this one loader object: its class, and what `inspect` reads from it, stay.
            vars(spec.loader)["exec_module"] = execute_and_act
        return spec
