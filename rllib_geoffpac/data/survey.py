"""One pass over a data set before anything is learned: it is checked and counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from rllib_geoffpac.data.claims import DensityClaims
from rllib_geoffpac.data.data_set import DataSet, DataSettings, open_data_set
from rllib_geoffpac.data.densities import logged_density, make_density
from rllib_geoffpac.data.episodes import DataError, LoggedEpisode
from rllib_geoffpac.data.fitting import Density, EpisodeFitter
from rllib_geoffpac.maths.action_spaces import check_action_space


@dataclass(frozen=True)
class Survey:
    """What is known of a data set: all that an env runner needs to read its lanes from it."""

    data: DataSet  # with what it has learned about where its episodes begin
    normalized: bool  # see `EpisodeFitter`
    observation_space: gym.Space
    action_space: gym.Space
    density: Density
    episodes: int
    steps: int
    report: dict[str, Any] = field(default_factory=dict)
    """What to tell of mu, if it was estimated."""

    def fitter(self) -> EpisodeFitter:
        """What brings its episodes into the spaces."""
        return EpisodeFitter(
            self.observation_space, self.action_space, self.density, self.normalized
        )


def survey_data(
    settings: DataSettings,
    spaces: tuple[gym.Space | None, gym.Space | None],
    behavior: Any,
    num_lanes: int,
    seed: int = 0,
) -> Survey:
    """Reads a data set once from its beginning to its end.

    Args:
        settings: Where it is.
        spaces: Observation and action space; None: those of its metadata.
        behavior: mu: "uniform" (unless log-densities were logged), "estimated", a policy with
            `logp(observations, actions)`, or its name.
        num_lanes: Among how many lanes its episodes are dealt.
        seed: Of the estimate of mu.

    Raises:
        DataError: For the first thing that can't be learned from, with file, episode and step.
    """
    data = open_data_set(settings)
    observation_space, action_space = _spaces(data, spaces)
    plain = EpisodeFitter(observation_space, action_space, None, settings.actions_normalized)
    first = next(iter(data.episodes()), None)
    if first is None:
        raise DataError(f"{data.name} holds no episode.")
    has_logp = first.logp is not None
    density, report = make_density(behavior, has_logp, data, plain, seed)
    fitter = EpisodeFitter(observation_space, action_space, density, settings.actions_normalized)
    is_uniform = not has_logp and isinstance(behavior, str) and behavior == "uniform"
    claims = DensityClaims(check_action_space(action_space), data.name, is_uniform)
    open_ended: list[LoggedEpisode] = []
    episodes = steps = 0
    for episode in data.episodes():
        if density is logged_density and episode.logp is None:
            raise episode.error("its log-densities of mu are missing, which earlier ones have.")
        if is_uniform and episode.logp is not None:
            raise episode.error("it has log-densities of mu, which earlier ones have not.")
        fitted = fitter(episode)
        claims.add(fitted)
        episodes, steps = episodes + 1, steps + len(fitted)
        if not fitted.is_done:
            open_ended = [*open_ended, fitted][-num_lanes - 1 :]
    claims.check()
    for episode in open_ended:
        if episode.number < episodes - num_lanes:
            raise episode.error(
                "it has no end: neither `terminated` nor `truncated` at its last step. Mark it as "
                "truncated if it was cut; only the last episode of each lane may be open.",
                len(episode) - 1,
            )
    if episodes < num_lanes:
        plural = "s" * (episodes != 1)
        raise DataError(
            f"{data.name} has {episodes} episode{plural} for `num_lanes`={num_lanes}: each lane "
            f"needs one. Set `num_lanes` to at most {episodes}."
        )
    normalized = settings.actions_normalized
    return Survey(
        data, normalized, observation_space, action_space, density, episodes, steps, report
    )


def _spaces(
    data: DataSet, given: tuple[gym.Space | None, gym.Space | None]
) -> tuple[gym.Space, gym.Space]:
    observation_space = given[0] if given[0] is not None else data.observation_space
    action_space = given[1] if given[1] is not None else data.action_space
    if observation_space is None or action_space is None:
        raise DataError(
            f"{data.name} does not tell its spaces: give an environment, or both spaces with "
            "`.environment(observation_space=..., action_space=...)`."
        )
    return observation_space, action_space
