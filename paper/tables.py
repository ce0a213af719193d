"""The results as tables in Markdown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from paper import paired, robust
from paper.cells import cell, number, step_range
from paper.entries import ALGOS, Entry, paper_entries, variant_entries
from paper.levels import RANDOM, Levels
from paper.variants import PAPER, ROBUST


def sections(found: list[Entry], levels: Levels) -> dict[str, list[str]]:
    """Title -> the lines of a table in Markdown."""
    variants, random = variant_entries(found), levels[RANDOM]
    # The cells of the heat map are not evaluated, and stand in its picture.
    circle = [e for e in found if e.task == "TwoCircle-v0" and e.runs[0]["j_pi"].notna().any()]
    paper = list(paper_entries(found).values())
    tables_ = {"Algorithms, the paper's settings": _table(paper, levels, "algorithm", _algo)}
    if any(entry.variant != PAPER for entry in variants):
        tables_["In short"] = _short(paper, variants, random)
        tables_["Variants, on equal data"] = _variant_matrix(variants, random)
        tables_["Geoff-PAC and ACE with the same force"] = paired.same_force(variants)
        if ablation := paired.one_taken_away(found):
            tables_["One part taken away"] = ablation
        for title, table in {
            "Robust, one part taken away": robust.robust_parts(found),
            "Robust over gamma_hat": robust.gamma_hats(found),
            "Robust and TD3": robust.beside_td3(found),
        }.items():
            tables_ |= {title: table} if table else {}
        tables_["Variants, one by one"] = _table(variants, levels, "variant", _algo_and_variant)
    if circle:
        tables_["Two-circle MDP"] = _circle_table(circle)
    return tables_


def _algo(entry: Entry) -> str:
    return entry.algo


def _algo_and_variant(entry: Entry) -> str:
    return f"{entry.algo}, {entry.shown}"


def tables(found: list[Entry], levels: Levels) -> str:
    """All sections as one page of Markdown, and what they leave out."""
    lines = [
        "Interquartile mean over seeds [95 % bootstrap interval]; below 3 seeds the mean. Last: "
        "the last evaluation; best: each seed's best evaluation. Hours: all seeds together, on a "
        "busy machine. Worse: seeds whose last J_pi is below the random agent's.",
    ]
    for title, table in sections(found, levels).items():
        lines += ["", f"## {title}", "", *table]
    waiting = [e for e in found if e.unfinished]
    if waiting:
        lines += ["", "Not counted above, because still below half of the others' steps:"]
        lines += [f"- {e.task}, {e.algo}, {e.variant}: {e.unfinished} runs" for e in waiting]
    return "\n".join(lines) + "\n"


def _table(
    found: list[Entry], levels: Levels, title: str, label: Callable[[Entry], str]
) -> list[str]:
    lines = [
        f"| task | {title} | J_pi, last | J_pi, best | return, last | return, best | seeds | steps "
        "| diverged | worse | hours |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for task in dict.fromkeys(entry.task for entry in found):
        for name, level in levels.items():
            if task in level.index:
                row = level.loc[task]
                basis = f"{row['episodes']:.0f} episodes" if "episodes" in row else "exact"
                lines.append(
                    f"| {task} | {name} | {number(row['j_pi'])} | | {number(row['return'])} | | "
                    f"{basis} | | | | |"
                )
        for entry in (e for e in found if e.task == task):
            cells = [
                cell(entry.interval(metric, which))
                for metric in ("j_pi", "return")
                for which in ("last", "best")
            ]
            count = entry.worse(levels[RANDOM])
            lines.append(
                f"| {task} | {label(entry)} | {' | '.join(cells)} | {len(entry.runs)} | "
                f"{step_range(entry)} | {entry.diverged} | {count} | {entry.hours:.1f} |"
            )
    return lines


def _short(paper: list[Entry], variants: list[Entry], random: pd.DataFrame) -> list[str]:
    """Last J_pi of every algorithm, tasks by algorithms: one look for the README."""
    columns = {f"{algo}, paper" if algo == "GeoffPAC" else algo: algo for algo in ALGOS}
    ran = {(e.task, e.algo): e for e in paper}
    best = {e.task: e for e in variants if (e.algo, e.shown) == ("GeoffPAC", ROBUST)}
    lines = [
        f"| last J_pi | random agent | GeoffPAC, robust | {' | '.join(columns)} |",
        "|---|---|---|" + "---|" * len(columns),
    ]
    for task in dict.fromkeys(e.task for e in paper):
        found = [best.get(task), *(ran.get((task, algo)) for algo in columns.values())]
        cells = ["" if e is None else number(e.interval("j_pi", "last").iqm) for e in found]
        lines.append(f"| {task} | {number(random.loc[task, 'j_pi'])} | {' | '.join(cells)} |")
    return lines


def _variant_matrix(found: list[Entry], random: pd.DataFrame) -> list[str]:
    """Last J_pi, variants by tasks, and one score over all tasks that a variant was run on.

    The score of a task is 0 for the random agent and 1 for the best variant there.
    """
    ran = {(e.task, e.algo, e.shown): e for e in found}
    names = list(dict.fromkeys((e.algo, e.shown) for e in found))
    tasks = [
        task
        for task in dict.fromkeys(e.task for e in found)
        if any(e.variant != PAPER for e in found if e.task == task)
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
            count, chance = entry.worse(random), random.loc[task, "j_pi"]
            cells.append(cell(entry.interval("j_pi", "last")) + f", {count} worse" * bool(count))
            scores.append((means[task, algo, variant] - chance) / (best[task] - chance))
        complete = len(scores) == len(tasks)
        score = f"{np.mean(scores):.2f}" if complete else ""
        lines.append(f"| {algo}, {variant} | {' | '.join(cells)} | {score} |")
    return lines


def _departures(name: tuple[str, str]) -> tuple:
    algo, variant = name
    return ALGOS.index(algo), variant != PAPER, variant.count(","), variant


def _circle_table(found: list[Entry]) -> list[str]:
    lines = ["| algorithm | variant | pi(A->B), last | seeds | steps |", "|---|---|---|---|---|"]
    for entry in found:
        lines.append(
            f"| {entry.algo} | {entry.variant} | {cell(entry.interval('pi_outer', 'last'))} | "
            f"{len(entry.runs)} | {step_range(entry)} |"
        )
    return lines


def write(found: list[Entry], levels: Levels, path: Path) -> None:
    """Writes all tables as one page."""
    path.write_text(tables(found, levels), encoding="utf-8")
