"""Collects runs into small CSV files, and makes summary, tables and pictures from these.

    python paper/collect.py RUNS_FOLDER     reads the folders that Tune wrote, then all below
    python paper/collect.py                 summary.csv and tables.md from curves/*.csv, the
                                              README's tables and the tuned examples' headers
    python paper/collect.py --draw          also draws figures/*.png from them

Only the first form needs the run folders: whoever has this repository can do the others. Several
folders may be given, and a run that is still going on is collected up to its latest evaluation.
Committed runs that are in none of the folders stay: an experiment's seeds may come one by one.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from rllib_cli import folders
from rllib_cli.errors import UserError
from rllib_cli.experiment import parse as experiments
from rllib_cli.plot import results
from rllib_cli.plot.results import TrialResult
from rllib_cli.run.progress import STEPS

HERE = Path(__file__).parent
DATA = HERE / "data"
CURVES = DATA / "curves"
EXAMPLES = HERE.parent / "tuned_examples"

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
PAPER = "paper"
_EMPHATIC = {
    "value_baseline": None,
    "overlap_coeff": 0.0,
    "policy_distribution": "gaussian",
    "num_lanes": 10,
}
PAPER_SETTINGS: dict[str, dict[str, Any]] = {
    "GeoffPAC": {"gamma_hat": 0.2, "lambda_1": 0.7, "lambda_2": 0.6, **_EMPHATIC},
    "ACE": {"lambda_1": 0.0, **_EMPHATIC},
    "OffPAC": _EMPHATIC,
}
"""The settings that the experiments compare, at the paper's values."""


def variant_name(algo: str, params: dict[str, Any]) -> str:
    """How a run departs from the paper, such as ``value_baseline=ema, overlap_coeff=2``."""
    departures = [
        value if key == "policy_distribution" else f"{key}={_plain(value)}"
        for key, paper in PAPER_SETTINGS.get(algo, {}).items()
        if (value := params.get(key, paper)) != paper
    ]
    return ", ".join(departures) or PAPER


def variant_settings(algo: str, variant: str) -> dict[str, Any]:
    """The inverse of :func:`variant_name`: all compared settings of a run, numbers as floats."""
    settings = dict(PAPER_SETTINGS.get(algo, {}))
    for part in variant.split(", ") if variant != PAPER else ():
        key, _, value = part.rpartition("=")
        number = value.replace(".", "", 1).isdigit()
        settings[key or "policy_distribution"] = float(value) if number else value
    return settings


def _plain(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, float) else value


def curve(trial: TrialResult) -> list[dict[str, Any]]:
    """One row per evaluation of a trial (per report, if it was never evaluated).

    Its step budget is in the description that ``rllib train`` keeps beside the results.
    """
    budget = folders.read_spec(trial.path.parent)["stop"][STEPS]
    rows: dict[int, dict[str, Any]] = {}
    for report in trial.reports:
        # RLlib repeats the latest evaluation in every report until the next one.
        at = int(report.get(f"{_EVALUATION}evaluated_at_env_steps", report[STEPS]))
        diverged = int(bool(report.get("diverged")))
        if at in rows:
            rows[at]["diverged"] = diverged
            continue
        rows[at] = {
            "experiment": trial.experiment,
            "algo": trial.run,
            "task": trial.params["env"],
            "variant": variant_name(trial.run, trial.params),
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


def commands() -> dict[str, str]:
    """Experiment name -> the command that repeats it, from the experiment files."""
    return {
        experiment.name: f"rllib train file {path.relative_to(EXAMPLES.parent).as_posix()}"
        for path in sorted(EXAMPLES.glob("*/*.yaml"))
        for experiment in experiments.load(path)
    }


def collect(trials: list[TrialResult]) -> dict[str, pd.DataFrame]:
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
                "PAPER_SETTINGS in paper/collect.py."
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


def read_curves(folder: Path = CURVES) -> pd.DataFrame:
    """All committed curves as one table."""
    files = sorted(folder.glob("*.csv"))
    if not files:
        raise UserError(f"There are no curves in {folder}. Give a folder with runs to collect.")
    return _joined(pd.read_csv(path) for path in files)


def _joined(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    # Columns that are empty in a whole frame (no evaluation) would change the types.
    parts = [frame.dropna(axis=1, how="all") for frame in frames]
    return pd.concat(parts, ignore_index=True).reindex(columns=COLUMNS)


def write_curves(frames: dict[str, pd.DataFrame], folder: Path = CURVES) -> None:
    """Writes each experiment's curves to its file, which keeps the runs it had besides."""
    folder.mkdir(exist_ok=True)
    for name, frame in frames.items():
        path = folder / f"{name}.csv"
        merged = merge(pd.read_csv(path), frame) if path.exists() else frame
        merged.to_csv(path, index=False)


def _known(trials: list[TrialResult]) -> list[TrialResult]:
    """Leaves out what no experiment file defines: nobody could repeat it by a command."""
    known = commands()
    for name in sorted({trial.experiment for trial in trials} - set(known)):
        print(f"Left out: {name}, which no file in tuned_examples/ defines.")
    return [trial for trial in trials if trial.experiment in known]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", metavar="RUNS_FOLDER", help="folders that Tune wrote")
    parser.add_argument("--draw", action="store_true", help="draw the pictures")
    arguments = parser.parse_args()
    import publish
    import report

    try:
        if arguments.runs:
            write_curves(collect(_known(results.load(arguments.runs))))
        curves = read_curves()
        report.write(curves, commands(), DATA)
        for path in publish.publish(curves, report.random_agent(DATA)):
            print(path.relative_to(HERE.parent))
        if arguments.draw:
            import pictures

            for path in pictures.draw_all(curves, DATA):
                print(path.relative_to(HERE.parent))
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
