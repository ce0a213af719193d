"""The pictures (imports matplotlib): learning curves and heat maps that a paper would accept."""

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from rllib_cli.plot.plots import Row, short
from rllib_cli.results import statistics

# matplotlib types the keys as literals, hence Any.
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


Curves = dict[str, list[tuple[np.ndarray, np.ndarray]]]
"""Label -> ``(steps, values)`` of each seed."""
LEVEL = {"color": "black", "linestyle": "--", "lw": 1}
_LEVEL_DASHES = ("--", ":", "-.")
# A level line that is further from the curves, in their heights, would squeeze them.
_LEVEL_REACH = 2
BAND = "line and band: mean and standard error over seeds"
_PANELS_IN_A_ROW = 5
# Runs that differ more in length than this are shown on a logarithmic axis.
_LOG_RATIO = 5


def learning_curves(
    curves: Curves,
    y_label: str,
    x_label: str,
    title: str = "",
    note: str = "",
) -> Figure:
    """Mean over seeds as a line, mean +- one standard error as a band.

    Args:
        curves: What to draw.
        y_label: Name of the metric.
        x_label: What the steps count.
        title: Above the axes.
        note: Said in small letters below the title, such as what was left out.
    """
    with plt.rc_context(STYLE):
        outside = len(curves) > 6
        figure, axes = plt.subplots(figsize=(7.6 if outside else 6, 4))
        lines = _line_styles(curves)
        for label, runs in curves.items():
            mean_with_band(axes, runs, label=f"{label} (n = {len(runs)})", **lines[label])
        _scale_steps(axes, curves)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        several = any(len(runs) > 1 for runs in curves.values())
        _set_title(axes, title, "; ".join(filter(None, (note, BAND * several))))
        if outside:
            axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)
        else:
            axes.legend(loc="best", fontsize=9)
    plt.close(figure)
    return figure


def curve_panels(
    panels: Mapping[str, Curves],
    y_label: str,
    x_label: str,
    note: str = "",
    lines: Mapping[str, dict[str, Any]] | None = None,
    levels: Mapping[str, Mapping[str, float]] | None = None,
) -> Figure:
    """Learning curves of several tasks: a panel each, and one legend.

    Args:
        panels: Title of a panel -> its curves.
        y_label: Name of the metric.
        x_label: What the steps count.
        note: Said in small letters above the legend, such as what was left out.
        lines: Label -> how to draw the line: ``color``, ``linestyle`` ...
        levels: Label -> title of a panel -> the height of a dashed line there. One that is far
            from the curves is only named, with its height, where it would be.
    """
    labels = dict.fromkeys(label for curves in panels.values() for label in curves)
    lines, levels = lines or _line_styles(labels), levels or {}
    level_styles = {
        label: LEVEL | {"linestyle": dash}
        for label, dash in zip(levels, itertools.cycle(_LEVEL_DASHES), strict=False)
    }
    with plt.rc_context(STYLE):
        figure, all_axes = row_of_panels(len(panels))
        for axes, (title, curves) in zip(all_axes, panels.items(), strict=True):
            for label in (label for label in labels if label in curves):
                mean_with_band(axes, curves[label], **lines[label])
            heights = {label: at[title] for label, at in levels.items() if title in at}
            _draw_levels(axes, heights, level_styles)
            _scale_steps(axes, curves)
            axes.set_title(f"{title} ({seeds(map(len, curves.values()))})", fontsize=10)
            axes.set_xlabel(x_label)
        for axes in all_axes[::_PANELS_IN_A_ROW]:
            axes.set_ylabel(y_label)
        several = any(len(runs) > 1 for curves in panels.values() for runs in curves.values())
        styles = {label: lines[label] for label in labels} | level_styles
        shared_legend(figure, styles, "; ".join(filter(None, (note, BAND * several))))
    plt.close(figure)
    return figure


def _draw_levels(
    axes: Any, heights: Mapping[str, float], styles: Mapping[str, dict[str, Any]]
) -> None:
    low, high = axes.get_ylim()
    reach = _LEVEL_REACH * (high - low)
    for label, height in heights.items():
        if low - reach <= height <= high + reach:
            axes.axhline(height, **styles[label])
    above = [f"\u2191 {label}: {y:,.0f}" for label, y in heights.items() if y > high + reach]
    below = [f"\u2193 {label}: {y:,.0f}" for label, y in heights.items() if y < low - reach]
    for words, y, anchor in ((above, 0.98, "top"), (below, 0.02, "bottom")):
        if words:
            place = {"xycoords": "axes fraction", "va": anchor}
            axes.annotate("\n".join(words), (0.02, y), fontsize=7, color="0.35", **place)


def heat_map_panels(panels: Mapping[str, list[Row]], keys: list[str], label: str) -> Figure:
    """Heat maps over the same two settings, a panel for each task."""
    with plt.rc_context({**STYLE, "axes.grid": False}):
        figure, all_axes = row_of_panels(len(panels))
        for axes, (title, rows) in zip(all_axes, panels.items(), strict=True):
            heat_map_on(axes, rows, keys, label)
            axes.set_title(f"{title} ({seeds(row.seeds for row in rows)})", fontsize=10)
    plt.close(figure)
    return figure


def row_of_panels(count: int) -> tuple[Figure, list[Any]]:
    """A figure with so many axes, in a row; many of them in several rows."""
    columns = min(count, _PANELS_IN_A_ROW)
    rows = math.ceil(count / columns)
    size = (max(5.0, 3.3 * columns), 3.3 * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False)
    for axes in grid.flat[count:]:
        axes.remove()
    return figure, list(grid.flat[:count])


def shared_legend(figure: Figure, styles: Mapping[str, dict[str, Any]], note: str) -> None:
    """One legend above all panels, with a note in small letters over it."""
    handles = [plt.Line2D([], [], label=label, **style) for label, style in styles.items()]
    columns = max(3, round(figure.get_figwidth() / 2))
    legend = figure.legend(
        handles=handles,
        title=note or None,
        title_fontsize=8,
        loc="outside upper center",
        ncols=min(len(handles), columns),
        fontsize=9,
    )
    legend.get_title().set_color("0.35")


def seeds(counts: Iterable[int]) -> str:
    """``3 seeds``, ``1 to 5 seeds``."""
    known = sorted(set(counts))
    text = f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"
    return f"{text} seed{'s' * (known[-1] != 1)}"


def _line_styles(labels: Iterable[str]) -> dict[str, dict[str, Any]]:
    labels = list(labels)
    palette = plt.get_cmap("tab10" if len(labels) <= 10 else "tab20")
    colors = [palette(k) for k in range(palette.N)]
    return {label: {"color": colors[k % len(colors)]} for k, label in enumerate(labels)}


def _scale_steps(axes: Any, curves: Curves) -> None:
    ends = [max(steps[-1] for steps, _ in runs) for runs in curves.values()]
    if max(ends) > _LOG_RATIO * min(ends) > 0:
        axes.set_xscale("log")
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(thousands))


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
        _set_title(axes, title, f"mean of {seeds(row.seeds for row in rows)} per cell")
    plt.close(figure)
    return figure


def heat_map_on(
    axes: Any,
    rows: list[Row],
    keys: list[str],
    label: str,
    cell: str = ".3g",
    every_seed: bool = False,
) -> Any:
    """Draws a heat map into given axes, with its colour bar; cell (x, y) is at their ranks.

    With ``every_seed`` the seeds' final values stand under a cell's mean.
    """
    xs = sorted({row.keys[0] for row in rows})
    ys = sorted({row.keys[1] for row in rows})
    values = np.full((len(ys), len(xs)), np.nan)
    notes = {}
    for row in rows:
        place = ys.index(row.keys[1]), xs.index(row.keys[0])
        values[place] = row.last
        notes[place] = "  ".join(f"{final:.0f}" for final in row.finals) if every_seed else ""
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="viridis")
    axes.figure.colorbar(image, ax=axes, label=label).outline.set_visible(False)
    axes.set_xticks(range(len(xs)), [f"{x:g}" for x in xs])
    axes.set_yticks(range(len(ys)), [f"{y:g}" for y in ys])
    axes.set_xlabel(short(keys[0]))
    axes.set_ylabel(short(keys[1]))
    axes.spines[:].set_visible(False)
    _write_cells(axes, values, cell, notes)
    return image


def _write_cells(
    axes: Any, values: np.ndarray, cell: str, notes: Mapping[tuple[int, int], str]
) -> None:
    low, high = np.nanmin(values), np.nanmax(values)
    size = 9 if values.shape[1] <= 6 else 7
    for (y, x), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        dark = (value - low) < 0.6 * (high - low)
        color = "white" if dark and high > low else "black"
        centred = {"ha": "center", "va": "center", "color": color}
        axes.text(x, y, f"{value:{cell}}", fontsize=size, **centred)
        if note := notes[y, x]:
            below = {"xytext": (0, -10), "textcoords": "offset points"}
            axes.annotate(note, (x, y), fontsize=6, **below, **centred)


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
