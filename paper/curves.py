"""The runs as small tables: one row per evaluation, one file per experiment.

Runs come one by one: a file keeps the committed runs that are not among those collected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from paper.places import CURVES
from paper.variants import variant_name
from rllib_cli.errors import UserError
from rllib_cli.results.reading import TrialResult, evaluated_at
from rllib_cli.run.progress import STEPS

COLUMNS = [
    "experiment",
    "algo",
    "task",
    "variant",
    "seed",
    "budget",
    "env_steps",
    "j_pi",
    "return",
    "pi_outer",
    "rho_clipped_mean",
    "policy_std",
    "diverged",
    "hours",
]
ORDER = ["variant", "seed", "env_steps"]
_EVALUATION = "evaluation/env_runners/"
_LEARNER = "learners/default_policy/"
_METRICS = {
    "j_pi": f"{_EVALUATION}j_pi",
    "return": f"{_EVALUATION}episode_return_mean",
    "pi_outer": "two_circle/pi_outer",
    "rho_clipped_mean": f"{_LEARNER}rho_clipped_mean",
    "policy_std": f"{_LEARNER}policy_std",
}
_DIGITS = 5


def curve(trial: TrialResult) -> list[dict[str, Any]]:
    """One row per evaluation of a trial (per report, if it was never evaluated).

    Its step budget is in the description that ``rllib train`` keeps beside the results.

    Raises:
        UserError: If that is missing.
    """
    if STEPS not in trial.stop:
        raise UserError(
            f"{trial.experiment}: its step budget is not known, because experiment.json beside its "
            f"trials is missing or has no stop key {STEPS}. Collect runs that 'rllib train' made."
        )
    budget = trial.stop[STEPS]
    rows: dict[int, dict[str, Any]] = {}
    for report in trial.reports:
        at = int(evaluated_at(report))
        diverged = int(bool(report.get("diverged")))
        if at in rows:
            rows[at]["diverged"] = diverged
            continue
        rows[at] = {
            "experiment": trial.experiment,
            "algo": trial.run,
            "task": trial.params["env"],
            "variant": variant_name(trial.run, trial.params, budget),
            "seed": trial.params["seed"],
            "budget": int(budget),
            "env_steps": at,
            **{name: _round(report.get(key)) for name, key in _METRICS.items()},
            "diverged": diverged,
            "hours": _round(report.get("time_total_s", 0.0) / 3600),
        }
    return list(rows.values())


def _round(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{_DIGITS}g}")


def of_trials(trials: list[TrialResult]) -> dict[str, pd.DataFrame]:
    """Experiment name -> the curves of its trials.

    Raises:
        UserError: If two trials of an experiment differ in something that `variant` doesn't say.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for trial in trials:
        rows.setdefault(trial.experiment, []).extend(curve(trial))
    frames = {name: pd.DataFrame(part, columns=COLUMNS) for name, part in rows.items()}
    for name, frame in frames.items():
        twice = frame[frame.duplicated(ORDER)]
        if len(twice):
            raise UserError(
                f"{name}: two trials are variant {twice.iloc[0]['variant']!r}, seed "
                f"{twice.iloc[0]['seed']}. Add the setting in which they differ to "
                "PAPER_SETTINGS in paper/variants.py."
            )
    return {name: frame.sort_values(ORDER) for name, frame in frames.items()}


def merge(committed: pd.DataFrame, collected: pd.DataFrame) -> pd.DataFrame:
    """The curves of an experiment, committed and collected ones.

    Of two runs of the same variant and seed the one that went further stays, or else the new one.
    """
    runs: dict[tuple, pd.DataFrame] = {}
    for frame in (committed, collected):
        for key, run in frame.groupby(["variant", "seed"]):
            if key not in runs or run["env_steps"].max() >= runs[key]["env_steps"].max():
                runs[key] = run
    return _joined(runs.values()).sort_values(ORDER)


def read(folder: Path = CURVES) -> pd.DataFrame:
    """All committed curves as one table."""
    files = sorted(folder.glob("*.csv"))
    if not files:
        raise UserError(f"There are no curves in {folder}. Give a folder with runs to collect.")
    return _joined(pd.read_csv(path) for path in files)


def _joined(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    # Columns that are empty in a whole frame (no evaluation) would change the types.
    parts = [frame.dropna(axis=1, how="all") for frame in frames]
    return pd.concat(parts, ignore_index=True).reindex(columns=COLUMNS)


def write(frames: dict[str, pd.DataFrame], folder: Path = CURVES) -> None:
    """Writes each experiment's curves to its file, which keeps the runs it had besides."""
    folder.mkdir(exist_ok=True)
    for name, frame in frames.items():
        path = folder / f"{name}.csv"
        merged = merge(pd.read_csv(path), frame) if path.exists() else frame
        merged.to_csv(path, index=False)
