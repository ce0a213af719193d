"""Figures 2 to 5 and the like: algorithms beside each other, a panel per task."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from paper.entries import MEASURED_TASKS, Entry, largest
from paper.levels import Levels
from paper.pictures.style import LINES, METRICS, line_name, runs_of
from rllib_cli.plot import drawing


def comparison(
    found: list[Entry], compared: Sequence[tuple[str, str]], metric: str, levels: Levels
) -> Figure | None:
    """One panel per task, one curve per algorithm and variant, at the largest budget.

    Args:
        found: All that was run.
        compared: Algorithms and the names of their variants; tasks without the first are left out.
        metric: A column of the curves.
        levels: What to draw as level lines, where it has the metric.
    """
    best = largest(found)
    panels = {
        task: {pair: best[(task, *pair)] for pair in compared if (task, *pair) in best}
        for task in MEASURED_TASKS
    }
    panels = {task: part for task, part in panels.items() if compared[0] in part}
    if not panels:
        return None
    return drawing.curve_panels(
        {
            task: {line_name(*pair): runs_of(entry, metric) for pair, entry in part.items()}
            for task, part in panels.items()
        },
        METRICS[metric],
        "environment steps",
        lines={line_name(*pair): LINES[pair] for pair in compared},
        levels={name: table[metric] for name, table in levels.items() if metric in table},
    )
