"""How numbers stand in the tables."""

from __future__ import annotations

import numpy as np

from paper.entries import Entry
from rllib_cli.results.statistics import Interval


def cell(found: Interval) -> str:
    """An interval as the tables show it, such as ``-6.1 [-6.8, -5.7]``."""
    if np.isnan(found.iqm):
        return "-"
    if np.isnan(found.low):
        return number(found.iqm)
    return f"{number(found.iqm)} [{number(found.low)}, {number(found.high)}]"


def number(value: float) -> str:
    """Three digits, or all digits before the point if those are more."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"


def step_range(entry: Entry) -> str:
    """The steps that the seeds reached, such as ``1,000,000``."""
    low, high = entry.finished_steps
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
