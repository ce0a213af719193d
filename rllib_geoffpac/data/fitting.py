"""Fits logged episodes to the spaces that are learned in, and refuses what would poison a learner.

The same for the survey before anything is learned and for the lanes that read afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from rllib_geoffpac.data.episodes import LoggedEpisode
from rllib_geoffpac.envs.observations import is_structured, make_encoder
from rllib_geoffpac.maths.action_spaces import UnitBox, check_action_space

Density = Callable[[LoggedEpisode], np.ndarray]
"""log mu(A_t|S_t) [T] of an episode; picklable."""


class EpisodeFitter:
    """Checks an episode and brings it into the spaces' dtypes.

    Args:
        observation_space: Any that is learned from. Of a Dict or Tuple the parts become one row.
        action_space: A bounded Box or Discrete.
        density: Where log mu comes from; None: it is left as it was logged.
        normalized: Whether a Box's actions were logged scaled to [-1, 1].
    """

    def __init__(
        self,
        observation_space: gym.Space,
        action_space: gym.Space,
        density: Density | None = None,
        normalized: bool = False,
    ):
        self.observation_space = observation_space
        self._encode = make_encoder(observation_space)
        self.action_space = check_action_space(action_space)
        self.density = density
        self._unit_box: UnitBox | None = None
        if normalized and isinstance(self.action_space, gym.spaces.Box):
            self._unit_box = UnitBox(self.action_space)
        self.max_logp = max_log_density(self.action_space)

    def __call__(self, episode: LoggedEpisode) -> LoggedEpisode:
        """The episode with its observations, actions and log-densities as they are learned from.

        Raises:
            DataError: With file, episode and step.
        """
        if not len(episode):
            raise episode.error("it has no step: take it out of the data set.")
        fitted = self._with_actions(episode)
        fitted = replace(fitted, observations=self._observations(fitted))
        _check_finite(fitted, "reward", fitted.rewards)
        if fitted.discounts is not None:
            bad = (fitted.discounts < 0) | (fitted.discounts > 1)
            _check(fitted, bad, "the discount is {}; allowed is 0 to 1.", fitted.discounts)
        if self.density is not None:
            fitted = replace(fitted, logp=np.asarray(self.density(fitted), np.float64))
        if fitted.logp is not None:
            self._check_density(fitted, fitted.logp)
        return fitted

    def _observations(self, episode: LoggedEpisode) -> np.ndarray:
        space, given = self.observation_space, episode.observations
        if is_structured(space):
            return self._encoded(episode)
        shape = (len(episode) + 1, *(space.shape or ()))
        if given.shape != shape:
            raise episode.error(
                f"the observations have shape {given.shape[1:]} (and there are {len(given)} for "
                f"{len(episode)} steps) instead of {shape[1:]} (and {shape[0]}): the data set is "
                f"not of the observation space {space}.",
                0,
            )
        _check_kind(episode, given, space, "observation")
        bad = _outside(given, space)
        if bad.any():
            step = int(bad.argmax())
            value = given[step]
            raise episode.error(
                f"the observation is {value}, which is not finite or not in {space}.", step
            )
        return given

    def _encoded(self, episode: LoggedEpisode) -> np.ndarray:
        """[T + 1, size] Dict and Tuple observations in one row each, as they travel."""
        rows = []
        for step, observation in enumerate(episode.observations):
            try:
                rows.append(self._encode(observation))
            except (ValueError, TypeError) as error:
                raise episode.error(f"{error}.", step) from None
            if not np.isfinite(rows[-1]).all():
                raise episode.error(f"the observation is {observation}, which is not finite.", step)
        if len(rows) != len(episode) + 1:
            raise episode.error(f"there are {len(rows)} observations for {len(episode)} steps.")
        return np.stack(rows)

    def _with_actions(self, episode: LoggedEpisode) -> LoggedEpisode:
        space, given, logp = self.action_space, episode.actions, episode.logp
        shape = (len(episode), *(space.shape or ()))
        if given.shape != shape:
            raise episode.error(
                f"the actions have shape {given.shape[1:]} instead of {shape[1:]}: the data set "
                f"is not of the action space {space}.",
                0,
            )
        _check_kind(episode, given, space, "action")
        if self._unit_box is not None:
            given = self._unit_box.from_unit(given.reshape(len(given), -1))
            logp = None if logp is None else logp - self._unit_box.log_volume_scale
        actions = given.astype(space.dtype)
        bad = _outside(actions, space)
        if isinstance(space, gym.spaces.Box):
            inside = (actions >= space.low) & (actions <= space.high)
            bad |= ~inside.reshape(len(actions), -1).all(axis=1)
        if bad.any():
            step = int(bad.argmax())
            hint = (
                " If they were logged scaled to [-1, 1], set `actions_in_input_normalized` to true."
                if isinstance(space, gym.spaces.Box) and np.all(np.abs(given) <= 1)
                else ""
            )
            raise episode.error(
                f"the action is {actions[step]}, which is not finite or not in {space}.{hint}",
                step,
            )
        return replace(episode, actions=actions, logp=logp)

    def _check_density(self, episode: LoggedEpisode, logp: np.ndarray) -> None:
        if logp.shape != (len(episode),):
            raise episode.error(
                f"there are {logp.shape} log-densities of mu for {len(episode)} steps."
            )
        _check_finite(episode, "log-density of mu", logp)
        hint = (
            "a log-probability is at most 0: are these probabilities instead of their logarithms?"
            if isinstance(self.action_space, gym.spaces.Discrete)
            else f"at most {self.max_logp:.1f} is possible for {self.action_space.dtype} actions."
        )
        bad = logp > self.max_logp + 1e-6
        _check(episode, bad, "the log-density of mu is {}; " + hint, logp)


def max_log_density(space: gym.spaces.Box | gym.spaces.Discrete) -> float:
    """The highest log mu(a|s) that can be: all mass on one action that the dtype can tell."""
    if isinstance(space, gym.spaces.Discrete):
        return 0.0
    width = space.high.astype(np.float64) - space.low.astype(np.float64)
    return float(-np.log(width * np.finfo(space.dtype).eps).sum())


def _outside(values: np.ndarray, space: gym.Space) -> np.ndarray:
    """[N] not finite, or not one of the numbers of a Discrete."""
    if isinstance(space, gym.spaces.Discrete):
        return (values < space.start) | (values >= space.start + space.n)
    return ~np.isfinite(values).reshape(len(values), -1).all(axis=1)


def _check_kind(episode: LoggedEpisode, values: np.ndarray, space: gym.Space, what: str) -> None:
    if values.dtype.kind not in ("iub" if isinstance(space, gym.spaces.Discrete) else "fiub"):
        hint = " Log them as integers." if isinstance(space, gym.spaces.Discrete) else ""
        raise episode.error(
            f"the {what}s have dtype {values.dtype} instead of {space.dtype}.{hint}", 0
        )


def _check_finite(episode: LoggedEpisode, what: str, values: np.ndarray) -> None:
    _check(episode, ~np.isfinite(values), f"the {what} is {{}}.", values)


def _check(episode: LoggedEpisode, bad: np.ndarray, message: str, values: Any) -> None:
    if bad.any():
        step = int(bad.argmax())
        raise episode.error(message.format(values[step]), step)
