"""Figure 1: the two-circle MDP, learned and exact."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from paper.entries import entries, pick
from paper.pictures.settings import setting_rows
from paper.pictures.style import LINES, NAMES, runs_of
from paper.variants import PAPER
from rllib_cli.plot import drawing
from rllib_geoffpac.maths.finite_mdp import FiniteMDP


def two_circle_curves(curves: pd.DataFrame) -> Figure | None:
    """Figure 1(b): pi(A -> B) during training."""
    part = curves[curves["experiment"].isin(["two-circle-geoffpac", "two-circle-ace"])]
    if part.empty:
        return None
    with plt.rc_context(drawing.STYLE):
        figure, axes = plt.subplots(figsize=(5, 3.6))
        for entry in entries(part):
            label = f"{NAMES[entry.algo]} (n = {len(entry.runs)})"
            runs = runs_of(entry, "pi_outer")
            drawing.mean_with_band(axes, runs, label=label, **LINES[entry.algo, PAPER])
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
    rows = setting_rows(entries(part), keys, lambda run: pick(run["pi_outer"], "last"))
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
