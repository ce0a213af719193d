"""Puts the measured values where readers look: the README's tables, the tuned examples' headers."""

from __future__ import annotations

import math
import re
import textwrap
from pathlib import Path

import pandas as pd
import report
from collect import EXAMPLES, variant_name
from report import Entry

from rllib_cli.experiment import parse as experiments
from rllib_cli.run.progress import STEPS

README = EXAMPLES.parent / "README.md"
# Mark, title, table, mark.
BLOCK = re.compile(r"(<!-- results: (.+?) -->\n)(.*?)\n(<!-- end of results -->)", re.DOTALL)
# Folders whose files point to the README, or say in their own words what to expect.
OTHER_HEADERS = ("figures", "sweeps", "smoke")
MEASURED_TASKS = report.TASKS[:5]
# From the measured values to the first line of YAML.
_MEASURED = re.compile(r"# Reaches:.*?\n(?=[^#])", re.DOTALL)
_WIDTH = 100


def publish(curves: pd.DataFrame, random_agent: pd.DataFrame) -> list[Path]:
    """Writes the README's tables and the headers anew; returns the files that changed."""
    found = report.entries(curves)
    texts = {README: readme(README.read_text(encoding="utf-8"), found, random_agent)}
    for path in sorted(EXAMPLES.glob("*/*.yaml")):
        text = header(path, found, random_agent)
        if text is not None:
            texts[path] = text
    changed = [path for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    for path in changed:
        path.write_text(texts[path], encoding="utf-8")
    return changed


def readme(text: str, found: list[Entry], random_agent: pd.DataFrame) -> str:
    """The README with the sections of tables.md between its ``<!-- results: title -->`` marks."""
    sections = report.sections(found, random_agent)
    return BLOCK.sub(lambda m: f"{m[1]}\n" + "\n".join(sections[m[2]]) + f"\n\n{m[4]}", text)


def header(path: Path, found: list[Entry], random_agent: pd.DataFrame) -> str | None:
    """A tuned example with the values that its settings reached; None if they were not run."""
    (experiment, *others) = experiments.load(path)
    text = path.read_text(encoding="utf-8")
    if others or not _MEASURED.search(text) or path.parent.name in OTHER_HEADERS:
        return None
    env = experiment.config.get("env")
    variant = variant_name(experiment.run, experiment.config)
    same = [e for e in found if (e.algo, e.task, e.variant) == (experiment.run, env, variant)]
    if not same or env not in MEASURED_TASKS:
        return None
    budget = int(experiment.stop[STEPS])
    entry = max(same, key=lambda e: e.budget).until(budget)
    lines = _measured(entry, budget, random_agent)
    return _MEASURED.sub(lambda _: "\n".join(lines) + "\n", text, count=1)


def _measured(entry: Entry, budget: int, random_agent: pd.DataFrame) -> list[str]:
    random = random_agent.set_index("task")
    j_pi, episode_return = (
        report.cell(entry.interval(metric, "last")) for metric in ("j_pi", "return")
    )
    steps = report.step_range(entry)
    if min(entry.steps) < budget:
        steps += f" of the {budget:,}"
    count = len(entry.runs)
    worse = report.worse(entry, random)
    reaches = (
        f"J_pi {j_pi}, return {episode_return} after {steps} steps ({_average(count)}); "
        f"a random agent has J_pi {random.loc[entry.task, 'j_pi']:.3g}"
        + f", and {worse} of the {count} seeds end{'s' * (worse == 1)} worse" * bool(worse)
        + f"; {entry.diverged} diverged" * bool(entry.diverged)
        + ". See the README, 'Results'."
    )
    took = (
        f"{_minutes(entry)} a trial on one of 2 busy cores, partly on recorded streams; one seed "
        "is --num-samples 1."
    )
    return _comment("# Reaches: ", reaches) + _comment("# Took:    ", took)


def _average(count: int) -> str:
    if count == 1:
        return "one seed"
    if count < report.INTERVAL_SEEDS:
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
