"""From the curves to summary.csv and tables.md: last and best evaluation over seeds."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rllib_cli.errors import UserError
from rllib_cli.plot import statistics

TASKS = [
    "HalfCheetah-v5",
    "Walker2d-v5",
    "Hopper-v5",
    "Reacher-v5",
    "Swimmer-v5",
    "TwoCircle-v0",
]
ALGOS = ["GeoffPAC", "ACE", "OffPAC", "DDPG", "TD3"]
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
_GROUP = ["algo", "task", "variant", "budget"]
INTERVAL_SEEDS = 3
"""From so many seeds on there is an interquartile mean with an interval; below, the mean."""
# Force and policy -> the variants of Geoff-PAC and of ACE that have it. With the baseline nothing
# of V's constant part is left in Z2, so that Geoff-PAC has no other force than overlap_coeff's.
SAME_FORCE = {
    "none, gaussian": ("value_baseline=ema", "paper"),
    "none, truncated_gaussian": ("value_baseline=ema, truncated_gaussian", "truncated_gaussian"),
    "2, gaussian": ("value_baseline=ema, overlap_coeff=2", "overlap_coeff=2"),
    "2, truncated_gaussian": (
        "value_baseline=ema, overlap_coeff=2, truncated_gaussian",
        "overlap_coeff=2, truncated_gaussian",
    ),
}
GRID_KEYS = ("gamma_hat", "lambda_1", "lambda_2")
"""What the paper's grids vary (Figure 6)."""
# A run that is not half as far as the furthest of its group is still going on, or was cut off.
_COUNTED_SHARE = 0.5


class Interval(NamedTuple):
    """Interquartile mean over seeds with its 95 % bootstrap interval (nan below 3 seeds)."""

    iqm: float
    low: float
    high: float


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
    """Interquartile mean and interval through rliable; the plain mean below 3 seeds."""
    numbers = np.array([value for value in values if np.isfinite(value)])
    if len(numbers) == 0:
        return Interval(np.nan, np.nan, np.nan)
    if len(numbers) < INTERVAL_SEEDS:
        return Interval(float(numbers.mean()), np.nan, np.nan)
    found = statistics.interquartile_mean(numbers)
    if found is None:
        raise UserError("The summary needs rliable: pip install 'rllib_geoffpac[plots]'.")
    return Interval(*found)


def entries(curves: pd.DataFrame) -> list[Entry]:
    """Groups the curves by algorithm, task, variant and budget, in the order of the tables.

    Two experiments may hold the same run, such as the paper's settings among the variants. The
    same seed gives the same numbers, so the one that went further counts, once.
    """
    found = []
    for key, group in curves.groupby(_GROUP, sort=False):
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
        found.append(Entry(*key, experiment, counted, len(runs) - len(counted)))
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
        entry.variant != "paper",
        entry.variant,
    )


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
        "variant": entry.variant,
        "seeds": len(entry.runs),
        "steps": _steps(entry)[0],
        "diverged": entry.diverged,
        "hours": round(entry.hours, 3),
        "command": command,
    }
    for name in ("j_pi", "return"):
        for field, value in entry.interval(name, "last")._asdict().items():
            row[f"{name}_{field}"] = float(f"{value:.4g}")
    return row


def _steps(entry: Entry) -> tuple[int, int]:
    going = [run for run in entry.runs if not run["diverged"].iloc[-1]]
    steps = [int(run["env_steps"].iloc[-1]) for run in going] or entry.steps
    return min(steps), max(steps)


def paper_entries(found: list[Entry]) -> dict[tuple[str, str], Entry]:
    """(task, algorithm) -> the paper's settings, at the largest budget that was run."""
    paper = [e for e in found if e.variant == "paper" and e.task != "TwoCircle-v0"]
    largest = {(e.task, e.algo): e for e in sorted(paper, key=lambda entry: entry.budget)}
    return {key: largest[key] for key in dict.fromkeys((e.task, e.algo) for e in paper)}


def variant_entries(found: list[Entry]) -> list[Entry]:
    """All variants of Geoff-PAC and ACE at the budget of their task; not Figure 6's grids."""
    full = {key: entry.budget for key, entry in paper_entries(found).items()}
    return [
        e
        for e in found
        if e.algo in ("GeoffPAC", "ACE")
        and e.budget == full.get((e.task, e.algo))
        and not any(key in e.variant for key in GRID_KEYS)
    ]


def sections(found: list[Entry], random_agent: pd.DataFrame) -> dict[str, list[str]]:
    """Title -> the lines of a table in Markdown."""
    variants = variant_entries(found)
    # The cells of the heat map are not evaluated, and stand in its picture.
    circle = [e for e in found if e.task == "TwoCircle-v0" and e.runs[0]["j_pi"].notna().any()]
    random = random_agent.set_index("task")
    paper = list(paper_entries(found).values())
    tables_ = {"Algorithms, the paper's settings": _table(paper, random, "algorithm", _algo)}
    if any(entry.variant != "paper" for entry in variants):
        tables_["Variants, on equal data"] = _variant_matrix(variants, random)
        tables_["Geoff-PAC and ACE with the same force"] = _same_force(variants)
        tables_["Variants, one by one"] = _table(variants, random, "variant", _algo_and_variant)
    if circle:
        tables_["Two-circle MDP"] = _circle_table(circle)
    return tables_


def _algo(entry: Entry) -> str:
    return entry.algo


def _algo_and_variant(entry: Entry) -> str:
    return f"{entry.algo}, {entry.variant}"


def tables(found: list[Entry], random_agent: pd.DataFrame) -> str:
    """All sections as one page of Markdown, and what they leave out."""
    lines = [
        "Interquartile mean over seeds [95 % bootstrap interval]; below 3 seeds the mean. Last: "
        "the last evaluation; best: each seed's best evaluation. Hours: all seeds together, on a "
        "busy machine. Worse: seeds whose last J_pi is below the random agent's.",
    ]
    for title, table in sections(found, random_agent).items():
        lines += ["", f"## {title}", "", *table]
    waiting = [e for e in found if e.unfinished]
    if waiting:
        lines += ["", "Not counted above, because still below half of the others' steps:"]
        lines += [f"- {e.task}, {e.algo}, {e.variant}: {e.unfinished} runs" for e in waiting]
    return "\n".join(lines) + "\n"


def _table(
    found: list[Entry], random: pd.DataFrame, title: str, label: Callable[[Entry], str]
) -> list[str]:
    lines = [
        f"| task | {title} | J_pi, last | J_pi, best | return, last | return, best | seeds | steps "
        "| diverged | worse | hours |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for task in dict.fromkeys(entry.task for entry in found):
        if task in random.index:
            row = random.loc[task]
            lines.append(
                f"| {task} | random agent | {row['j_pi']:.3g} | | {row['return']:.3g} | | "
                f"{row['episodes']:.0f} episodes | | | | |"
            )
        for entry in (e for e in found if e.task == task):
            cells = [
                cell(entry.interval(metric, which))
                for metric in ("j_pi", "return")
                for which in ("last", "best")
            ]
            count = worse(entry, random)
            lines.append(
                f"| {task} | {label(entry)} | {' | '.join(cells)} | {len(entry.runs)} | "
                f"{step_range(entry)} | {entry.diverged} | {count} | {entry.hours:.1f} |"
            )
    return lines


def _variant_matrix(found: list[Entry], random: pd.DataFrame) -> list[str]:
    """Last J_pi, variants by tasks, and one score over all tasks that a variant was run on.

    The score of a task is 0 for the random agent and 1 for the best variant there.
    """
    ran = {(e.task, e.algo, e.variant): e for e in found}
    names = list(dict.fromkeys((e.algo, e.variant) for e in found))
    tasks = [
        task
        for task in dict.fromkeys(e.task for e in found)
        if any(e.variant != "paper" for e in found if e.task == task)
    ]
    means = {key: entry.interval("j_pi", "last").iqm for key, entry in ran.items()}
    best = {task: max(mean for key, mean in means.items() if key[0] == task) for task in tasks}
    lines = [
        f"| last J_pi (k worse: so many seeds end below the random agent) | {' | '.join(tasks)} | "
        "score |",
        "|---|" + "---|" * (len(tasks) + 1),
        "| random agent | " + " | ".join(f"{random.loc[t, 'j_pi']:.3g}" for t in tasks) + " | 0 |",
    ]
    for algo, variant in sorted(names, key=_departures):
        cells, scores = [], []
        for task in tasks:
            entry = ran.get((task, algo, variant))
            if entry is None:
                cells.append("")
                continue
            count, chance = worse(entry, random), random.loc[task, "j_pi"]
            cells.append(cell(entry.interval("j_pi", "last")) + f", {count} worse" * bool(count))
            scores.append((means[task, algo, variant] - chance) / (best[task] - chance))
        complete = len(scores) == len(tasks)
        score = f"{np.mean(scores):.2f}" if complete else ""
        lines.append(f"| {algo}, {variant} | {' | '.join(cells)} | {score} |")
    return lines


def _same_force(found: list[Entry]) -> list[str]:
    """Last J_pi of Geoff-PAC and ACE over the seeds that both have, and how many Geoff-PAC wins."""
    ran = {(e.task, e.algo, e.variant): e for e in found}
    tasks = list(dict.fromkeys(e.task for e in found))
    lines = [
        f"| overlap_coeff, policy | {' | '.join(tasks)} |",
        "|---|" + "---|" * len(tasks),
    ]
    for name, variants in SAME_FORCE.items():
        cells = []
        for task in tasks:
            pair = [
                ran.get((task, *key)) for key in zip(("GeoffPAC", "ACE"), variants, strict=True)
            ]
            cells.append("" if None in pair else _against(*pair))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _against(one: Entry, other: Entry) -> str:
    ours, theirs = (
        {run["seed"].iloc[0]: pick(run["j_pi"], "last") for run in entry.runs}
        for entry in (one, other)
    )
    seeds = sorted(ours.keys() & theirs.keys())
    means = [interval(tuple(ends[seed] for seed in seeds)).iqm for ends in (ours, theirs)]
    won = sum(ours[seed] > theirs[seed] for seed in seeds)
    return f"{number(means[0])} and {number(means[1])}, {won} of {len(seeds)}"


def _departures(name: tuple[str, str]) -> tuple:
    algo, variant = name
    return ALGOS.index(algo), variant != "paper", variant.count(","), variant


def worse(entry: Entry, random: pd.DataFrame) -> int | str:
    """How many seeds end below the random agent."""
    if entry.task not in random.index:
        return ""
    chance = random.loc[entry.task, "j_pi"]
    return int(sum(pick(run["j_pi"], "last") < chance for run in entry.runs))


def _circle_table(found: list[Entry]) -> list[str]:
    lines = ["| algorithm | variant | pi(A->B), last | seeds | steps |", "|---|---|---|---|---|"]
    for entry in found:
        lines.append(
            f"| {entry.algo} | {entry.variant} | {cell(entry.interval('pi_outer', 'last'))} | "
            f"{len(entry.runs)} | {step_range(entry)} |"
        )
    return lines


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
    low, high = _steps(entry)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def write(curves: pd.DataFrame, commands: dict[str, str], folder: Path) -> None:
    """Writes summary.csv and tables.md."""
    found = entries(curves)
    summary(found, commands).to_csv(folder / "summary.csv", index=False)
    text = tables(found, random_agent(folder))
    (folder / "tables.md").write_text(text, encoding="utf-8")


def random_agent(folder: Path) -> pd.DataFrame:
    """J_pi and return of uniformly random actions, task by task."""
    return pd.read_csv(folder / "random_agent.csv")
