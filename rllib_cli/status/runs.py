"""Sums up every experiment below a storage path in one line."""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from rllib_cli import storage
from rllib_cli.errors import UserError
from rllib_cli.results import reading
from rllib_cli.results.reading import TrialResult
from rllib_cli.screen import plain_console

# What a run as a whole is called, by the state of its trials: the first that occurs.
_STATES = ("running", "failed", "interrupted", "diverged", "done")


@dataclass(frozen=True)
class Run:
    """One line of the list."""

    name: str
    algorithm: str
    environment: str
    trials: int
    state: str
    metric: str
    last: float | None
    size: int


def status_command(path: str) -> None:
    """Prints the list."""
    from rich.table import Table

    place = path if storage.is_uri(path) else str(Path(path).expanduser())
    if not storage.exists(place):
        raise UserError(f"{path!r} does not exist. Give the --storage-path of your runs.")
    if not storage.is_uri(place) and not Path(place).is_dir():
        raise UserError(f"{path!r} is a file. Give the --storage-path of your runs.")
    runs = list_runs(place)
    console = plain_console(sys.stdout)
    if not runs:
        console.print(f"There are no runs below {place}.", markup=False)
        return
    table = Table(box=None, pad_edge=False)
    for title in ("run", "algorithm", "environment"):
        table.add_column(title, overflow="fold")
    for title in ("trials", "state", "last", "size"):
        table.add_column(title, justify="left" if title == "state" else "right")
    for run in runs:
        last = "" if run.last is None else f"{run.metric} {run.last:,.4g}"
        table.add_row(
            run.name,
            run.algorithm,
            run.environment,
            str(run.trials),
            run.state,
            last,
            _size(run.size),
        )
    console.print(table)
    console.print("last: mean over the trials of their last value", style="dim")


def list_runs(place: str) -> list[Run]:
    """Every experiment below a folder or URI, by name."""
    try:
        trials = reading.load([place])
    except UserError:
        return []
    folders: dict[str, list[TrialResult]] = {}
    for trial in trials:
        folders.setdefault(reading.parent(trial.place), []).append(trial)
    return [_run(folder, members) for folder, members in sorted(folders.items())]


def _run(folder: str, trials: list[TrialResult]) -> Run:
    metric, last = _last(trials)
    states = Counter(trial.status() for trial in trials)
    state = next(state for state in _STATES if state in states)
    if len(states) > 1:
        state = ", ".join(f"{states[one]} {one}" for one in _STATES if one in states)
    return Run(
        name=trials[0].experiment,
        algorithm=_joined(trial.run for trial in trials),
        environment=_joined(str(trial.params.get("env", "")) for trial in trials),
        trials=len(trials),
        state=state,
        metric=metric,
        last=last,
        size=storage.size(folder),
    )


def _last(trials: list[TrialResult]) -> tuple[str, float | None]:
    """The first headline that was reported, and the mean of its last values."""
    for metric in reading.headline_metrics():
        curves = [trial.curve(metric.key)[1] for trial in trials]
        values = [curve[-1] for curve in curves if len(curve)]
        if values:
            return metric.headline, fmean(values)
    return "", None


def _joined(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(name for name in names if name))


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.3g} {unit}"
