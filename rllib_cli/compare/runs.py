"""Compares two runs: their settings, and their results pair by pair on equal seeds."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rllib_cli.errors import UserError
from rllib_cli.report.contents import DIGEST
from rllib_cli.results import reading, statistics
from rllib_cli.results.reading import TrialResult
from rllib_cli.results.statistics import PairedDifference
from rllib_cli.run.progress import number
from rllib_cli.screen import plain_console

# Where and when, not what: they differ between any two runs.
_NO_SETTINGS = ("seed",)


@dataclass(frozen=True)
class Comparison:
    """The results of two runs on one environment.

    Attributes:
        environment: Its name.
        seeds: Those that both have.
        first: [S] the first run's final values, in the order of the seeds.
        second: [S] the second run's.
        difference: Second minus first; None with fewer than two pairs.
        equal_weights: How many pairs ended with the same weights, bit for bit.
    """

    environment: str
    seeds: list[Any]
    first: np.ndarray
    second: np.ndarray
    difference: PairedDifference | None
    equal_weights: int


def compare_command(first: str, second: str, metric: str | None) -> None:
    """Prints what differs."""
    from rich.table import Table

    runs = reading.load([first]), reading.load([second])
    metric = common_metric(runs, metric)
    rows = compare(*runs, metric)
    console = plain_console(sys.stdout)
    settings = differing_settings(*runs)
    if settings:
        table = Table("setting", "A", "B", box=None, pad_edge=False)
        for key, (a, b) in settings.items():
            table.add_row(key, a, b)
        console.print(table)
    else:
        console.print("The settings are equal.")
    console.print(
        f"\n{metric}, mean over the last tenth of each run, on equal seeds:", markup=False
    )
    titles = ("environment", "pairs", "A", "B", "B - A", "95 % interval", "p", "equal weights")
    table = Table(*titles, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)
    console.print(
        "p: of a difference as large by chance, from all ways to swap A and B within the pairs",
        style="dim",
    )


def _cells(row: Comparison) -> list[str]:
    difference = row.difference
    return [
        row.environment,
        str(len(row.seeds)),
        number(float(row.first.mean())),
        number(float(row.second.mean())),
        number(float((row.second - row.first).mean())),
        f"{number(difference.low)} to {number(difference.high)}" if difference else "",
        number(difference.p) if difference else "",
        f"{row.equal_weights} of {len(row.seeds)}",
    ]


def common_metric(runs: Iterable[list[TrialResult]], metric: str | None) -> str:
    """The metric that the user wants, or the first headline that all runs reported."""
    chosen = {reading.common_metric(trials, metric) for trials in runs}
    if len(chosen) > 1:
        raise UserError(
            f"The runs report different things ({', '.join(sorted(chosen))}); choose what to "
            "compare with --metric."
        )
    return chosen.pop()


def differing_settings(
    first: list[TrialResult], second: list[TrialResult]
) -> dict[str, tuple[str, str]]:
    """setting -> its values in either run, for those that are not the same in both."""
    keys = dict.fromkeys(["run", *(k for trial in (*first, *second) for k in trial.params)])
    found = {}
    for key in keys:
        values = _values(first, key), _values(second, key)
        if key not in _NO_SETTINGS and values[0] != values[1]:
            found[key] = values
    return found


def _values(trials: list[TrialResult], key: str) -> str:
    settings = ({"run": trial.run, **trial.params} for trial in trials)
    return ", ".join(sorted({str(s[key]) if key in s else "(not set)" for s in settings}))


def compare(first: list[TrialResult], second: list[TrialResult], metric: str) -> list[Comparison]:
    """Pairs the trials of two runs by environment and seed.

    Raises:
        UserError: If a run holds several settings, or no seed is in both.
    """
    pairs = _by_seed(first, metric, "A"), _by_seed(second, metric, "B")
    rows = []
    for environment in dict.fromkeys(env for env, _ in pairs[0]):
        seeds = [s for env, s in pairs[0] if env == environment and (env, s) in pairs[1]]
        if not seeds:
            continue
        trials = [[part[environment, seed] for seed in seeds] for part in pairs]
        a, b = (np.array([_final(trial, metric) for trial in part]) for part in trials)
        digests = [[trial.reports[-1].get(DIGEST) for trial in part] for part in trials]
        equal = sum(x is not None and x == y for x, y in zip(*digests, strict=True))
        rows.append(Comparison(environment, seeds, a, b, statistics.paired_difference(a, b), equal))
    if not rows:
        raise UserError(
            "The runs have no seed on the same environment in common, so nothing can be compared "
            "pair by pair. 'rllib plot A B' shows both."
        )
    return rows


def _by_seed(
    trials: list[TrialResult], metric: str, name: str
) -> dict[tuple[str, Any], TrialResult]:
    measured = [trial for trial in trials if len(trial.curve(metric)[0])]
    found: dict[tuple[str, Any], TrialResult] = {}
    for trial in measured:
        key = str(trial.params.get("env", "")), trial.params.get("seed")
        if key in found:
            differing = ", ".join(k for k in reading.differing_keys(trials) if k != "env")
            raise UserError(
                f"{name} holds several runs with seed {key[1]}"
                + (f" that differ in {differing}" if differing else "")
                + "; give the folder of one setting, or of single trials."
            )
        found[key] = trial
    return found


def _final(trial: TrialResult, metric: str) -> float:
    return statistics.final_mean(*trial.curve(metric))
