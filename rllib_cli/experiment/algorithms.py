"""Finds algorithms, their configs and environments by name (imports RLlib)."""

from functools import partial
from typing import TYPE_CHECKING, Any

from rllib_cli import plugins
from rllib_cli.errors import UserError, exception_summary
from rllib_cli.experiment.code_references import import_reference, look_in_working_folder
from rllib_geoffpac.compat import registered_env_creator
from rllib_geoffpac.validation import did_you_mean

if TYPE_CHECKING:
    from ray.rllib.algorithms import Algorithm


def algorithm_class(run: str) -> "type[Algorithm]":
    """Returns the Algorithm class that ``run`` names, and registers it with Tune if need be."""
    from ray.tune.registry import get_trainable_cls

    plugins.packages()
    if run == "TQC":
        from ray.rllib.algorithms.tqc import TQC
        from ray.tune import register_trainable

        register_trainable("TQC", TQC)
    try:
        return get_trainable_cls(run)
    except Exception as error:
        raise UserError(
            f"The algorithm {run!r} is not part of this installation: {exception_summary(error)}"
        ) from None


def check_env(env: str) -> None:
    """Raises UserError if nobody knows an environment of this name."""
    import gymnasium

    plugins.packages()
    if registered_env_creator(env) is not None or _reference(env) is not None:
        return
    module, _, name = env.rpartition(":")
    if module:
        import_reference(f"{module}:", "env")
    try:
        gymnasium.spec(name)
    except gymnasium.error.DeprecatedEnv as error:
        raise UserError(f"env: {exception_summary(error)}") from None
    except gymnasium.error.Error as error:
        hint = did_you_mean(name, gymnasium.registry)
        raise UserError(
            f"Unknown environment {env!r}.{hint or ' ' + exception_summary(error)} "
            "It must be a gymnasium id such as HalfCheetah-v5, or package.module:name for an "
            "environment of your own."
        ) from None


def register_env(env: str) -> None:
    """Makes ``env`` known to Ray's workers, which do not run this process's imports.

    gymnasium's own ids need nothing; ids of other packages and ``package.module:name`` are
    registered with Tune under the very text the user wrote.
    """
    import gymnasium
    from ray.tune import register_env as tune_register_env

    from rllib_geoffpac.envs.make_env import create_env_by_name

    if registered_env_creator(env) is not None:
        return
    if _reference(env) is None and ":" not in env:
        entry_point = gymnasium.spec(env).entry_point
        if isinstance(entry_point, str) and entry_point.startswith("gymnasium."):
            return
    tune_register_env(env, partial(create_env_by_name, env))


def _reference(env: str) -> Any | None:
    """The class or function that ``package.module:name`` names; None for a gymnasium id."""
    from rllib_geoffpac.envs.make_env import env_reference

    look_in_working_folder()
    try:
        return env_reference(env)
    except ValueError as error:
        raise UserError(str(error)) from None
