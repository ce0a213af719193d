"""The seeds of one algorithm, task, variant and budget, and what they sum up to."""

from __future__ import annotations

import functools
import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd

from paper import variants
from paper.variants import PAPER
from rllib_cli.results import statistics
from rllib_cli.results.statistics import Interval

MEASURED_TASKS = ["HalfCheetah-v5", "Walker2d-v5", "Hopper-v5", "Reacher-v5", "Swimmer-v5"]
TASKS = [*MEASURED_TASKS, "TwoCircle-v0"]
ALGOS = ["GeoffPAC", "ACE", "OffPAC", "DDPG", "TD3"]
_GROUP = ["algo", "task", "variant", "budget"]
GRID_KEYS = ("gamma_hat", "lambda_1", "lambda_2")
"""What the paper's grids vary (Figure 6)."""
# A run that is not half as far as the furthest of its group is still going on, or was cut off.
_COUNTED_SHARE = 0.5


class Entry(NamedTuple):
    """All seeds of one algorithm, task, variant and step budget."""

    algo: str
    task: str
    variant: str
    budget: int
    experiment: str
    runs: list[pd.DataFrame]
    unfinished: int

    def interval(self, metric: str, which: str) -> Interval:
        """The ``last`` or ``best`` evaluation of each seed, summarised."""
        return interval(tuple(pick(run[metric], which) for run in self.runs))

    @property
    def shown(self) -> str:
        """The variant's name for readers."""
        return variants.shown(self.algo, self.variant, self.budget)

    @property
    def steps(self) -> list[int]:
        """The last evaluation's step of each seed."""
        return [int(run["env_steps"].iloc[-1]) for run in self.runs]

    @property
    def diverged(self) -> int:
        """How many runs ended with parameters that are not finite."""
        return sum(int(run["diverged"].iloc[-1]) for run in self.runs)

    @property
    def hours(self) -> float:
        """How long all seeds together trained."""
        return sum(float(run["hours"].iloc[-1]) for run in self.runs)

    @property
    def finished_steps(self) -> tuple[int, int]:
        """The fewest and the most steps of a seed that didn't diverge (of all, if all did)."""
        going = [run for run in self.runs if not run["diverged"].iloc[-1]]
        steps = [int(run["env_steps"].iloc[-1]) for run in going] or self.steps
        return min(steps), max(steps)

    def worse(self, random: pd.DataFrame) -> int | str:
        """How many seeds end below the random agent; nothing where that was not measured."""
        if self.task not in random.index:
            return ""
        chance = random.loc[self.task, "j_pi"]
        return int(sum(pick(run["j_pi"], "last") < chance for run in self.runs))

    def until(self, step: int) -> Entry:
        """The same runs, as if they had ended at this step."""
        return self._replace(runs=[run[run["env_steps"] <= step] for run in self.runs])


def pick(values: pd.Series, which: str) -> float:
    """The last or the best evaluation that gave a number."""
    values = values.dropna()
    if values.empty:
        return float("nan")
    return float(values.iloc[-1] if which == "last" else values.max())


@functools.cache
def interval(values: tuple[float, ...]) -> Interval:
    """Interquartile mean and interval; below 3 seeds the plain mean, and nan as its interval."""
    numbers = np.array([value for value in values if np.isfinite(value)])
    if len(numbers) == 0:
        return Interval(np.nan, np.nan, np.nan)
    found = statistics.interquartile_mean(numbers)
    return found or Interval(float(numbers.mean()), np.nan, np.nan)


def entries(curves: pd.DataFrame) -> list[Entry]:
    """Groups the curves by algorithm, task, variant and budget, in the order of the tables.

    Two experiments may hold the same run, such as the paper's settings among the variants. The
    same seed gives the same numbers, so the one that went further counts, once.
    """
    found = []
    for (algo, task, variant, budget), group in curves.groupby(_GROUP, sort=False):
        experiments = group.groupby("experiment")["seed"].nunique()
        experiment = experiments.sort_values(ascending=False, kind="stable").index[0]
        runs = []
        for _, same_seed in group.groupby("seed"):
            copies = [copy for _, copy in same_seed.groupby("experiment")]
            copies.sort(key=lambda copy: copy["experiment"].iloc[0] != experiment)
            _check_copies(copies)
            runs.append(max(copies, key=lambda copy: copy["env_steps"].iloc[-1]))
        furthest = max(run["env_steps"].iloc[-1] for run in runs)
        counted = [run for run in runs if _counts(run, furthest)]
        unfinished = len(runs) - len(counted)
        found.append(Entry(algo, task, variant, budget, experiment, counted, unfinished))
    return sorted(found, key=_order)


def _check_copies(copies: list[pd.DataFrame]) -> None:
    own = copies[0].set_index("env_steps")["j_pi"]
    for copy in copies[1:]:
        other = copy.set_index("env_steps")["j_pi"]
        steps = own.index.intersection(other.index)
        if not own[steps].equals(other[steps]):
            names = " and ".join(c["experiment"].iloc[0] for c in (copies[0], copy))
            what = f"{copy['variant'].iloc[0]!r}, seed {copy['seed'].iloc[0]}"
            warnings.warn(
                f"{names} should hold the same run ({what}) and differ: were they made by the "
                "same version? The longer one counts.",
                stacklevel=2,
            )


def _counts(run: pd.DataFrame, furthest: int) -> bool:
    # A diverged run ends early and always counts.
    last = run.iloc[-1]
    return bool(last["diverged"]) or last["env_steps"] >= _COUNTED_SHARE * furthest


def _order(entry: Entry) -> tuple:
    def place(name: str, known: list[str]) -> int:
        return known.index(name) if name in known else len(known)

    return (
        place(entry.task, TASKS),
        place(entry.algo, ALGOS),
        -entry.budget,
        entry.variant != PAPER,
        entry.variant,
    )


def largest(found: list[Entry]) -> dict[tuple[str, str, str], Entry]:
    """(task, algorithm, variant's name for readers) -> its entry with the largest budget."""
    return {(e.task, e.algo, e.shown): e for e in sorted(found, key=lambda entry: entry.budget)}


def paper_entries(found: list[Entry]) -> dict[tuple[str, str], Entry]:
    """(task, algorithm) -> the paper's settings, at the largest budget that was run."""
    paper = [e for e in found if e.variant == PAPER and e.task != "TwoCircle-v0"]
    largest = {(e.task, e.algo): e for e in sorted(paper, key=lambda entry: entry.budget)}
    return {key: largest[key] for key in dict.fromkeys((e.task, e.algo) for e in paper)}


def variant_entries(found: list[Entry]) -> list[Entry]:
    """All variants of Geoff-PAC and ACE at the budget of their task; not Figure 6's grids.

    Of a variant that has a longer budget, too, the longest counts.
    """
    full = {key: entry.budget for key, entry in paper_entries(found).items()}
    longest = set(map(id, largest(found).values()))
    return [
        e
        for e in found
        if e.algo in ("GeoffPAC", "ACE")
        and id(e) in longest
        and e.budget >= full.get((e.task, e.algo), np.inf)
        and not any(key in e.shown for key in GRID_KEYS)
    ]
