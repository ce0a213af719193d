"""Where log mu(A_t|S_t) of a data set comes from: logged, known, or estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rllib_geoffpac.data.data_set import DataSet
from rllib_geoffpac.data.episodes import DataError, LoggedEpisode
from rllib_geoffpac.data.fitting import Density, EpisodeFitter
from rllib_geoffpac.lanes.behavior import UniformBehavior
from rllib_geoffpac.validation import import_by_name

ESTIMATED = "estimated"


def logged_density(episode: LoggedEpisode) -> np.ndarray:
    """The log-densities that were logged."""
    assert episode.logp is not None  # the survey has found it
    return episode.logp


@dataclass(frozen=True)
class KnownDensity:
    """Those of a policy that is known: anything with `logp(observations, actions)`."""

    policy: Any

    def __call__(self, episode: LoggedEpisode) -> np.ndarray:
        """[T], for observations [T, ...] and actions [T, ...]."""
        return self.policy.logp(episode.observations[:-1], episode.actions)


def make_density(
    behavior: Any, has_logp: bool, data: DataSet, fitter: EpisodeFitter, seed: int
) -> tuple[Density, dict[str, Any]]:
    """Returns where the log-densities come from, and what to report of an estimate.

    Args:
        behavior: The setting.
        has_logp: Whether they were logged.
        data: The data set, to estimate them from.
        fitter: Brings its episodes into the spaces.
        seed: Of the estimate.
    """
    spaces = fitter.observation_space, fitter.action_space
    if isinstance(behavior, str) and behavior == "uniform":
        return (logged_density if has_logp else KnownDensity(UniformBehavior(spaces[1]))), {}
    if isinstance(behavior, str) and behavior == ESTIMATED:
        from rllib_geoffpac.data.estimated_density import estimate_density

        return estimate_density(map(fitter, data.episodes()), *spaces, seed=seed)
    if isinstance(behavior, str):
        behavior = import_by_name(behavior, "behavior")
    if isinstance(behavior, type) or not hasattr(behavior, "logp"):
        behavior = behavior(*spaces) if callable(behavior) else behavior
    if not hasattr(behavior, "logp"):
        raise DataError(
            f"`behavior` is {behavior!r}, which has no method `logp(observations, actions)`: with "
            "logged data it must tell the log-densities of the logged actions. Give it one, or "
            "use 'uniform' or 'estimated'."
        )
    return KnownDensity(behavior), {}
