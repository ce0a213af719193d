"""Draws every picture that has data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from paper.entries import entries
from paper.levels import RANDOM, Levels
from paper.pictures.comparison import comparison
from paper.pictures.gamma_hat import gamma_hat_curves
from paper.pictures.grids import grids
from paper.pictures.two_circle import two_circle_curves, two_circle_heat_map
from paper.pictures.variants import variants
from paper.variants import PAPER, ROBUST

_EMPHATIC = [("GeoffPAC", PAPER), ("ACE", PAPER), ("OffPAC", PAPER)]
_DETERMINISTIC = [("DDPG", PAPER), ("TD3", PAPER), ("GeoffPAC", PAPER)]
_ROBUST = [("GeoffPAC", ROBUST), ("GeoffPAC", PAPER), ("ACE", PAPER), ("TD3", PAPER)]


def draw_all(curves: pd.DataFrame, levels: Levels, folder: Path) -> list[Path]:
    """Draws every figure that has data into the folder; returns the files."""
    found, random = entries(curves), levels[RANDOM]
    figures: dict[str, Callable[[], Figure | None]] = {
        "figure1b": lambda: two_circle_curves(curves),
        "figure1c": lambda: two_circle_heat_map(curves),
        "figure2": lambda: comparison(found, _EMPHATIC, "j_pi", levels),
        "figure3": lambda: comparison(found, _DETERMINISTIC, "j_pi", levels),
        "figure4": lambda: comparison(found, _EMPHATIC, "return", levels),
        "figure5": lambda: comparison(found, _DETERMINISTIC, "return", levels),
        "figure6": lambda: grids(curves, random),
        "variants": lambda: variants(found, random),
        "robust": lambda: comparison(found, _ROBUST, "j_pi", levels),
        "overlap": lambda: comparison(found, _ROBUST[:3], "rho_clipped_mean", levels),
        "gamma_hat": lambda: gamma_hat_curves(found, levels),
    }
    folder.mkdir(exist_ok=True)
    drawn = []
    for name, draw in figures.items():
        figure = draw()
        if figure is not None:
            drawn.append(folder / f"{name}.png")
            figure.savefig(drawn[-1], dpi=150)
            plt.close(figure)
    return drawn
