"""The pictures (imports matplotlib): learning curves and heat maps that a paper would accept."""

from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from rllib_cli import statistics
from rllib_cli.plots import Row, short

STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


def learning_curves(
    curves: dict[str, list[tuple[np.ndarray, np.ndarray]]],
    y_label: str,
    x_label: str,
    title: str = "",
    note: str = "",
) -> Figure:
    """Mean over seeds as a line, mean +- one standard error as a band.

    Args:
        curves: Label -> ``(steps, values)`` of each seed.
        y_label: Name of the metric.
        x_label: What the steps count.
        title: Above the axes.
        note: Said in small letters below the title, such as what was left out.
    """
    with plt.rc_context(STYLE):
        outside = len(curves) > 6
        figure, axes = plt.subplots(figsize=(7.6 if outside else 6, 4))
        colors = plt.cm.tab10.colors if len(curves) <= 10 else plt.cm.tab20.colors
        for number, (label, runs) in enumerate(curves.items()):
            color = colors[number % len(colors)]
            mean_with_band(axes, runs, label=f"{label} (n = {len(runs)})", color=color)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.xaxis.set_major_formatter(FuncFormatter(thousands))
        several = any(len(runs) > 1 for runs in curves.values())
        band = "line and band: mean and standard error over n seeds" if several else ""
        _set_title(axes, title, "; ".join(part for part in (note, band) if part))
        if outside:
            axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)
        else:
            axes.legend(loc="best", fontsize=9)
    plt.close(figure)
    return figure


def mean_with_band(axes: Any, runs: list[tuple[np.ndarray, np.ndarray]], **line: Any) -> None:
    """Draws the mean over runs ``(steps, values)`` and the band of one standard error.

    Args:
        axes: Where to draw.
        runs: ``(steps, values)`` of each seed.
        line: How to draw the line: ``label``, ``color``, ``linestyle`` ...
    """
    steps, values = statistics.common_grid(runs)
    mean, error = statistics.mean_and_error(values)
    (drawn,) = axes.plot(steps, mean, marker="o" if len(steps) == 1 else None, **line)
    axes.fill_between(steps, mean - error, mean + error, color=drawn.get_color(), alpha=0.2, lw=0)


def heat_map(
    rows: list[Row], keys: list[str], label: str, title: str = "", cell: str = ".3g"
) -> Figure:
    """Final performance over two settings, with the values in the cells (in the format `cell`)."""
    columns, lines = (len({row.keys[axis] for row in rows}) for axis in (0, 1))
    with plt.rc_context({**STYLE, "axes.grid": False}):
        figure, axes = plt.subplots(
            figsize=(max(4.2, 1.6 + 0.62 * columns), max(3.4, 1.2 + 0.5 * lines))
        )
        heat_map_on(axes, rows, keys, label, cell)
        seeds = sorted({row.seeds for row in rows})
        count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        _set_title(axes, title, f"mean of {count} seed{'s' * (seeds[-1] != 1)} per cell")
    plt.close(figure)
    return figure


def heat_map_on(axes: Any, rows: list[Row], keys: list[str], label: str, cell: str = ".3g") -> Any:
    """Draws a heat map into given axes, with its colour bar; cell (x, y) is at their ranks."""
    xs = sorted({row.keys[0] for row in rows})
    ys = sorted({row.keys[1] for row in rows})
    values = np.full((len(ys), len(xs)), np.nan)
    for row in rows:
        values[ys.index(row.keys[1]), xs.index(row.keys[0])] = row.last
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="viridis")
    axes.figure.colorbar(image, ax=axes, label=label).outline.set_visible(False)
    axes.set_xticks(range(len(xs)), [f"{x:g}" for x in xs])
    axes.set_yticks(range(len(ys)), [f"{y:g}" for y in ys])
    axes.set_xlabel(short(keys[0]))
    axes.set_ylabel(short(keys[1]))
    axes.spines[:].set_visible(False)
    _write_cells(axes, values, cell)
    return image


def _write_cells(axes: Any, values: np.ndarray, cell: str) -> None:
    low, high = np.nanmin(values), np.nanmax(values)
    size = 9 if values.shape[1] <= 6 else 7
    for (y, x), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        dark = (value - low) < 0.6 * (high - low)
        color = "white" if dark and high > low else "black"
        axes.text(x, y, f"{value:{cell}}", ha="center", va="center", color=color, fontsize=size)


def is_grid(keys: list[str], rows: list[Row]) -> bool:
    """True if exactly two numeric settings differ and each has at least two values."""
    if len(keys) != 2:
        return False
    numeric = all(
        isinstance(value, int | float) and not isinstance(value, bool)
        for row in rows
        for value in row.keys
    )
    return numeric and all(len({row.keys[axis] for row in rows}) > 1 for axis in (0, 1))


def _set_title(axes: Any, title: str, note: str) -> None:
    axes.set_title(title, fontsize=10, pad=18 if note else None)
    if note:
        axes.annotate(note, (0.5, 1), (0, 5), "axes fraction", "offset points", ha="center",
                      fontsize=8, color="0.35")  # fmt: skip


def thousands(value: float, _: int | None = None) -> str:
    """20000 -> ``20k``, 1000000 -> ``1M``."""
    for size, suffix in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"
