"""Comparisons on equal data: two settings on the seeds that both have."""

from __future__ import annotations

from paper.cells import cell, number
from paper.entries import Entry, interval, pick
from paper.variants import PAPER, ROBUST, parts, variant_settings, without

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

_WITHOUT, _GAMMA_HATS, _KEY = "-without-", "-robust-gamma-hat", "gamma_hat"


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


def robust_parts(found: list[Entry]) -> list[str]:
    """Last J_pi of `robust()` and without each of its parts, at the same number of steps.

    The experiments ``<task>-without-<part>`` take a part away from ``<task>-parts``.
    """
    part = {(e.task, e.experiment.partition(_WITHOUT)[2]): e for e in found if e.algo == "GeoffPAC"}
    names = list(dict.fromkeys(name for _, name in part if name))
    whole = {
        e.task: e
        for e in found
        if e.shown == ROBUST and any(other.budget == e.budget for other in _taken(part, e.task))
    }
    if not whole:
        return []
    lines = [
        f"| without | {' | '.join(whole)} |",
        "|---|" + "---|" * len(whole),
        f"| nothing | {' | '.join(cell(e.interval('j_pi', 'last')) for e in whole.values())} |",
    ]
    for name in names:
        cells = []
        for task, entry in whole.items():
            less = part.get((task, name))
            cells.append("" if less is None else _less(entry, less))
        lines.append(f"| {name.replace('-', ' ')} | {' | '.join(cells)} |")
    return lines


def _taken(part: dict[tuple[str, str], Entry], task: str) -> list[Entry]:
    return [entry for (of, name), entry in part.items() if of == task and name]


def _less(whole: Entry, less: Entry) -> str:
    _, _, won, seeds = _compared(whole, less)
    return f"{cell(less.interval('j_pi', 'last'))}, worse in {won} of {seeds}"


def gamma_hats(found: list[Entry]) -> list[str]:
    """Last J_pi and overlap of `robust()` over gamma_hat, at equal budgets and overlap targets."""
    rows: dict[str, dict[float, Entry]] = {}
    for entry in found:
        if entry.algo != "GeoffPAC" or not entry.experiment.endswith(_GAMMA_HATS):
            continue
        value = variant_settings(entry.algo, entry.variant)[_KEY]
        rows.setdefault(entry.task, {})[value] = entry
    for entry in found:
        own = rows.get(entry.task, {})
        if entry.shown == ROBUST and entry.budget in {e.budget for e in own.values()}:
            own[variant_settings(entry.algo, entry.variant)[_KEY]] = entry
    values = sorted({value for row in rows.values() for value in row})
    if not values:
        return []
    lines = [
        f"| J_pi; overlap at gamma_hat | {' | '.join(f'{value:g}' for value in values)} |",
        "|---|" + "---|" * len(values),
    ]
    for task, row in rows.items():
        cells = [_with_overlap(row[value]) if value in row else "" for value in values]
        lines.append(f"| {task} | {' | '.join(cells)} |")
    return lines


def _with_overlap(entry: Entry) -> str:
    overlap = entry.interval("rho_clipped_mean", "last").iqm
    return f"{cell(entry.interval('j_pi', 'last'))}; {number(overlap)}"


def _against(one: Entry, other: Entry) -> str:
    """Both interquartile means at equal steps, and in how many seeds the first is better."""
    ours, theirs, won, seeds = _compared(one, other)
    return f"{number(ours)} and {number(theirs)}, {won} of {seeds}"


def _compared(one: Entry, other: Entry) -> tuple[float, float, int, int]:
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
