"""Reads the folders that Tune writes: one :class:`TrialResult` per trial, no Ray needed."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rllib_cli import folders, plugins, storage
from rllib_cli.errors import UserError
from rllib_cli.experiment.parse import flatten
from rllib_cli.experiment.result_keys import (
    EVALUATED_AT,
    RLLIB_METRICS,
    STEPS,
    STEPS_OFFLINE,
    did_you_mean_key,
)
from rllib_geoffpac.metrics import Metric, headlines
from rllib_geoffpac.validation import did_you_mean

# Keys that tell a run, not a hyperparameter.
_NOT_PARAMETERS = ("seed",)
# Where nothing was evaluated and no episode ended; by their last word, which all algorithms share.
_STAND_INS = ("objective_estimate", "total_loss", "env_steps_per_s")
# All that is read of a results folder; the checkpoints are large.
ERROR_FILE = "error.txt"
_FILES = ("result.json", "params.json", ERROR_FILE, folders.SPEC_FILE)
# A trial that has reported nothing for so long, or for five of its iterations, is not running.
_SILENCE_S = 120.0


@dataclass(frozen=True)
class TrialResult:
    """What one trial reported.

    Attributes:
        path: The trial's folder; None if it was read from a URI.
        place: The trial's folder or URI, as a user would write it.
        experiment: Name of the experiment's folder.
        run: Name of the algorithm, if it was noted.
        params: The trial's settings, flat with dots.
        reports: One flat dict of metrics per iteration, in order.
        stop: The stop criteria, if they were noted.
        command: The command line that started the experiment, if it was noted.
        failed: Whether it ended with an error.
    """

    path: Path | None
    place: str
    experiment: str
    run: str
    params: dict[str, Any]
    reports: list[dict[str, Any]] = field(default_factory=list)
    stop: dict[str, Any] = field(default_factory=dict)
    command: str = ""
    failed: bool = False

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.place.partition("?")[0].rstrip("/").rpartition("/")[2]

    @property
    def steps(self) -> float:
        """The steps of its last report."""
        return _steps(self.reports[-1]) if self.reports else 0.0

    def status(self, now: float | None = None) -> str:
        """done, diverged, failed, running or interrupted.

        Args:
            now: The time since the epoch; None for this moment.
        """
        last = self.reports[-1] if self.reports else {}
        if last.get("diverged"):
            return "diverged"
        if last.get("done"):
            return "done"
        if self.failed:
            return "failed"
        silence = (time.time() if now is None else now) - last.get("timestamp", 0.0)
        patience = max(_SILENCE_S, 5 * (last.get("time_this_iter_s") or 0.0))
        return "running" if silence < patience else "interrupted"

    def curve(self, metric: str, x: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns ``(steps [N], values [N])`` of a metric, where it was measured.

        Args:
            metric: Flat result key.
            x: The result key that counts the steps; None: environment steps.
        """
        steps: list[float] = []
        values: list[float] = []
        latest = None
        for report in self.reports:
            value = report.get(metric)
            # RLlib reports NaN until there is something to report.
            if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
                continue
            step = _steps(report)
            # Offline algorithms count no sampled steps: theirs tell nothing about repetitions.
            if metric.startswith("evaluation/") and EVALUATED_AT in report:
                step = evaluated_at(report)
                if step == latest:
                    continue
                latest = step
            if x is not None and x not in report:
                continue
            steps.append(step if x is None else report[x])
            values.append(value)
        return np.array(steps, float), np.array(values, float)

    @property
    def hours(self) -> float:
        """How long it trained."""
        return self.reports[-1].get("time_total_s", 0.0) / 3600 if self.reports else 0.0


def evaluated_at(report: dict[str, Any]) -> float:
    """The steps at which a report's evaluation was made: RLlib repeats it until the next one."""
    return report.get(EVALUATED_AT, _steps(report))


def _steps(report: dict[str, Any]) -> float:
    return report.get(STEPS) or report.get(STEPS_OFFLINE, report.get("training_iteration", 0))


def load(paths: list[str]) -> list[TrialResult]:
    """Reads every trial below the given folders or URIs.

    Raises:
        UserError: If a folder is missing or holds no results.
    """
    trials: list[TrialResult] = []
    for path in paths:
        place = path if storage.is_uri(path) else str(Path(path).expanduser())
        if not storage.exists(place):
            raise UserError(f"The results folder {path!r} does not exist.{_similar(place)}")
        with storage.local_copy(place, _FILES) as folder:
            files = sorted(folder.glob("**/result.json")) if folder.is_dir() else []
            found = [trial for trial in map(_load_trial, files) if trial.reports]
            if storage.is_uri(place):
                found = [
                    replace(trial, path=None, place=_place_of(trial, folder, place))
                    for trial in found
                ]
        if not found:
            raise UserError(
                f"{path!r} holds no results: there is no result.json with reports in or below it. "
                "Give the folder that 'rllib train' names as 'Results'."
            )
        trials += found
    return trials


def _place_of(trial: TrialResult, folder: Path, uri: str) -> str:
    """The URI of a trial that was read from a copy of what is behind ``uri``."""
    return storage.join(uri, *Path(trial.place).relative_to(folder.absolute()).parts)


def _similar(place: str) -> str:
    """What the user may have meant instead of a folder that is not there."""
    parent = Path(place).parent
    siblings = () if storage.is_uri(place) or not parent.is_dir() else parent.iterdir()
    return did_you_mean(place, map(str, siblings))


def _load_trial(file: Path) -> TrialResult:
    by_iteration: dict[int, dict[str, Any]] = {}
    for line in file.read_text().splitlines():
        try:
            report = json.loads(line)
        except json.JSONDecodeError:
            continue  # the last line of a run that was killed
        report.pop("config", None)
        # A resumed trial repeats the iterations after its checkpoint: the later report counts.
        by_iteration[report.get("training_iteration", len(by_iteration))] = flatten(report)
    params_file = file.parent / "params.json"
    params = json.loads(params_file.read_text()) if params_file.exists() else {}
    experiment = file.parent.parent
    spec = folders.read_spec(experiment)
    return TrialResult(
        path=file.parent,
        place=str(file.parent.absolute()),
        experiment=experiment.name,
        run=spec.get("run", ""),
        params=flat_settings(params),
        reports=[by_iteration[iteration] for iteration in sorted(by_iteration)],
        stop=spec.get("stop", {}),
        command=spec.get("command", ""),
        failed=(file.parent / ERROR_FILE).exists(),
    )


def parent(place: str) -> str:
    """The folder or URI above one."""
    head, mark, query = place.partition("?")
    return head.rstrip("/").rpartition("/")[0] + mark + query


def flat_settings(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of a config, flat with dots."""
    return {key.replace("/", "."): value for key, value in flatten(config).items()}


def differing_keys(trials: list[TrialResult]) -> list[str]:
    """The settings that differ between trials (``run`` among them), except the seed."""
    settings = [{"run": trial.run, **trial.params} for trial in trials]
    keys = dict.fromkeys(key for setting in settings for key in setting)
    return [
        key
        for key in keys
        if key not in _NOT_PARAMETERS
        and len({json.dumps(setting.get(key), default=str) for setting in settings}) > 1
    ]


def group(trials: list[TrialResult], keys: list[str]) -> dict[tuple, list[TrialResult]]:
    """Groups trials by the values of some settings; what is left in a group are seeds."""
    groups: dict[tuple, list[TrialResult]] = {}
    for trial in trials:
        setting = {"run": trial.run, "experiment": trial.experiment, **trial.params}
        groups.setdefault(tuple(_plain(setting.get(key)) for key in keys), []).append(trial)
    return dict(sorted(groups.items(), key=lambda item: tuple(map(_sort_key, item[0]))))


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool | None) else json.dumps(value)


def _sort_key(value: Any) -> tuple:
    is_number = isinstance(value, int | float)
    return (0, value, "") if is_number else (1, 0, str(value))


def headline_metrics() -> list[Metric]:
    """What is shown of a run: the metrics with a headline, of plugins and of RLlib, each once."""
    known = headlines([*plugins.all_metrics(), *RLLIB_METRICS])
    return list({metric.key: metric for metric in known}.values())


def headline_of(trials: Iterable[TrialResult]) -> str | None:
    """The first headline metric that a trial reported, if any."""
    available = _reported(trials)
    return next((metric.key for metric in headline_metrics() if metric.key in available), None)


def stand_in(keys: Iterable[str]) -> str:
    """What to look at where nothing was evaluated and no episode ended, of what was reported."""
    known = sorted(keys, key=lambda key: (len(key), key))
    found = (key for name in _STAND_INS for key in known if key.rpartition("/")[2] == name)
    return next(found, known[0])


def common_metric(trials: list[TrialResult], metric: str | None) -> str:
    """Checks the metric that the user wants, or picks a headline or what stands in for one.

    Raises:
        UserError: If no trial reported it, or nothing at all.
    """
    available = _reported(trials)
    if not available:
        raise UserError("The trials reported no numbers yet.")
    if metric is not None:
        if metric not in available:
            hint = did_you_mean_key(metric, available)
            raise UserError(f"--metric: no trial reported {metric!r}.{hint}")
        return metric
    return headline_of(trials) or stand_in(available)


def _reported(trials: Iterable[TrialResult]) -> set[str]:
    return {
        key
        for trial in trials
        for report in trial.reports
        for key, value in report.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
