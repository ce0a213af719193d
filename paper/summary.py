"""summary.csv: one row per algorithm, task, variant and step budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from paper.entries import Entry

SUMMARY_COLUMNS = [
    "algo",
    "task",
    "variant",
    "seeds",
    "steps",
    "j_pi_iqm",
    "j_pi_low",
    "j_pi_high",
    "return_iqm",
    "return_low",
    "return_high",
    "diverged",
    "hours",
    "command",
]


def summary(found: list[Entry], commands: dict[str, str]) -> pd.DataFrame:
    """One row per entry: the last evaluation, over seeds.

    ``steps`` is the smallest number of steps of a seed that didn't diverge.
    """
    return pd.DataFrame(
        [_summary_row(entry, commands[entry.experiment]) for entry in found],
        columns=SUMMARY_COLUMNS,
    )


def _summary_row(entry: Entry, command: str) -> dict[str, Any]:
    row = {
        "algo": entry.algo,
        "task": entry.task,
        "variant": entry.shown,
        "seeds": len(entry.runs),
        "steps": entry.finished_steps[0],
        "diverged": entry.diverged,
        "hours": round(entry.hours, 3),
        "command": command,
    }
    for name in ("j_pi", "return"):
        for field, value in entry.interval(name, "last")._asdict().items():
            row[f"{name}_{field}"] = float(f"{value:.4g}")
    return row


def write(found: list[Entry], commands: dict[str, str], path: Path) -> None:
    """Writes the summary as a CSV file."""
    summary(found, commands).to_csv(path, index=False)
