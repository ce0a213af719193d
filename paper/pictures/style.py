"""Names, colours and labels that all pictures share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from paper.entries import Entry
from paper.variants import variant_settings
from rllib_cli.plot import drawing, statistics
from rllib_cli.plot.plots import Row

NAMES = {"GeoffPAC": "Geoff-PAC", "ACE": "ACE", "OffPAC": "Off-PAC", "DDPG": "DDPG", "TD3": "TD3"}
# Okabe and Ito's colours, which people with any colour vision tell apart. ACE with the paper's
# lambda_1 = 0 is Off-PAC: dashes let both be seen.
LINES: dict[str, dict[str, Any]] = {
    "GeoffPAC": {"color": "#D55E00"},
    "ACE": {"color": "#0072B2"},
    "OffPAC": {"color": "#009E73", "linestyle": (0, (4, 3))},
    "DDPG": {"color": "#CC79A7"},
    "TD3": {"color": "#E69F00"},
}
METRICS = {"j_pi": r"$J_\pi$", "return": "episode return"}


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


def grid_rows(
    found: list[Entry], keys: list[str], value: Callable[[pd.DataFrame], float]
) -> list[Row]:
    """One row of a heat map per entry: the mean over seeds of a run's final value."""
    rows = []
    for entry in found:
        settings = variant_settings(entry.algo, entry.variant)
        finals = [value(run) for run in entry.runs]
        rows.append(
            Row.of(
                finals,
                label=entry.variant,
                keys=tuple(settings[key] for key in keys),
                best=max(finals),
                hours=entry.hours,
            )
        )
    return rows


def final_j_pi(run: pd.DataFrame) -> float:
    """The mean J_pi over the last tenth of a run, as ``rllib plot`` has it."""
    run = run.dropna(subset=["j_pi"])
    return statistics.final_mean(run["env_steps"].to_numpy(), run["j_pi"].to_numpy())


def seeds(part: Iterable[Entry]) -> str:
    """How many seeds the entries have, such as ``3 to 5 seeds``."""
    return drawing.seeds(len(entry.runs) for entry in part)
