"""What one row of the table of metrics is, and where rows stand."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rllib_geoffpac.registration import ALGORITHM_NAMES as ALGORITHMS

DETERMINISTIC = ("DDPG", "TD3")
EMPHATIC = tuple(name for name in ALGORITHMS if name not in DETERMINISTIC)

# Where a metric stands in a result, as a path of keys; "" is the top level.
ENV_RUNNERS = "env_runners"
EVALUATION = "evaluation/env_runners"
LEARNER = "learners/default_policy"
ALL_MODULES = "learners/__all_modules__"

TEXT, YES_OR_NO = "text", "yes or no"


@dataclass(frozen=True)
class Metric:
    """One row of the table.

    Attributes:
        name: Its key. A part in angle brackets stands for a key that depends on the run, as in
            `fault_tolerance/<count>`; with dots, as in `timers/<part...>`, also for a path of them.
        unit: What the number counts or measures: "" for a pure number, "reward" for sums of
            rewards; `TEXT` or `YES_OR_NO` for what is no number.
        meaning: In half a sentence.
        when: The condition, if it isn't in every result ("with evaluation" goes without saying).
        rllib: Whether RLlib's own algorithms report it as well.
        headline: Its name on the screen. The metrics that have one are shown while training, and
            the first of them that a run reports is what 'best' means.
        label: What a plot writes on its axis, if not the name.
        place: The path of keys above it, such as `env_runners`; given by its section.
        algorithms: Those of this package that report it; given by its section.
    """

    name: str
    unit: str
    meaning: str
    when: str = ""
    rllib: bool = False
    headline: str = ""
    label: str = ""
    place: str = ""
    algorithms: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The flat result key, such as `env_runners/episode_return_mean`."""
        return f"{self.place}/{self.name}" if self.place else self.name

    @property
    def is_number(self) -> bool:
        """Whether a run can be stopped or judged by it."""
        return self.unit not in (TEXT, YES_OR_NO)

    @property
    def is_open(self) -> bool:
        """Whether it stands for several keys."""
        return "<" in self.name

    @property
    def needs_evaluation(self) -> bool:
        """Whether it is only reported with evaluation switched on."""
        return self.key.startswith("evaluation/")

    def matches(self, key: str) -> bool:
        """Whether a flat result key is this metric."""
        if not self.is_open:
            return key == self.key
        path = re.sub(r"<[^>]+\.\.\.>", ".+", self.key)
        return re.fullmatch(re.sub("<[^>]+>", "[^/]+", path), key) is not None


@dataclass(frozen=True)
class Section:
    """Metrics at one place in the results of some algorithms; the title is for the glossary."""

    title: str
    place: str
    algorithms: tuple[str, ...]
    rows: tuple[Metric, ...]

    @property
    def metrics(self) -> list[Metric]:
        """The rows, each with its place and its algorithms."""
        return [
            replace(row, place=self.place, algorithms=row.algorithms or self.algorithms)
            for row in self.rows
        ]
