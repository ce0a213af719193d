"""Finds algorithms, their configs and environments by name (imports RLlib)."""

import importlib
from typing import Any

from rllib_cli.errors import UserError, exception_summary, nearest
from rllib_cli.experiment import names
from rllib_cli.experiment.code_references import import_module, is_reference
from rllib_cli.quiet import silence_mujoco

# What users write -> attribute that ``AlgorithmConfig.update_from_dict`` can set.
ATTRIBUTES = {
    "model_config": "_model_config",
    "rl_module_spec": "_rl_module_spec",
    "learner_class": "_learner_class",
    "learner_connector": "_learner_connector",
    "env_to_module_connector": "_env_to_module_connector",
    "module_to_env_connector": "_module_to_env_connector",
    "is_atari": "_is_atari",
}


def algorithm_class(run: str) -> type:
    """Returns the Algorithm class that ``run`` names, and registers it with Tune if need be."""
    from ray.tune.registry import get_trainable_cls

    if run in names.GEOFFPAC_ALGORITHMS:
        importlib.import_module("rllib_geoffpac")
    elif run == "TQC":
        from ray.rllib.algorithms.tqc import TQC
        from ray.tune import register_trainable

        register_trainable("TQC", TQC)
    try:
        return get_trainable_cls(run)
    except Exception as error:
        raise UserError(
            f"The algorithm {run!r} is not part of this installation: {exception_summary(error)}"
        ) from None


def to_attributes(config: dict[str, Any]) -> dict[str, Any]:
    """Renames the keys that RLlib sets through methods only."""
    return {ATTRIBUTES.get(key, key): value for key, value in config.items()}


def build_config(run: str, config: dict[str, Any]) -> Any:
    """Returns the frozen-free ``AlgorithmConfig`` of one resolved trial."""
    return algorithm_class(run).get_default_config().update_from_dict(to_attributes(config))


def make_env(env: Any, env_config: dict[str, Any] | None = None, **make_arguments: Any) -> Any:
    """Creates an environment: a gymnasium id, a Tune-registered name, or ``package.module:name``.

    Args:
        env: The name, or what a Python experiment gives instead: a class or a function.
        env_config: The experiment's ``env_config``.
        make_arguments: Further arguments of ``gymnasium.make``, such as ``render_mode``.
    """
    import gymnasium
    from ray.rllib.env.env_context import EnvContext
    from ray.tune.registry import ENV_CREATOR, _global_registry

    importlib.import_module("rllib_geoffpac")
    env_config = dict(env_config or {})
    target = env if callable(env) else _env_reference(env)
    if target is not None:
        return target(EnvContext({**env_config, **make_arguments}, worker_index=0))
    # gymnasium's ids first: this function is itself what Tune's registry calls for some of them.
    if env not in gymnasium.registry and _global_registry.contains(ENV_CREATOR, env):
        creator = _global_registry.get(ENV_CREATOR, env)
        if not isinstance(creator, _EnvCreator):
            return creator(EnvContext({**env_config, **make_arguments}, worker_index=0))
    if uses_mujoco(env):
        silence_mujoco()
    return gymnasium.make(env, **env_config, **make_arguments)


def _env_reference(env: str) -> Any | None:
    """The class or function that ``package.module:name`` names; None for a gymnasium id."""
    if not is_reference(env):
        return None
    return getattr(import_module(env, "env"), env.partition(":")[2], None)


def check_env(env: str) -> None:
    """Raises UserError if nobody knows an environment of this name."""
    import gymnasium
    from ray.tune.registry import ENV_CREATOR, _global_registry

    importlib.import_module("rllib_geoffpac")
    if _env_reference(env) is not None or _global_registry.contains(ENV_CREATOR, env):
        return
    module, _, name = env.rpartition(":")
    if module:
        import_module(env, "env")
    try:
        gymnasium.spec(name)
    except gymnasium.error.DeprecatedEnv as error:
        raise UserError(f"env: {exception_summary(error)}") from None
    except gymnasium.error.Error as error:
        hint = nearest(name, gymnasium.registry)
        raise UserError(
            f"Unknown environment {env!r}.{hint or ' ' + exception_summary(error)} "
            "It must be a gymnasium id such as HalfCheetah-v5, or package.module:name for an "
            "environment of your own."
        ) from None


def register_env(env: str) -> None:
    """Makes ``env`` known to Ray's workers, which do not run this process's imports.

    gymnasium's own ids need nothing; ids of this package and ``package.module:name`` are
    registered with Tune under the very text the user wrote.
    """
    from ray.tune import register_env as tune_register_env
    from ray.tune.registry import ENV_CREATOR, _global_registry

    if _global_registry.contains(ENV_CREATOR, env):
        return
    import gymnasium

    if _env_reference(env) is not None or ":" in env:
        tune_register_env(env, _EnvCreator(env))
        return
    entry_point = gymnasium.spec(env).entry_point
    if not (isinstance(entry_point, str) and entry_point.startswith("gymnasium.")):
        tune_register_env(env, _EnvCreator(env))


class _EnvCreator:
    """Creates the environment in a worker (a class, so that it pickles by reference)."""

    def __init__(self, env: str):
        self.env = env

    def __call__(self, context: Any) -> Any:
        return make_env(self.env, dict(context))


def uses_mujoco(env: str) -> bool:
    """True for gymnasium's MuJoCo tasks."""
    import gymnasium

    spec = gymnasium.registry.get(env.rpartition(":")[2])
    return spec is not None and "mujoco" in str(spec.entry_point)
