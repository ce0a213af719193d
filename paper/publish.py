"""Puts the measured values where readers look: tables of pages, headers of tuned examples."""

from __future__ import annotations

import math
import re
import textwrap
from pathlib import Path

import pandas as pd

from paper import tables
from paper.cells import cell, step_range
from paper.entries import MEASURED_TASKS, Entry
from paper.levels import RANDOM, Levels
from paper.places import EXAMPLES, PUBLISHED
from paper.variants import variant_name
from rllib_cli.errors import UserError
from rllib_cli.experiment import parse as experiments
from rllib_cli.results.reading import flat_settings
from rllib_cli.results.statistics import INTERVAL_SEEDS
from rllib_cli.run.progress import STEPS

# Mark, title, table, mark.
BLOCK = re.compile(r"(<!-- results: ([^\n]+?) -->\n)(.*?)(<!-- end of results -->)", re.DOTALL)
# Folders whose files point to the results, or say in their own words what to expect.
OTHER_HEADERS = ("figures", "sweeps", "smoke")
# From the measured values to the first line of YAML.
_MEASURED = re.compile(r"# Reaches:.*?\n(?=[^#])", re.DOTALL)
_WIDTH = 100


def publish(found: list[Entry], levels: Levels) -> list[Path]:
    """Writes the pages' tables and the headers anew; returns the files that changed."""
    sections = tables.sections(found, levels)
    texts = {path: page(path, sections) for path in PUBLISHED}
    for path in sorted(EXAMPLES.glob("*/*.yaml")):
        text = header(path, found, levels[RANDOM])
        if text is not None:
            texts[path] = text
    changed = [path for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    for path in changed:
        path.write_text(texts[path], encoding="utf-8")
    return changed


def page(path: Path, sections: dict[str, list[str]]) -> str:
    """A page with the sections of tables.md between its ``<!-- results: title -->`` marks.

    Raises:
        UserError: If a mark names a section that there is not.
    """

    def fill(block: re.Match) -> str:
        begin, title, _, end = block.groups()
        if title not in sections:
            raise UserError(
                f"{path}: there are no results {title!r} to fill in, only "
                f"{', '.join(map(repr, sections))}. Correct the mark."
            )
        return f"{begin}\n" + "\n".join(sections[title]) + f"\n\n{end}"

    return BLOCK.sub(fill, path.read_text(encoding="utf-8"))


def header(path: Path, found: list[Entry], random: pd.DataFrame) -> str | None:
    """A tuned example with the values that its settings reached; None if they were not run."""
    (experiment, *others) = experiments.load(path)
    text = path.read_text(encoding="utf-8")
    if others or not _MEASURED.search(text) or path.parent.name in OTHER_HEADERS:
        return None
    env = experiment.config.get("env")
    budget = int(experiment.stop[STEPS])
    variant = variant_name(experiment.run, flat_settings(experiment.config), budget)
    same = [e for e in found if (e.algo, e.task, e.variant) == (experiment.run, env, variant)]
    if not same or env not in MEASURED_TASKS:
        return None
    entry = max(same, key=lambda e: e.budget).until(budget)
    lines = _measured(entry, budget, random)
    return _MEASURED.sub(lambda _: "\n".join(lines) + "\n", text, count=1)


def _measured(entry: Entry, budget: int, random: pd.DataFrame) -> list[str]:
    j_pi, episode_return = (cell(entry.interval(metric, "last")) for metric in ("j_pi", "return"))
    steps = step_range(entry)
    if min(entry.steps) < budget:
        steps += f" of the {budget:,}"
    count = len(entry.runs)
    worse = entry.worse(random)
    reaches = (
        f"J_pi {j_pi}, return {episode_return} after {steps} steps ({_average(count)}); "
        f"a random agent has J_pi {random.loc[entry.task, 'j_pi']:.3g}"
        + f", and {worse} of the {count} seeds end{'s' * (worse == 1)} worse" * bool(worse)
        + f"; {entry.diverged} diverged" * bool(entry.diverged)
        + ". See docs/results.md."
    )
    took = (
        f"{_minutes(entry)} a trial on one of 2 busy cores, partly on recorded streams; one seed "
        "is --num-samples 1."
    )
    return _comment("# Reaches: ", reaches) + _comment("# Took:    ", took)


def _average(count: int) -> str:
    if count == 1:
        return "one seed"
    if count < INTERVAL_SEEDS:
        return f"mean of {count} seeds"
    return f"interquartile mean of {count} seeds, 95 % interval"


def _comment(label: str, words: str) -> list[str]:
    indent = "#".ljust(len(label))
    return textwrap.wrap(
        words, _WIDTH, initial_indent=label, subsequent_indent=indent, break_on_hyphens=False
    )


def _minutes(entry: Entry) -> str:
    minutes = [60 * float(run["hours"].iloc[-1]) for run in entry.runs]
    factor, unit = (60, "s") if max(minutes) < 2 else (1, "minutes")
    low, high = (math.ceil(factor * value) for value in (min(minutes), max(minutes)))
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
