"""Learning curves, heat maps and final tables from the folders that Tune writes.

matplotlib is imported inside the functions that draw.
"""

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rllib_cli import out_files, plugins
from rllib_cli.errors import UserError
from rllib_cli.experiment.result_keys import STEPS, STEPS_OFFLINE
from rllib_cli.results import reading, statistics
from rllib_cli.results.reading import TrialResult
from rllib_cli.results.statistics import Interval
from rllib_geoffpac.validation import did_you_mean

FORMATS = (".png", ".pdf", ".svg")
_MAX_CURVES = 12
_METRIC_LABELS = {metric.key: metric.label for metric in plugins.all_metrics() if metric.label}
_SETTING_LABELS = {"run": "algorithm", "lr": "learning rate", **plugins.setting_labels()}

_Axes = tuple[str, str | None]
"""What is drawn, and the result key that counts the steps (None: environment steps)."""


@dataclass(frozen=True)
class Row:
    """One line of the final table: a group of seeds, of one environment if there are several."""

    label: str
    keys: tuple
    last: float
    last_error: float
    best: float
    finals: tuple[float, ...]
    hours: float
    iqm: Interval | None
    panel: str = ""

    @classmethod
    def of(cls, finals: Sequence[float], **rest: Any) -> "Row":
        """The line of runs with these final values; `rest` are the other fields."""
        values = np.array(finals, float)
        mean, error = statistics.mean_and_error(values[:, None])
        return cls(
            last=float(mean[0]),
            last_error=float(error[0]),
            finals=tuple(map(float, values)),
            iqm=statistics.interquartile_mean(values),
            **rest,
        )

    @property
    def seeds(self) -> int:
        """How many runs the line sums up."""
        return len(self.finals)


@dataclass(frozen=True)
class Plot:
    """What was drawn and where."""

    path: Path
    kind: str
    metric: str
    by: list[str]
    rows: list[Row]


def plot(
    paths: list[str],
    metric: str | None = None,
    by: list[str] | None = None,
    out: str | None = None,
    levels: Mapping[str, Mapping[str, float]] | None = None,
    x: str | None = None,
) -> Plot:
    """Draws the results below ``paths``.

    Two differing numeric settings give a heat map of final performance; anything else gives
    learning curves. Several environments give a panel each: their numbers can't be compared.

    Args:
        paths: Result folders or URIs: experiments, trials, or folders above them.
        metric: Flat result key; None for J_pi, or else the episode return.
        by: Settings that distinguish the curves; None for all that differ, except the seed. With
            ``env`` among them, all environments share one panel.
        out: Picture to write; None for ``plot.png`` in the first folder, or in the working folder
            if that is behind a URI.
        levels: Label -> environment -> the height of a dashed line in its panel, where there are
            several panels.
        x: Flat result key that the horizontal axis counts; None for environment steps.

    Raises:
        UserError: If there is nothing to draw, or matplotlib is missing.
    """
    check_installed()
    target = out_files.in_results(paths, out, "plot.png", FORMATS, "picture")
    trials = reading.load(paths)
    metric = reading.common_metric(trials, metric)
    _check_x(trials, x)
    trials = [trial for trial in trials if len(trial.curve(metric, x)[0])]
    panels = reading.group(trials, ["env"] if _has_panels(trials, by) else [])
    keys = _check_by(list(panels.values()), by)
    grouped = [
        (_row(members, key, keys, (metric, x), *panel), members)
        for panel, part in panels.items()
        for key, members in reading.group(part, keys).items()
    ]
    figure, kind = _draw(grouped, keys, (metric, x), trials, levels)
    out_files.make_room(target)
    figure.savefig(target, dpi=150)
    return Plot(target, kind, metric, keys, [row for row, _ in grouped])


def _has_panels(trials: list[TrialResult], by: list[str] | None) -> bool:
    return "env" not in (by or ()) and len({str(trial.params.get("env")) for trial in trials}) > 1


def check_installed() -> None:
    """Refuses to draw without matplotlib, which is optional."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError(
            "Plotting needs matplotlib, which is not installed: "
            "pip install 'rllib_geoffpac[plots]'."
        )


def _check_by(panels: list[list[TrialResult]], by: list[str] | None) -> list[str]:
    trials = [trial for panel in panels for trial in panel]
    if by is None:
        # What differs only from environment to environment tells no curves apart.
        keys = list(dict.fromkeys(key for panel in panels for key in reading.differing_keys(panel)))
        if not keys and len(panels) == 1 and len({trial.experiment for trial in trials}) > 1:
            return ["experiment"]
        return keys
    known = {"run", "experiment", *(key for trial in trials for key in trial.params)}
    for key in by:
        if key not in known:
            raise UserError(f"--by: no trial has a setting {key!r}.{did_you_mean(key, known)}")
    return by


def _check_x(trials: list[TrialResult], x: str | None) -> None:
    if x is None:
        return
    for trial in trials:
        known = {
            key
            for report in trial.reports
            for key, value in report.items()
            if isinstance(value, int | float)
        }
        if x not in known:
            raise UserError(
                f"--x: {trial.place} has no number {x!r} to count by.{did_you_mean(x, known)}"
            )


def _row(
    members: list[TrialResult], key: tuple, keys: list[str], axes: _Axes, panel: str = ""
) -> Row:
    curves = [trial.curve(*axes) for trial in members]
    return Row.of(
        [statistics.final_mean(*curve) for curve in curves],
        label=_group_label(key, keys) or (panel and members[0].run) or members[0].experiment,
        keys=key,
        best=max(float(values.max()) for _, values in curves),
        hours=sum(trial.hours for trial in members),
        panel=panel,
    )


def _group_label(key: tuple, keys: list[str]) -> str:
    parts = [
        str(value) if name in ("run", "experiment") else f"{short(name)} = {value}"
        for name, value in zip(keys, key, strict=True)
    ]
    return ", ".join(parts)


def short(name: str) -> str:
    """A setting's name as a paper would print it."""
    return _SETTING_LABELS.get(name, name.split(".")[-1])


def _draw(
    grouped: list[tuple[Row, list[TrialResult]]],
    keys: list[str],
    axes: _Axes,
    trials: list[TrialResult],
    levels: Mapping[str, Mapping[str, float]] | None,
) -> tuple[Any, str]:
    from rllib_cli.plot import drawing

    metric, x = axes
    title, y_label = _title(trials), metric_label(metric)
    panels: dict[str, list[Row]] = {}
    for row, _ in grouped:
        panels.setdefault(row.panel, []).append(row)
    if all(drawing.is_grid(keys, rows) for rows in panels.values()):
        if len(panels) > 1:
            return drawing.heat_map_panels(panels, keys, y_label), "heat maps"
        (rows,) = panels.values()
        return drawing.heat_map(rows, keys, y_label, title), "heat map"
    labels = _best_labels(list(panels.values()))
    count = len({row.label for row, _ in grouped})
    note = f"the {len(labels)} best of {count} settings" if count > len(labels) else ""
    curves: dict[str, drawing.Curves] = {}
    for row, members in grouped:
        if row.label in labels:
            runs = [trial.curve(*axes) for trial in members]
            curves.setdefault(row.panel, {})[row.label] = runs
    x_label = step_label(trials) if x is None else metric_label(x)
    if len(panels) > 1:
        figure = drawing.curve_panels(curves, y_label, x_label, note, levels=levels)
        return figure, "learning curves"
    (only,) = curves.values()
    return drawing.learning_curves(only, y_label, x_label, title, note), "learning curves"


def _best_labels(panels: list[list[Row]]) -> set[str]:
    """The settings to draw: all, or if there are too many, the best by their ranks in all panels.

    A setting that a panel lacks ranks last there.
    """
    labels = list(dict.fromkeys(row.label for rows in panels for row in rows))
    ranks = [
        {row.label: rank for rank, row in enumerate(sorted(rows, key=lambda row: -row.last))}
        for rows in panels
    ]
    best = sorted(labels, key=lambda label: sum(rank.get(label, len(labels)) for rank in ranks))
    return set(best[:_MAX_CURVES])


def metric_label(metric: str) -> str:
    """A metric's name as a paper would print it."""
    return _METRIC_LABELS.get(metric, metric.split("/")[-1].replace("_", " "))


def step_label(trials: list[TrialResult]) -> str:
    """What the horizontal axis counts."""
    report = trials[0].reports[-1]
    counted = next((key for key in (STEPS, STEPS_OFFLINE) if key in report), "training_iteration")
    return metric_label(counted)


def _title(trials: list[TrialResult]) -> str:
    runs = sorted({trial.run for trial in trials if trial.run})
    envs = sorted({str(trial.params["env"]) for trial in trials if "env" in trial.params})
    parts = [", ".join(runs) if len(runs) == 1 else "", ", ".join(envs) if len(envs) == 1 else ""]
    return " on ".join(part for part in parts if part)


def plot_command(
    paths: list[str],
    metric: str | None,
    by: str | None,
    out: str | None,
    x: str | None = None,
) -> None:
    """``rllib plot``: draws, and prints the final table."""
    from rich.console import Console
    from rich.table import Table

    keys = [key.strip() for key in by.split(",") if key.strip()] if by is not None else None
    drawn = plot(paths, metric, keys, out, x=x)
    with_iqm = any(row.iqm for row in drawn.rows)
    table = Table(box=None, pad_edge=False)
    table.add_column("setting", overflow="fold")
    titles = ["last +- s.e.", "best", "seeds", "hours"]
    for title in titles[:1] + (["IQM [95 % interval]"] if with_iqm else []) + titles[1:]:
        table.add_column(title, justify="right")
    for row in drawn.rows:
        iqm = f"{row.iqm[0]:.4g} [{row.iqm[1]:.4g}, {row.iqm[2]:.4g}]" if row.iqm else ""
        error = f" +- {row.last_error:.2g}" if row.seeds > 1 else ""
        table.add_row(
            plain(f"{row.panel}: {row.label}" if row.panel else row.label),
            f"{row.last:.4g}{error}",
            *([iqm] if with_iqm else []),
            f"{row.best:.4g}",
            str(row.seeds),
            f"{row.hours:.2f}",
        )
    # Not on a terminal nothing is wrapped.
    width = None if sys.stdout.isatty() else 10_000
    console = Console(highlight=False, soft_wrap=True, width=width)
    console.print(f"{drawn.metric}; last: mean over the last tenth of the steps", markup=False)
    console.print(table)
    console.print(f"Written: {drawn.path} ({drawn.kind})", markup=False)


def plain(label: str) -> str:
    """A label without the markup that only matplotlib understands."""
    for name, pretty in _SETTING_LABELS.items():
        if pretty.startswith("$"):
            label = label.replace(pretty, name)
    return label
