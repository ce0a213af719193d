"""Draws every picture that has data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from paper.entries import entries
from paper.pictures.comparison import comparison
from paper.pictures.grids import grids
from paper.pictures.two_circle import two_circle_curves, two_circle_heat_map
from paper.pictures.variants import variants


def draw_all(curves: pd.DataFrame, random: pd.DataFrame, folder: Path) -> list[Path]:
    """Draws every figure that has data into the folder; returns the files."""
    emphatic, deterministic = ("GeoffPAC", "ACE", "OffPAC"), ("DDPG", "TD3", "GeoffPAC")
    found = entries(curves)
    figures: dict[str, Callable[[], Figure | None]] = {
        "figure1b": lambda: two_circle_curves(curves),
        "figure1c": lambda: two_circle_heat_map(curves),
        "figure2": lambda: comparison(found, emphatic, "j_pi", random),
        "figure3": lambda: comparison(found, deterministic, "j_pi", random),
        "figure4": lambda: comparison(found, emphatic, "return", random),
        "figure5": lambda: comparison(found, deterministic, "return", random),
        "figure6": lambda: grids(curves, random),
        "variants": lambda: variants(found, random),
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
