"""Figures 2 to 5: the algorithms with the paper's settings, task by task."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper.entries import MEASURED_TASKS, Entry, paper_entries
from paper.pictures.style import LINES, METRICS, NAMES, runs_of
from rllib_cli.plot import drawing


def comparison(
    found: list[Entry], algos: tuple[str, ...], metric: str, random: pd.DataFrame
) -> Figure | None:
    """Figures 2 to 5: one panel per task, one curve per algorithm with the paper's settings."""
    paper = paper_entries(found)
    panels = {t: {a: paper[t, a] for a in algos if (t, a) in paper} for t in MEASURED_TASKS}
    # Without the first algorithm there is nothing to compare.
    panels = {task: part for task, part in panels.items() if algos[0] in part}
    if not panels:
        return None
    return drawing.curve_panels(
        {
            task: {NAMES[algo]: runs_of(entry, metric) for algo, entry in part.items()}
            for task, part in panels.items()
        },
        METRICS[metric],
        "environment steps",
        lines={NAMES[algo]: LINES[algo] for algo in algos},
        levels={"random agent": random[metric]},
    )
