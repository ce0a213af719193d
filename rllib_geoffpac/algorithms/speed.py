"""How fast an iteration was, measured in one place."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS
from ray.rllib.utils.typing import ResultDict

from rllib_geoffpac.lanes.fragments import Fragment


class IterationSpeed:
    """The seconds of one iteration, and what they were spent on.

    Simulating and learning overlap with remote env runners: the two do not add up to the whole.
    """

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._learning, self._simulation, self._env_steps = 0.0, 0.0, 0

    @contextlib.contextmanager
    def learning(self) -> Iterator[None]:
        """Measures the learner at work, transport included."""
        began = time.perf_counter()
        yield
        self._learning += time.perf_counter() - began

    def sampled(self, fragments: list[Fragment]) -> None:
        """Counts the fragments of one group of locksteps: their runners worked side by side."""
        self._env_steps += sum(len(fragment) for fragment in fragments)
        self._simulation += max(fragment.seconds for fragment in fragments)

    def report(self, results: ResultDict) -> None:
        """Adds the figures to an iteration's results."""
        results["env_steps_per_s"] = self._env_steps / (time.perf_counter() - self._began)
        results[ENV_RUNNER_RESULTS]["simulation_seconds"] = self._simulation
        learners = results.setdefault(LEARNER_RESULTS, {})
        learners.setdefault(DEFAULT_MODULE_ID, {})["learn_seconds"] = self._learning
