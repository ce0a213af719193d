"""Reads a trial's checkpoint: its settings, and its policy (imports RLlib inside functions).

What is trusted: RLlib writes checkpoints as Python pickles, and unpickling can run code. With
``weights_only`` nothing is unpickled: the weights are plain arrays in a file of their own, and the
settings come from the trial's ``params.json``. RLlib's own algorithms write no such file; of their
pickled weights nothing but numpy arrays and plain containers is read.
"""

import collections
import json
import pickle
from pathlib import Path
from typing import Any

from rllib_cli import folders, storage
from rllib_cli.errors import UserError, exception_summary
from rllib_cli.experiment import value_types
from rllib_cli.experiment.code_references import (
    is_kept_as_text,
    is_reference,
    look_in_working_folder,
)
from rllib_geoffpac.compat import SETTING_ATTRIBUTES

_MODULE = Path("learner_group", "learner", "rl_module", "default_policy")
_ENV_RUNNER = Path("env_runner")
_KEYS = {attribute: key for key, attribute in SETTING_ATTRIBUTES.items()}
# What decides how the policy acts; where the run was given it by name, it is imported again.
_CODE_OF_ROLLOUTS = (
    "env_to_module_connector",
    "module_to_env_connector",
    "rl_module_spec",
    "observation_space",
    "action_space",
)
_CODE_OF_TRAINING = ("callbacks", "callbacks_class", "policies", "policies_to_train")
# All that a dictionary of numpy arrays needs.
_ARRAYS = {
    ("collections", "OrderedDict"): collections.OrderedDict,
}
_NUMPY_NAMES = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy.core.numeric", "_frombuffer"),
}


def find_checkpoint(path: str | Path) -> str:
    """Returns a checkpoint's folder or URI: the given one, or the newest below the given trial.

    Raises:
        UserError: If there is none.
    """
    place = str(path if storage.is_uri(path) else Path(path).expanduser().absolute())
    if not storage.exists(place):
        raise UserError(f"The checkpoint {place!r} does not exist.")
    if _is_checkpoint(place):
        return place
    found = [below for below in storage.glob(place, "checkpoint_*") if _is_checkpoint(below)]
    if found:
        return found[-1]
    others = [below for below in storage.glob(place, "*/checkpoint_*") if _is_checkpoint(below)]
    hint = f" Did you mean {others[-1]!r}?" if others else ""
    raise UserError(
        f"{place!r} is no RLlib checkpoint: there is no rllib_checkpoint.json in it.{hint}"
    )


def _is_checkpoint(place: str) -> bool:
    return storage.exists(storage.join(place, "rllib_checkpoint.json"))


def load_config(checkpoint: Path, weights_only: bool) -> Any:
    """Returns the ``AlgorithmConfig`` that the checkpoint was trained with.

    Raises:
        UserError: If it cannot be read.
    """
    if weights_only:
        return _config_from_json(checkpoint)
    _check_manifest(checkpoint)
    look_in_working_folder()  # for callbacks and other code that the run was given from there
    from rllib_geoffpac.checkpoints import CONSTRUCTION, read_config

    try:
        return read_config(checkpoint)
    except Exception as error:
        raise UserError(
            f"The checkpoint {str(checkpoint)!r} cannot be read: {CONSTRUCTION}: "
            f"{type(error).__name__}: {exception_summary(error)}"
        ) from None


def _check_manifest(checkpoint: Path) -> None:
    """Compares the files with their checksums; RLlib's own algorithms write none."""
    from rllib_geoffpac.checkpoints import MANIFEST, CheckpointError, verify

    if not (checkpoint / MANIFEST).exists():
        return
    try:
        verify(checkpoint)
    except CheckpointError as error:
        raise UserError(str(error)) from None


def _config_from_json(checkpoint: Path) -> Any:
    from rllib_cli.experiment.algorithms import algorithm_class
    from rllib_cli.experiment.settings import Settings

    trial = checkpoint.parent
    spec = folders.read_spec(trial.parent)
    params = trial / "params.json"
    if not spec or not params.exists():
        raise UserError(
            f"--weights-only needs the settings as JSON: {params.name} in {str(trial)!r} and "
            f"{folders.SPEC_FILE} in {str(trial.parent)!r}, as 'rllib train' writes them. "
            "Evaluate the checkpoint in the folder where it was trained."
        )
    default = algorithm_class(spec["run"]).get_default_config()
    settings = Settings(default, spec["run"])
    stored, written = json.loads(params.read_text()), spec["config"]
    kept: dict[str, Any] = {}
    for attribute, value in stored.items():
        key = _KEYS.get(attribute, attribute)
        annotation = settings.annotation(key)
        is_data = not value_types.is_code(annotation) or value_types.matches(value, annotation)
        if key in _CODE_OF_ROLLOUTS and is_reference(written.get(key)):
            kept[key] = written[key]
        elif is_kept_as_text(key) or (is_data and key not in _CODE_OF_TRAINING):
            kept[key] = folders.with_integer_keys(value, spec)
        # Other code is in JSON as text that cannot be read back; a rollout needs none of it.
    return default.update_from_dict(settings.for_rllib(kept))


class _ArraysOnly(pickle.Unpickler):
    """Knows numpy arrays and nothing else: whatever could run code is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ARRAYS:
            return _ARRAYS[module, name]
        if (module, name) in _NUMPY_NAMES:
            return super().find_class(module, name)
        raise UserError(
            f"--weights-only: the checkpoint holds {module}.{name}, which is no array; refused."
        )


def load_weights(checkpoint: Path, weights_only: bool) -> dict[str, Any]:
    """Returns the state of the checkpoint's RLModule: names -> arrays."""
    from rllib_geoffpac.checkpoints import WEIGHTS, read_weights

    path = checkpoint / _MODULE / "module_state.pkl"
    plain = weights_only and (checkpoint / WEIGHTS).exists()
    if plain:
        path = checkpoint / WEIGHTS
    if not path.exists():
        raise UserError(
            f"The checkpoint {str(checkpoint)!r} has no module 'default_policy' ({path} is "
            "missing); only single-agent algorithms can be evaluated."
        )
    try:
        if plain:
            return read_weights(checkpoint)
        with open(path, "rb") as file:
            return _ArraysOnly(file).load() if weights_only else pickle.load(file)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"The checkpoint file {str(path)!r} is damaged: {type(error).__name__}: "
            f"{exception_summary(error)}"
        ) from None


def restore_connector(pipeline: Any, checkpoint: Path, name: str) -> None:
    """Loads the state of a connector pipeline (a mean-std filter, for instance) if it was saved."""
    path = checkpoint / _ENV_RUNNER / name
    if path.exists():
        pipeline.restore_from_path(str(path))


def check_connectors_are_stateless(checkpoint: Path) -> None:
    """Raises UserError if a connector has learned something, which only unpickling could restore.

    Acting without it would be another policy than the one that was trained.
    """
    for path in sorted((checkpoint / _ENV_RUNNER).glob("*_connector/**/state.pkl")):
        with open(path, "rb") as file:
            state = _ArraysOnly(file).load()
        if state:
            raise UserError(
                f"--weights-only: the connector {path.parent.name} of the checkpoint has state "
                "that can only be unpickled. Leave the option out, if you trust the checkpoint."
            )
