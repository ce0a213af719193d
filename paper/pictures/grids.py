"""Figure 6: J_pi over the settings that the paper varies on HalfCheetah."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from paper.entries import Entry, entries
from paper.pictures.settings import final, over_setting, setting_rows
from paper.pictures.style import LINES, METRICS, NAMES, seeds
from paper.variants import PAPER
from rllib_cli.plot import drawing
from rllib_cli.plot.plots import short

GRIDS = {
    "lambda_1": "halfcheetah-grid-ace-lambda1",
    "gamma_hat": "halfcheetah-grid-gamma-hat",
    "lambdas": "halfcheetah-grid-lambdas",
}


def grids(curves: pd.DataFrame, random: pd.DataFrame) -> Figure | None:
    """Figure 6: ACE's lambda_1, Geoff-PAC's gamma_hat, and its lambda_1 x lambda_2."""
    parts = {key: entries(curves[curves["experiment"] == name]) for key, name in GRIDS.items()}
    parts = {key: part for key, part in parts.items() if part}
    if not parts:
        return None
    with plt.rc_context(drawing.STYLE):
        figure, row = drawing.row_of_panels(len(parts))
        for axes, letter, (key, part) in zip(row, "abc", parts.items(), strict=False):
            steps = drawing.thousands(max(max(entry.steps) for entry in part))
            title = f"({letter}) {NAMES[part[0].algo]}, {steps} steps, {seeds(part)}"
            axes.set_title(title, fontsize=10)
            if key == "lambdas":
                axes.grid(False)
                keys = ["lambda_1", "lambda_2"]
                rows = setting_rows(part, keys, final("j_pi"))
                label = f"final {METRICS['j_pi']}"
                drawing.heat_map_on(axes, rows, keys, label, every_seed=True)
            else:
                _grid_of_one(axes, part, key, random.loc[part[0].task, "j_pi"])
    return figure


def _grid_of_one(axes: Any, part: list[Entry], key: str, chance: float) -> None:
    rows = setting_rows(part, [key], final("j_pi"))
    over_setting(axes, rows, color=LINES[part[0].algo, PAPER]["color"])
    axes.axhline(chance, **drawing.LEVEL, label="random agent")
    axes.legend(fontsize=8)
    axes.set_xlabel(short(key))
    axes.set_ylabel(f"final {METRICS['j_pi']}: mean, s.e., every seed")
