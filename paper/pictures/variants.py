"""The variants beside each other: interquartile mean and interval, task by task."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from paper.entries import MEASURED_TASKS, Entry, variant_entries
from paper.pictures.style import LINES, METRICS, NAMES, seeds
from paper.variants import PAPER, ROBUST
from rllib_cli.plot import drawing


def variants(found: list[Entry], random: pd.DataFrame) -> Figure | None:
    """Last J_pi of every variant: interquartile mean with its 95 % interval, task by task."""
    measured = [e for e in variant_entries(found) if e.task in MEASURED_TASKS]
    # What is named by how it differs from `robust()` would need a line of text each.
    part = [e for e in measured if not e.shown.startswith(f"{ROBUST}, ")]
    names = list(dict.fromkeys((e.algo, e.shown) for e in sorted(part, key=_variant_order)))
    tasks = [t for t in MEASURED_TASKS if any(e.task == t and e.variant != PAPER for e in part)]
    if not tasks:
        return None
    with plt.rc_context(drawing.STYLE):
        size = (3.2 + 2.5 * len(tasks), 1.2 + 0.3 * len(names))
        figure, row = plt.subplots(1, len(tasks), figsize=size, sharey=True, squeeze=False)
        for axes, task in zip(row[0], tasks, strict=True):
            own = [e for e in part if e.task == task]
            for entry in own:
                rank = names.index((entry.algo, entry.shown))
                _interval_bar(axes, entry, len(names) - 1 - rank)
            axes.axvline(random.loc[task, "j_pi"], **drawing.LEVEL)
            axes.set_title(f"{task} ({seeds(own)})", fontsize=10)
            axes.set_xlabel(f"last {METRICS['j_pi']}")
        labels = [f"{NAMES[algo]}: {_pretty(name)}" for algo, name in names]
        row[0][0].set_yticks(range(len(names))[::-1], labels, fontsize=8)
        styles = {NAMES[algo]: LINES[algo, PAPER] for algo in ("GeoffPAC", "ACE")}
        styles["random agent"] = drawing.LEVEL
        note = "interquartile mean and 95 % interval over seeds"
        drawing.shared_legend(figure, styles, note)
    return figure


def _variant_order(entry: Entry) -> tuple:
    parts = 0 if entry.variant == PAPER else len(entry.variant.split(", "))
    return entry.algo != "GeoffPAC", parts, entry.variant


def _interval_bar(axes: Any, entry: Entry, y: int) -> None:
    iqm, low, high = entry.interval("j_pi", "last")
    color = LINES[entry.algo, PAPER]["color"]
    axes.plot([low, high], [y, y], color=color, lw=2)
    axes.plot(iqm, y, "o", color=color, ms=5)


def _pretty(name: str) -> str:
    return (
        name.replace("value_baseline=ema", "baseline")
        .replace("overlap_coeff=", "overlap ")
        .replace("truncated_gaussian", "truncated")
    )
