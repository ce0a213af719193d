"""How counterfactual the objective should be: J_pi, and the overlap, against gamma_hat."""

from __future__ import annotations

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from paper.entries import MEASURED_TASKS, Entry
from paper.levels import RANDOM, Levels
from paper.pictures.settings import final, over_setting, setting_rows
from paper.pictures.style import LINES, METRICS, line_name, seeds
from paper.variants import parts, setting, shown, variant_settings, without
from rllib_cli.plot import drawing
from rllib_cli.plot.plots import short

KEY = "gamma_hat"
_FEWEST_VALUES = 3
_ROWS = ("j_pi", "rho_clipped_mean")


def gamma_hat_curves(found: list[Entry], levels: Levels) -> Figure | None:
    """A column of panels per task: final J_pi above, the final overlap below.

    A line is one set of the other settings, over at least three values of gamma_hat and the seeds
    that all of them have.
    """
    columns = {task: part for task in MEASURED_TASKS if (part := lines(found, task))}
    if not columns:
        return None
    with plt.rc_context(drawing.STYLE):
        figure, grid = plt.subplots(
            2, len(columns), figsize=(max(5, 3.3 * len(columns)), 5.6), sharex="col", squeeze=False
        )
        for (above, below), (task, part) in zip(grid.T, columns.items(), strict=True):
            for name, entries in part.items():
                line = LINES.get(("GeoffPAC", name), {}) | {
                    "label": f"{line_name('GeoffPAC', name)}, {entries[0].budget:,} steps"
                }
                for axes, metric in zip((above, below), _ROWS, strict=True):
                    over_setting(axes, setting_rows(entries, [KEY], final(metric)), **line)
            above.axhline(levels[RANDOM].loc[task, "j_pi"], **drawing.LEVEL, label=RANDOM)
            above.set_title(f"{task} ({seeds(e for es in part.values() for e in es)})", fontsize=10)
            above.legend(fontsize=8)
            below.set_ylim(0, None)
            below.set_xlabel(short(KEY))
        for axes, metric in zip(grid[:, 0], _ROWS, strict=True):
            axes.set_ylabel(f"final {METRICS[metric]}")
        figure.supxlabel("mean, standard error, every seed", fontsize=8, color="0.35")
    return figure


def lines(found: list[Entry], task: str) -> dict[str, list[Entry]]:
    """Name of the other settings -> the entries of Geoff-PAC that differ in gamma_hat alone."""
    groups: dict[tuple[str, int], list[Entry]] = {}
    for entry in found:
        if (entry.algo, entry.task) == ("GeoffPAC", task):
            own = [p for p in parts(entry.variant) if setting(p)[0] == KEY]
            others = without(entry.variant, own[0]) if own else entry.variant
            groups.setdefault((others, entry.budget), []).append(entry)
    kept: dict[str, list[Entry]] = {}
    for (others, budget), entries in sorted(groups.items(), key=lambda item: -item[0][1]):
        if len(entries) >= _FEWEST_VALUES:
            kept.setdefault(shown("GeoffPAC", others, budget), _on_common_seeds(entries))
    return kept


def _on_common_seeds(entries: list[Entry]) -> list[Entry]:
    common = set.intersection(*({_seed(run) for run in entry.runs} for entry in entries))
    return [
        entry._replace(runs=[run for run in entry.runs if _seed(run) in common])
        for entry in sorted(entries, key=lambda e: variant_settings(e.algo, e.variant)[KEY])
    ]


def _seed(run: pd.DataFrame) -> int:
    return int(run["seed"].iloc[0])
