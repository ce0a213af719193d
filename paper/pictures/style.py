"""Names, colours and labels that all pictures share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from paper.entries import Entry
from paper.variants import PAPER, ROBUST
from rllib_cli.plot import drawing

NAMES = {"GeoffPAC": "Geoff-PAC", "ACE": "ACE", "OffPAC": "Off-PAC", "DDPG": "DDPG", "TD3": "TD3"}
# Okabe and Ito's colours, which people with any colour vision tell apart. ACE with the paper's
# lambda_1 = 0 is Off-PAC: dashes let both be seen.
LINES: dict[tuple[str, str], dict[str, Any]] = {
    ("GeoffPAC", PAPER): {"color": "#D55E00"},
    ("GeoffPAC", ROBUST): {"color": "#56B4E9"},
    ("ACE", PAPER): {"color": "#0072B2"},
    ("OffPAC", PAPER): {"color": "#009E73", "linestyle": (0, (4, 3))},
    ("DDPG", PAPER): {"color": "#CC79A7"},
    ("TD3", PAPER): {"color": "#E69F00"},
}
"""(Algorithm, variant's name for readers) -> how its curve is drawn."""
METRICS = {
    "j_pi": r"$J_\pi$",
    "return": "episode return",
    "rho_clipped_mean": r"overlap $\mathrm{E}_\mu[\min(\rho, 2)]$",
}


def line_name(algo: str, variant: str) -> str:
    """What a legend calls an algorithm's variant."""
    return NAMES[algo] if variant == PAPER else f"{NAMES[algo]}, {variant}"


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


def seeds(part: Iterable[Entry]) -> str:
    """How many seeds the entries have, such as ``3 to 5 seeds``."""
    return drawing.seeds(len(entry.runs) for entry in part)
