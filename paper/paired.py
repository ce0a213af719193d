"""Comparisons on equal data: two settings on the seeds that both have."""

from __future__ import annotations

from paper.cells import number
from paper.entries import Entry, interval, pick
from paper.variants import PAPER, parts, without

# Force and policy -> the variants of Geoff-PAC and of ACE that have it. With the baseline nothing
# of V's constant part is left in Z2, so that Geoff-PAC has no other force than overlap_coeff's.
SAME_FORCE = {
    "none, gaussian": ("value_baseline=ema", PAPER),
    "none, truncated_gaussian": ("value_baseline=ema, truncated_gaussian", "truncated_gaussian"),
    "2, gaussian": ("value_baseline=ema, overlap_coeff=2", "overlap_coeff=2"),
    "2, truncated_gaussian": (
        "value_baseline=ema, overlap_coeff=2, truncated_gaussian",
        "overlap_coeff=2, truncated_gaussian",
    ),
}
TAKEN_APART = ("GeoffPAC", "value_baseline=ema, overlap_coeff=2, truncated_gaussian")
"""The combination whose parts are taken away one by one: all departures that were tried."""


def same_force(found: list[Entry]) -> list[str]:
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
            keys = [(task, "GeoffPAC", variants[0]), (task, "ACE", variants[1])]
            pair = [ran[key] for key in keys if key in ran]
            cells.append(_against(*pair) if len(pair) == 2 else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def one_taken_away(found: list[Entry]) -> list[str]:
    """What each part of a combination is worth: last J_pi with all parts and without that one.

    A shorter ablation is compared with the combination at its own number of steps. Empty if the
    combination was not run.
    """
    algo, whole = TAKEN_APART
    longest = sorted(found, key=lambda entry: entry.budget)
    ran = {(e.task, e.variant): e for e in longest if e.algo == algo}
    tasks = [task for task in dict.fromkeys(e.task for e in found) if (task, whole) in ran]
    if not tasks:
        return []
    lines = [
        f"| {algo}, {whole}: with all and without one, better with all in | {' | '.join(tasks)} |",
        "|---|" + "---|" * len(tasks),
    ]
    for part in parts(whole):
        less = without(whole, part)
        cells = [
            _against(ran[task, whole], ran[task, less]) if (task, less) in ran else ""
            for task in tasks
        ]
        lines.append(f"| without {part} | {' | '.join(cells)} |")
    return lines


def _against(one: Entry, other: Entry) -> str:
    """Both interquartile means at equal steps, and in how many seeds the first is better."""
    ours, theirs, won, seeds = compared(one, other)
    return f"{number(ours)} and {number(theirs)}, {won} of {seeds}"


def compared(one: Entry, other: Entry) -> tuple[float, float, int, int]:
    """Both interquartile means at equal steps; how many the first wins, of how many."""
    end = min(one.finished_steps[0], other.finished_steps[0])
    ours, theirs = (
        {run["seed"].iloc[0]: pick(run["j_pi"], "last") for run in entry.until(end).runs}
        for entry in (one, other)
    )
    seeds = sorted(ours.keys() & theirs.keys())
    means = [interval(tuple(ends[seed] for seed in seeds)).iqm for ends in (ours, theirs)]
    won = sum(ours[seed] > theirs[seed] for seed in seeds)
    return means[0], means[1], won, len(seeds)
