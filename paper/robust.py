"""Tables about `robust()`: its parts, gamma_hat at equal overlap, TD3 beside it."""

from __future__ import annotations

from paper.cells import cell, number
from paper.entries import Entry, paper_entries
from paper.paired import compared
from paper.variants import ROBUST, variant_settings

_WITHOUT, _GAMMA_HATS, _KEY = "-without-", "-robust-gamma-hat", "gamma_hat"
# TD3 learns once per env step after this many; a lockstep of the others is ten env steps.
_TD3_STARTS, _LANES = 10_000, 10


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
    _, _, won, seeds = compared(whole, less)
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


def beside_td3(found: list[Entry]) -> list[str]:
    """Last J_pi of `robust()` and of TD3 at the same number of steps, with their updates."""
    td3 = {task: e for (task, algo), e in paper_entries(found).items() if algo == "TD3"}
    robust: dict[str, Entry] = {}
    for entry in sorted(found, key=lambda entry: -entry.budget):
        # The shortest budget that reaches as far as TD3, or the longest there is.
        if (entry.algo, entry.shown) == ("GeoffPAC", ROBUST) and entry.task in td3:
            longer = entry.budget >= td3[entry.task].budget
            if longer or entry.task not in robust:
                robust[entry.task] = entry
    lines = [
        "| task | steps | robust | updates | TD3 | updates |",
        "|---|---|---|---|---|---|",
    ]
    for task, other in td3.items():
        if task not in robust:
            continue
        own = robust[task]
        steps = min(own.budget, other.budget)
        settings = variant_settings(own.algo, own.variant)
        updates = int(steps // _LANES * settings.get("updates_per_lockstep", 1))
        cells = [cell(e.until(steps).interval("j_pi", "last")) for e in (own, other)]
        lines.append(
            f"| {task} | {steps:,} | {cells[0]} | {updates:,} | {cells[1]} | "
            f"{steps - _TD3_STARTS:,} |"
        )
    return lines if len(lines) > 2 else []
