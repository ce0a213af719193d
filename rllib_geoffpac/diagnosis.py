"""What looks bad in a result while a run goes on, in sentences for the user."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rllib_geoffpac.metrics import ENV_RUNNERS, EVALUATION, LEARNER

PAGE = "docs/troubleshooting.md"
LOW_OVERLAP = 0.1
"""Every variant that collapsed had an overlap below it, and none that learned."""
DENSITY_RATIO_MEANS = (0.5, 1.5)
"""E_mu[C] is 1 for the exact ratio, whatever the policy is."""


def diagnose(result: Mapping[str, Any]) -> list[str]:
    """Sentences about a flat result that looks bad; none for one that doesn't.

    Example:
        >>> diagnose({"learners/default_policy/rho_clipped_mean": 0.02})[0].partition(":")[0]
        'the overlap with the data has collapsed'
    """

    def get(key: str) -> float:
        """NaN for what was not reported, which compares as not bad."""
        value = result.get(key)
        return float(value) if isinstance(value, int | float) else math.nan

    found = []
    if get(f"{LEARNER}/rho_clipped_mean") < LOW_OVERLAP:
        found.append(
            f"the overlap with the data has collapsed: the mean of the clipped rho is below "
            f"{LOW_OVERLAP}, so the data say next to nothing about pi (see {PAGE}#overlap)"
        )
    ratio = get(f"{LEARNER}/density_ratio_mean")
    low, high = DENSITY_RATIO_MEANS
    if ratio < low or ratio > high:
        found.append(
            f"the density ratio is off: the mean of C is outside [{low}, {high}], the exact one's "
            f"is 1 (see {PAGE}#density-ratio)"
        )
    pi, mu = (get(f"{place}/episode_return_mean") for place in (EVALUATION, ENV_RUNNERS))
    if pi + 2 * get(f"{EVALUATION}/episode_return_stderr") < mu:
        found.append(
            f"pi is worse than the behaviour policy: its return is more than two standard errors "
            f"below mu's (see {PAGE}#worse-than-the-data)"
        )
    return found
