"""Experiments written in Python: a file with a ``config`` and, optionally, ``stop``."""

import runpy
import traceback
from pathlib import Path
from typing import Any

from rllib_cli.errors import UserError
from rllib_cli.experiment.parse import Experiment, flatten
from rllib_geoffpac.compat import BATCH_SIZE_ATTRIBUTE, FROZEN_ATTRIBUTE, SETTING_ATTRIBUTES

# Attribute of an ``AlgorithmConfig`` -> the key that a user would write.
_KEYS = {attribute: key for key, attribute in SETTING_ATTRIBUTES.items()} | {
    "callbacks_class": "callbacks",
    "framework_str": "framework",
    BATCH_SIZE_ATTRIBUTE: "train_batch_size_per_learner",
}
_NOT_SETTINGS = ("algo_class", FROZEN_ATTRIBUTE)


def load_python(path: Path) -> Experiment:
    """Runs a ``.py`` experiment; unlike YAML it is code that the user trusts.

    Raises:
        UserError: If it fails, or defines no ``config``.
    """
    try:
        namespace = runpy.run_path(str(path), run_name="rllib_experiment")
    except (Exception, SystemExit) as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        line = f"line {frames[-1].lineno}: " if frames else ""
        raise UserError(f"{path}: {line}{type(error).__name__}: {error}") from None
    if "config" not in namespace:
        raise UserError(
            f"{path}: a Python experiment defines 'config', an AlgorithmConfig "
            "(and optionally 'stop', a dict)."
        )
    config, stop = namespace["config"], namespace.get("stop", {})
    algorithm = getattr(config, "algo_class", None)
    if algorithm is None:
        raise UserError(
            f"{path}: 'config' must be an AlgorithmConfig of an algorithm, for instance "
            f"GeoffPACConfig(), got a {type(config).__name__}."
        )
    if not isinstance(stop, dict):
        raise UserError(f"{path}: 'stop' must be a dict, got a {type(stop).__name__}.")
    return Experiment(
        name=path.stem,
        run=algorithm.__name__,
        config=settings_of(config),
        stop=flatten(stop),
        algorithm=algorithm,
    )


def settings_of(config: Any) -> dict[str, Any]:
    """What an ``AlgorithmConfig`` changes in its algorithm's defaults, as a user would write it."""
    default = vars(config.algo_class.get_default_config())
    return {
        _KEYS.get(key, key): value
        for key, value in vars(config).items()
        if key not in _NOT_SETTINGS and not _same(value, default.get(key))
    }


def _same(value: Any, other: Any) -> bool:
    try:
        return value is other or bool(value == other)
    except (ValueError, TypeError):
        return False  # arrays and the like: keep what the user has set
