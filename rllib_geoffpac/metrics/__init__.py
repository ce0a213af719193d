"""Every name that a training result contains: place, unit, meaning, and for which algorithms.

A metric is one row in a module here. Who checks a stop criterion, labels a plot, shows progress or
explains a result looks it up; `python -m rllib_geoffpac.metrics` prints the glossary.
"""

from __future__ import annotations

from collections.abc import Iterable

from rllib_geoffpac.metrics.episodes import EVALUATION_OF_PI, SAMPLING
from rllib_geoffpac.metrics.learners import DETERMINISTIC_LEARNER, EMPHATIC_LEARNER, EVERY_LEARNER
from rllib_geoffpac.metrics.row import (
    ALGORITHMS,
    ALL_MODULES,
    DETERMINISTIC,
    EMPHATIC,
    ENV_RUNNERS,
    EVALUATION,
    LEARNER,
    TEXT,
    YES_OR_NO,
    Metric,
    Section,
)
from rllib_geoffpac.metrics.run import BOOKKEEPING, CALLBACKS, RUN

__all__ = [
    "ALGORITHMS",
    "ALL_MODULES",
    "DETERMINISTIC",
    "EMPHATIC",
    "ENV_RUNNERS",
    "EVALUATION",
    "LEARNER",
    "METRICS",
    "SECTIONS",
    "TEXT",
    "YES_OR_NO",
    "Metric",
    "Section",
    "glossary",
    "headlines",
    "metrics_of",
]

SECTIONS = (
    EVALUATION_OF_PI,
    RUN,
    SAMPLING,
    EMPHATIC_LEARNER,
    DETERMINISTIC_LEARNER,
    EVERY_LEARNER,
    BOOKKEEPING,
    CALLBACKS,
)

METRICS = tuple(metric for section in SECTIONS for metric in section.metrics)


def metrics_of(algorithm: str) -> tuple[Metric, ...]:
    """The metrics in the results of one of this package's algorithms, by its name in Tune."""
    return tuple(metric for metric in METRICS if algorithm in metric.algorithms)


def headlines(metrics: Iterable[Metric]) -> list[Metric]:
    """Those to show while training; the first that is reported says what 'best' means."""
    return [metric for metric in metrics if metric.headline]


def glossary() -> str:
    """The table as markdown, section by section."""
    return "\n".join(_markdown(section) for section in SECTIONS)


def _markdown(section: Section) -> str:
    below = [f"Under `{section.place}/`.", ""] if section.place else []
    lines = [f"## {section.title}", "", *below, "| metric | unit | meaning |", "|---|---|---|"]
    for row in section.rows:
        limits = [f"only {', '.join(row.algorithms)}"] if row.algorithms else []
        limits += [row.when] if row.when else []
        note = f" ({'; '.join(limits)})" if limits else ""
        lines.append(f"| `{row.name}` | {row.unit} | {row.meaning}{note} |")
    return "\n".join([*lines, ""])
