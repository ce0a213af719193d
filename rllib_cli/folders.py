"""Where the results of an experiment go, and what is kept beside them to resume and to plot."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from rllib_cli import storage
from rllib_cli.errors import UserError
from rllib_cli.experiment import result_keys
from rllib_cli.experiment.parse import Experiment

SPEC_FILE = "experiment.json"
LOG_FILE = "rllib.log"
INTEGER_KEYS = "integer_keys"
_TUNER_FILE = "tuner.pkl"


def choose_folders(
    experiments: list[Experiment], resume: bool, name_is_given: bool
) -> tuple[list[Experiment], str | None]:
    """Keeps runs apart: a folder with earlier results is only used to resume it.

    Returns:
        The experiments, and the ``--experiment-name`` that was chosen instead of a taken one.
    """
    folders = [experiment.folder for experiment in experiments]
    if len(set(folders)) < len(folders):
        raise UserError("Two experiments would write to the same folder; give them other names.")
    taken = [folder for folder in folders if storage.exists(storage.join(folder, _TUNER_FILE))]
    if resume:
        if not taken:
            raise UserError(
                f"--resume: there is no earlier run in {folders[0]!r}. "
                "Give its --storage-path and --experiment-name, or leave --resume out."
            )
        for experiment in experiments:
            _check_same_experiment(experiment)
        return experiments, None
    if not taken:
        return experiments, None
    if name_is_given:
        raise UserError(
            f"{taken[0]!r} holds the results of an earlier run. Add --resume to continue it, or "
            "choose another --experiment-name."
        )
    base = experiments[0].name if len(experiments) == 1 else "experiments"
    for number in range(2, 10_000):
        name = f"{base}_{number}"
        renamed = [
            dataclasses.replace(e, name=name if len(experiments) == 1 else f"{name}/{e.name}")
            for e in experiments
        ]
        if not any(storage.exists(e.folder) for e in renamed):
            break
    return renamed, name


def spec_of(experiment: Experiment) -> dict[str, Any]:
    """What decides the results, as it is kept beside them."""
    metric, mode = metric_and_mode(experiment)
    spec = {
        "run": experiment.run,
        "config": experiment.config,
        "stop": experiment.stop,
        "num_samples": experiment.num_samples,
        "metric": metric,
        "mode": mode,
    }
    integers = sorted(_integer_keys(experiment.config))
    if integers:
        spec[INTEGER_KEYS] = integers
    return json.loads(json.dumps(spec, default=str))


def _integer_keys(value: Any) -> set[int]:
    """The integers that are keys somewhere in a value: JSON has text only."""
    if isinstance(value, dict):
        own = {key for key in value if type(key) is int}
        return own.union(*map(_integer_keys, value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(_integer_keys, value))
    return set()


def with_integer_keys(value: Any, spec: dict[str, Any]) -> Any:
    """A value that was read as JSON, with the keys that are integers in the experiment."""
    integers = {str(key): key for key in spec.get(INTEGER_KEYS, ())}
    if isinstance(value, dict):
        return {integers.get(k, k): with_integer_keys(v, spec) for k, v in value.items()}
    return [with_integer_keys(v, spec) for v in value] if isinstance(value, list) else value


def _check_same_experiment(experiment: Experiment) -> None:
    """A resumed run goes on with its stored settings; other ones would be ignored silently."""
    stored, given = read_spec(experiment.folder), spec_of(experiment)
    if not stored:
        return
    for key in ("run", "config", "stop", "num_samples"):
        if stored.get(key) != given[key]:
            raise UserError(
                f"--resume: {key!r} differs from the run in {experiment.folder!r}: it was "
                f"{json.dumps(stored.get(key))}, now it is {json.dumps(given[key])}. Repeat the "
                "original options, or start a new run with another --experiment-name."
            )


def metric_and_mode(experiment: Experiment) -> tuple[str, str]:
    """What 'best' means for an experiment."""
    metric = experiment.tune_config.get("metric")
    mode = experiment.tune_config.get("mode", "max")
    return metric or result_keys.default_metric(experiment), mode


def write_spec(folder: str, spec: dict[str, Any]) -> None:
    """Keeps an experiment's description beside its results."""
    storage.write_text(storage.join(folder, SPEC_FILE), json.dumps(spec, indent=2) + "\n")


def read_spec(folder: str | Path) -> dict[str, Any]:
    """The description that was kept beside the results; empty if there is none."""
    text = storage.read_text(storage.join(folder, SPEC_FILE))
    return {} if text is None else json.loads(text)
