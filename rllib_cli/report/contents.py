"""What a report says, as plain data: the page's script draws it."""

import json
import math
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rllib_cli import plugins
from rllib_cli.errors import UserError
from rllib_cli.experiment.result_keys import RLLIB_METRICS, STEPS, STEPS_OFFLINE
from rllib_cli.results import reading, statistics
from rllib_cli.results.reading import TrialResult

_POINTS = 400
"""A curve of a page has no more points than a screen can show."""
_DIGITS = 6
# What Tune adds to every report, and what says nothing as a curve.
_NO_CURVES = re.compile(
    r"^(pid|time_since_restore|timestamp|iterations_since_restore|done|training_iteration|"
    r"num_training_step_calls_per_iteration|timers/.*|perf/.*|env_runner_group/.*|"
    rf"{STEPS}|{STEPS_OFFLINE})$"
)
# Counts of things that went wrong; those that only ever were 0 are left out.
_FAULT = re.compile(r"fail|restart|lost|damaged|recreated|retr|diverged")
DIGEST = "weights_digest"


def contents(trials: Sequence[TrialResult], title: str) -> dict[str, Any]:
    """Everything that the page shows.

    Args:
        trials: At least one.
        title: The page's title.

    Returns:
        Plain data for JSON: ``metrics`` (key, label, unit, meaning), ``keys`` (the settings that
        differ), ``groups`` (trials that differ in the seed alone), ``trials`` with their curves by
        metric number (which of their ``axes`` has its steps, and its values), ``common`` (the
        settings that all share) and ``experiments`` with commands.
    """
    metrics = _metrics(trials)
    numbers = {metric["key"]: number for number, metric in enumerate(metrics)}
    best = reading.headline_of(trials)
    keys = [key for key in reading.differing_keys(list(trials)) if key not in ("run", "env")]
    names = ["run", "env", *keys]
    groups = reading.group(list(trials), names)
    group_of = {id(trial): number for number, ms in enumerate(groups.values()) for trial in ms}
    shown = [metric.key for metric in reading.headline_metrics() if metric.key in numbers]
    return {
        "title": title,
        "metrics": metrics,
        "best": numbers[best or reading.stand_in(numbers)],
        "keys": keys,
        "groups": [
            _group(dict(zip(names, values, strict=True)), members, shown, numbers)
            for values, members in groups.items()
        ],
        "trials": [_trial(trial, group_of[id(trial)], keys, numbers) for trial in trials],
        "common": _common(trials, keys),
        "experiments": _experiments(trials, best),
    }


def _metrics(trials: Iterable[TrialResult]) -> list[dict[str, str]]:
    """Every number that was reported, with what the glossary says of it; headlines first."""
    reported = dict.fromkeys(
        key
        for trial in trials
        for report in trial.reports
        for key, value in report.items()
        if _is_number(value) and not _NO_CURVES.match(key)
    )
    known = [*plugins.all_metrics(), *RLLIB_METRICS]
    first = [metric.key for metric in reading.headline_metrics()]
    rows = []
    for key in sorted(reported, key=lambda key: (first.index(key) if key in first else 99, key)):
        row = next((metric for metric in known if metric.matches(key)), None)
        name = key.rpartition("/")[2]
        rows.append(
            {
                "key": key,
                "label": (row.headline if row and row.headline else name),
                "unit": row.unit if row else "",
                "meaning": row.meaning if row else "",
            }
        )
    return rows


def _group(
    values: dict[str, Any], members: list[TrialResult], shown: list[str], numbers: dict[str, int]
) -> dict[str, Any]:
    intervals = {}
    for key in shown:
        curves = [trial.curve(key) for trial in members]
        finals = [statistics.final_mean(*curve) for curve in curves if len(curve[0])]
        interval = statistics.interquartile_mean(np.array(finals))
        if interval is not None:
            intervals[numbers[key]] = [_rounded(number) for number in interval]
    return {
        "run": values.pop("run"),
        "env": values.pop("env") or "",
        "values": values,
        "intervals": intervals,
    }


def _trial(
    trial: TrialResult, group: int, keys: list[str], numbers: dict[str, int]
) -> dict[str, Any]:
    axes: list[list[float]] = []  # metrics of equal steps share them: half of the numbers
    curves = {}
    for key, number in numbers.items():
        steps, values = _thinned(*trial.curve(key))
        if steps:
            if steps not in axes:
                axes.append(steps)
            curves[number] = [axes.index(steps), values]
    last = trial.reports[-1]
    return {
        "name": trial.name,
        "experiment": trial.experiment,
        "group": group,
        "seed": trial.params.get("seed"),
        "settings": {key: _text(trial.params.get(key)) for key in keys},
        "status": trial.status(),
        "steps": trial.steps,
        "hours": _rounded(trial.hours),
        "digest": last.get(DIGEST, ""),
        "faults": _faults(trial),
        "axes": axes,
        "curves": curves,
        "commands": {
            "evaluate": f"rllib evaluate {shlex.quote(trial.place)} --episodes 10",
        },
    }


def _thinned(steps: np.ndarray, values: np.ndarray) -> list[list[float]]:
    """At most `_POINTS` of a curve, the last one among them; JSON has no infinity."""
    finite = np.isfinite(values)
    steps, values = steps[finite], values[finite]
    if len(steps) > _POINTS:
        chosen = np.unique(np.linspace(0, len(steps) - 1, _POINTS).astype(int))
        steps, values = steps[chosen], values[chosen]
    return [[_rounded(x) for x in steps], [_rounded(y) for y in values]]


def _faults(trial: TrialResult) -> dict[str, float]:
    """What was counted of faults on the way, and did happen."""
    worst: dict[str, float] = {}
    for report in trial.reports:
        for key, value in report.items():
            if _FAULT.search(key) and _is_number(value) and value:
                worst[key] = max(worst.get(key, 0), _rounded(value))
    return worst


def _common(trials: Sequence[TrialResult], keys: list[str]) -> dict[str, str]:
    first = trials[0].params
    return {
        key: _text(value)
        for key, value in sorted(first.items())
        if key not in keys and all(trial.params.get(key) == value for trial in trials)
    }


def _experiments(trials: Iterable[TrialResult], best: str | None) -> list[dict[str, str]]:
    """How each experiment was started, can be continued, and which trial of it did best."""
    members: dict[str, list[TrialResult]] = {}
    for trial in trials:
        members.setdefault(trial.experiment, []).append(trial)
    rows = []
    for name, own in members.items():
        folder = reading.parent(own[0].place)
        row = {"name": name, "folder": folder, "plot": f"rllib plot {shlex.quote(folder)}"}
        if own[0].command:
            row |= {"reproduce": own[0].command, "resume": f"{own[0].command} --resume"}
        ranked = [(trial.curve(best)[1], trial) for trial in own] if best else []
        measured = [(values[-1], trial) for values, trial in ranked if len(values)]
        if measured:
            winner = max(measured, key=lambda pair: pair[0])[1]
            row["evaluate"] = f"rllib evaluate {shlex.quote(winner.place)} --episodes 10"
        rows.append(row)
    return rows


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _rounded(value: float) -> float:
    number = float(f"{value:.{_DIGITS}g}")
    return int(number) if number.is_integer() and abs(number) < 1e15 else number


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def title_of(paths: Sequence[str]) -> str:
    """The names of the folders."""
    names = [path.partition("?")[0].rstrip("/").rpartition("/")[2] for path in paths]
    if not all(names):
        raise UserError("Give the folder of an experiment, not the root of a file system.")
    return ", ".join(names)
