"""The paper's figures from the curves, in the style of ``rllib plot``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import report
from collect import variant_settings
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from report import Entry

from rllib_cli.plot import drawing, statistics
from rllib_cli.plot.plots import FINAL_SHARE, Row, short
from rllib_geoffpac.maths.finite_mdp import FiniteMDP

TASKS = report.TASKS[:5]
NAMES = {"GeoffPAC": "Geoff-PAC", "ACE": "ACE", "OffPAC": "Off-PAC", "DDPG": "DDPG", "TD3": "TD3"}
# Okabe and Ito's colours, which people with any colour vision tell apart. ACE with the paper's
# lambda_1 = 0 is Off-PAC: dashes let both be seen.
LINES = {
    "GeoffPAC": {"color": "#D55E00"},
    "ACE": {"color": "#0072B2"},
    "OffPAC": {"color": "#009E73", "linestyle": (0, (4, 3))},
    "DDPG": {"color": "#CC79A7"},
    "TD3": {"color": "#E69F00"},
}
METRICS = {"j_pi": r"$J_\pi$", "return": "episode return"}
GRIDS = {
    "lambda_1": "halfcheetah-grid-ace-lambda1",
    "gamma_hat": "halfcheetah-grid-gamma-hat",
    "lambdas": "halfcheetah-grid-lambdas",
}


def draw_all(curves: pd.DataFrame, folder: Path) -> list[Path]:
    """Draws every figure that has data into ``folder/figures``; returns the files."""
    random = pd.read_csv(folder / "random_agent.csv").set_index("task")
    emphatic, deterministic = ("GeoffPAC", "ACE", "OffPAC"), ("DDPG", "TD3", "GeoffPAC")
    found = report.entries(curves)
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
    (folder / "figures").mkdir(exist_ok=True)
    drawn = []
    for name, draw in figures.items():
        figure = draw()
        if figure is not None:
            drawn.append(folder / "figures" / f"{name}.png")
            figure.savefig(drawn[-1], dpi=150)
            plt.close(figure)
    return drawn


def runs_of(entry: Entry, metric: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """``(steps, values)`` of each seed; a diverged run keeps its last value to the end."""
    end, runs = max(entry.steps), []
    for run in entry.runs:
        points = run.dropna(subset=[metric])
        steps, values = points["env_steps"].to_numpy(float), points[metric].to_numpy(float)
        if run["diverged"].iloc[-1] and steps[-1] < end:
            steps, values = np.append(steps, end), np.append(values, values[-1])
        runs.append((steps, values))
    return runs


def comparison(
    found: list[Entry], algos: tuple[str, ...], metric: str, random: pd.DataFrame
) -> Figure | None:
    """Figures 2 to 5: one panel per task, one curve per algorithm with the paper's settings."""
    paper = report.paper_entries(found)
    panels = {t: {a: paper[t, a] for a in algos if (t, a) in paper} for t in TASKS}
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


def two_circle_curves(curves: pd.DataFrame) -> Figure | None:
    """Figure 1(b): pi(A -> B) during training."""
    part = curves[curves["experiment"].isin(["two-circle-geoffpac", "two-circle-ace"])]
    if part.empty:
        return None
    with plt.rc_context(drawing.STYLE):
        figure, axes = plt.subplots(figsize=(5, 3.6))
        for entry in report.entries(part):
            label = f"{NAMES[entry.algo]} (n = {len(entry.runs)})"
            runs = runs_of(entry, "pi_outer")
            drawing.mean_with_band(axes, runs, label=label, **LINES[entry.algo])
        axes.set_ylim(-0.02, 1.02)
        axes.set_xlabel("environment steps")
        axes.set_ylabel(r"$\pi(\mathtt{A} \rightarrow \mathtt{B})$")
        axes.xaxis.set_major_formatter(FuncFormatter(drawing.thousands))
        axes.set_title(drawing.BAND, fontsize=8, color="0.35")
        axes.legend(loc="center right", fontsize=9)
    return figure


def two_circle_heat_map(curves: pd.DataFrame) -> Figure | None:
    """Figure 1(c): final pi(A -> B) over gamma_hat and lambda_2, with the exact threshold."""
    part = curves[curves["experiment"] == "two-circle-gamma-hat-lambda2"]
    keys = ["gamma_hat", "lambda_2"]
    rows = grid_rows(report.entries(part), keys, lambda run: report.pick(run["pi_outer"], "last"))
    if not rows or not drawing.is_grid(keys, rows):
        return None
    label = r"final $\pi(\mathtt{A} \rightarrow \mathtt{B})$"
    figure = drawing.heat_map(rows, keys, label, cell=".2f")
    axes = figure.axes[0]
    axes.images[0].set_clim(0, 1)
    limits = axes.get_xlim(), axes.get_ylim()
    gamma_hats, lambdas = (sorted({row.keys[axis] for row in rows}) for axis in (0, 1))
    line = threshold_line(np.linspace(lambdas[0], lambdas[-1], 41))
    # Cells sit at their ranks, and both grids are even.
    xs = (line[:, 0] - gamma_hats[0]) / (gamma_hats[1] - gamma_hats[0])
    ys = (line[:, 1] - lambdas[0]) / (lambdas[1] - lambdas[0])
    axes.plot(
        xs, ys, color="#D55E00", lw=2, label="exact threshold: the expected update changes its sign"
    )
    axes.set(xlim=limits[0], ylim=limits[1])
    with plt.rc_context(drawing.STYLE):
        figure.legend(loc="outside lower center", fontsize=9)
    return figure


def threshold_line(lambdas: np.ndarray) -> np.ndarray:
    """Points (gamma_hat, lambda_2) [N, 2] at which the exact expected update changes its sign.

    With lambda_1 = 1; values of lambda_2 without a sign change below gamma_hat = 1 are left out.
    """
    mdp = FiniteMDP.two_circle()
    found = [
        (mdp.gamma_hat_threshold(mdp.behavior, 0, 0, lambda_1=1.0, lambda_2=float(x)), x)
        for x in lambdas
    ]
    return np.array([point for point in found if point[0] is not None])


def grid_rows(
    found: list[Entry], keys: list[str], value: Callable[[pd.DataFrame], float]
) -> list[Row]:
    """One row of a heat map per entry: the mean over seeds of a run's final value."""
    rows = []
    for entry in found:
        settings = variant_settings(entry.algo, entry.variant)
        finals = np.array([value(run) for run in entry.runs])
        mean, error = statistics.mean_and_error(finals[:, None])
        rows.append(
            Row(
                label=entry.variant,
                keys=tuple(settings[key] for key in keys),
                last=float(mean[0]),
                last_error=float(error[0]),
                best=float(finals.max()),
                finals=tuple(finals),
                hours=entry.hours,
                iqm=None,
            )
        )
    return rows


def final_j_pi(run: pd.DataFrame) -> float:
    """The mean J_pi over the last tenth of a run, as ``rllib plot`` has it."""
    steps = run["env_steps"]
    return float(run["j_pi"][steps >= steps.iloc[-1] * (1 - FINAL_SHARE)].mean())


def grids(curves: pd.DataFrame, random: pd.DataFrame) -> Figure | None:
    """Figure 6: ACE's lambda_1, Geoff-PAC's gamma_hat, and its lambda_1 x lambda_2."""
    parts = {
        key: report.entries(curves[curves["experiment"] == name]) for key, name in GRIDS.items()
    }
    parts = {key: part for key, part in parts.items() if part}
    if not parts:
        return None
    with plt.rc_context(drawing.STYLE):
        figure, row = drawing.row_of_panels(len(parts))
        for axes, letter, (key, part) in zip(row, "abc", parts.items(), strict=False):
            steps = drawing.thousands(max(max(entry.steps) for entry in part))
            title = f"({letter}) {NAMES[part[0].algo]}, {steps} steps, {_seeds(part)}"
            axes.set_title(title, fontsize=10)
            if key == "lambdas":
                axes.grid(False)
                keys = ["lambda_1", "lambda_2"]
                rows = grid_rows(part, keys, final_j_pi)
                label = f"final {METRICS['j_pi']}"
                drawing.heat_map_on(axes, rows, keys, label, every_seed=True)
            else:
                _grid_of_one(axes, part, key, random.loc[part[0].task, "j_pi"])
    return figure


def _grid_of_one(axes: Any, part: list[Entry], key: str, chance: float) -> None:
    """Final J_pi over one setting: the mean with its standard error, and every seed."""
    color = LINES[part[0].algo]["color"]
    rows = sorted(grid_rows(part, [key], final_j_pi), key=lambda found: found.keys)
    for found in rows:
        places = found.keys * found.seeds
        axes.plot(places, found.finals, "o", color=color, alpha=0.35, ms=4, mew=0)
    axes.errorbar(
        [found.keys[0] for found in rows],
        [found.last for found in rows],
        [found.last_error for found in rows],
        marker="o",
        capsize=3,
        color=color,
    )
    axes.axhline(chance, **drawing.LEVEL, label="random agent")
    axes.legend(fontsize=8)
    axes.set_xlabel(short(key))
    axes.set_ylabel(f"final {METRICS['j_pi']}: mean, s.e., every seed")


def variants(found: list[Entry], random: pd.DataFrame) -> Figure | None:
    """Last J_pi of every variant: interquartile mean with its 95 % interval, task by task."""
    part = [e for e in report.variant_entries(found) if e.task in TASKS]
    names = list(dict.fromkeys((e.algo, e.variant) for e in sorted(part, key=_variant_order)))
    tasks = [t for t in TASKS if any(e.task == t and e.variant != "paper" for e in part)]
    if not tasks:
        return None
    with plt.rc_context(drawing.STYLE):
        size = (3.2 + 2.5 * len(tasks), 1.2 + 0.3 * len(names))
        figure, row = plt.subplots(1, len(tasks), figsize=size, sharey=True, squeeze=False)
        for axes, task in zip(row[0], tasks, strict=True):
            for entry in (e for e in part if e.task == task):
                rank = names.index((entry.algo, entry.variant))
                _interval_bar(axes, entry, len(names) - 1 - rank)
            axes.axvline(random.loc[task, "j_pi"], **drawing.LEVEL)
            seeds = _seeds(e for e in part if e.task == task)
            axes.set_title(f"{task} ({seeds})", fontsize=10)
            axes.set_xlabel(f"last {METRICS['j_pi']}")
        labels = [f"{NAMES[algo]}: {_pretty(variant)}" for algo, variant in names]
        row[0][0].set_yticks(range(len(names))[::-1], labels, fontsize=8)
        styles = {NAMES[algo]: LINES[algo] for algo in ("GeoffPAC", "ACE")}
        styles["random agent"] = drawing.LEVEL
        note = "interquartile mean and 95 % interval over seeds"
        drawing.shared_legend(figure, styles, note)
    return figure


def _seeds(part: Iterable[Entry]) -> str:
    return drawing.seeds(len(entry.runs) for entry in part)


def _variant_order(entry: Entry) -> tuple:
    parts = 0 if entry.variant == "paper" else len(entry.variant.split(", "))
    return entry.algo != "GeoffPAC", parts, entry.variant


def _interval_bar(axes: Any, entry: Entry, y: int) -> None:
    iqm, low, high = entry.interval("j_pi", "last")
    color = LINES[entry.algo]["color"]
    axes.plot([low, high], [y, y], color=color, lw=2)
    axes.plot(iqm, y, "o", color=color, ms=5)


def _pretty(variant: str) -> str:
    return (
        variant.replace("value_baseline=ema", "baseline")
        .replace("overlap_coeff=", "overlap ")
        .replace("truncated_gaussian", "truncated")
    )
