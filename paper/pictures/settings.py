"""Final performance over the values of a setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from paper.entries import Entry
from paper.variants import variant_settings
from rllib_cli.plot.plots import Row
from rllib_cli.results import statistics


def setting_rows(
    found: list[Entry], keys: list[str], value: Callable[[pd.DataFrame], float]
) -> list[Row]:
    """One row per entry, by its values of some settings: the mean over seeds of a run's value."""
    rows = []
    for entry in found:
        settings = variant_settings(entry.algo, entry.variant)
        finals = [value(run) for run in entry.runs]
        rows.append(
            Row.of(
                finals,
                label=entry.variant,
                keys=tuple(settings[key] for key in keys),
                best=max(finals),
                hours=entry.hours,
            )
        )
    return sorted(rows, key=lambda row: row.keys)


def final(metric: str) -> Callable[[pd.DataFrame], float]:
    """The mean of a metric over the last tenth of a run, as ``rllib plot`` has it."""

    def mean(run: pd.DataFrame) -> float:
        run = run.dropna(subset=[metric])
        return statistics.final_mean(run["env_steps"].to_numpy(), run[metric].to_numpy())

    return mean


def over_setting(axes: Any, rows: list[Row], **line: Any) -> None:
    """Draws the rows over their setting: the mean with its standard error, and every seed.

    Args:
        axes: Where to draw.
        rows: Sorted by the setting, their one key.
        line: How to draw the line: ``label``, ``color`` ...
    """
    places = [row.keys[0] for row in rows]
    means, errors = [row.last for row in rows], [row.last_error for row in rows]
    drawn = axes.errorbar(places, means, errors, marker="o", capsize=3, **line)
    dots = {"color": drawn.lines[0].get_color(), "alpha": 0.35, "ms": 4, "mew": 0}
    for row in rows:
        axes.plot(row.keys * row.seeds, row.finals, "o", **dots)
