"""A Minari data set, read through Minari (extra `offline`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from rllib_geoffpac.data.episodes import LOG_DENSITY_NAMES, DataError, LoggedEpisode


class MinariData:
    """The `DataSet` of `minari:DATASET-ID`, which is downloaded if it is not there.

    Args:
        dataset_id: Minari's name of it.
    """

    def __init__(self, dataset_id: str):
        try:
            import minari
        except ImportError:
            raise DataError(
                f"minari:{dataset_id}: Minari is not installed: pip install "
                "'rllib_geoffpac[offline]' (Python >= 3.11)."
            ) from None
        self.name = f"minari:{dataset_id}"
        try:
            self._data = minari.load_dataset(dataset_id, download=True)
        except Exception as error:  # of its storage and of the network, of many kinds
            raise DataError(
                f"{self.name} can't be opened, or is not here and can't be downloaded "
                f"({type(error).__name__}: {error}). `minari list "
                "local` and `minari list remote` show the names; MINARI_DATASETS_PATH says where "
                "local ones are."
            ) from error
        self.observation_space: gym.Space | None = self._data.observation_space
        self.action_space: gym.Space | None = self._data.action_space

    def __reduce__(self) -> tuple:  # open files don't travel
        return type(self), (self.name.removeprefix("minari:"),)

    def episodes(self, first: int = 0) -> Iterator[LoggedEpisode]:
        """All episodes from number `first` on."""
        for number in range(first, self._data.total_episodes):
            try:
                episode = self._data[number]
            except Exception as error:  # of its storage, of many kinds
                raise DataError(
                    f"{self.name}, episode {number} can't be read ({type(error).__name__}: "
                    f"{error}): is the data set still there, and complete?"
                ) from error
            yield self._logged(number, episode)

    def _logged(self, number: int, episode: Any) -> LoggedEpisode:
        infos = episode.infos or {}
        steps = len(episode.rewards)
        name = next((name for name in LOG_DENSITY_NAMES if name in infos), None)
        logged = LoggedEpisode(
            number,
            self.name,
            _observations(episode.observations, steps + 1),
            np.asarray(episode.actions),
            np.asarray(episode.rewards, np.float64),
            terminated=bool(steps and episode.terminations[-1]),
            truncated=bool(steps and episode.truncations[-1] and not episode.terminations[-1]),
            logp=None if name is None else _per_step(infos[name], steps),
            discounts=_per_step(infos["discount"], steps) if "discount" in infos else None,
        )
        early = np.flatnonzero(episode.terminations[:-1] | episode.truncations[:-1])
        if len(early):
            raise logged.error(
                "the episode goes on after its end: `terminations` or `truncations` is true before "
                "its last step.",
                int(early[0]),
            )
        return logged


def _observations(parts: Any, count: int) -> np.ndarray:
    """[count, ...]; of a Dict or Tuple space, which Minari keeps by its parts, [count] objects."""
    if not isinstance(parts, dict | tuple):
        return np.asarray(parts)
    made = np.empty(count, object)
    made[:] = [_at(parts, step) for step in range(count)]
    return made


def _at(parts: Any, step: int) -> Any:
    if isinstance(parts, dict):
        return {key: _at(part, step) for key, part in parts.items()}
    if isinstance(parts, tuple):
        return tuple(_at(part, step) for part in parts)
    return parts[step]


def _per_step(values: Any, steps: int) -> np.ndarray:
    """[T] of an info: Minari keeps one for the reset as well, as the first of T + 1."""
    values = np.asarray(values, np.float64)
    return values[1:] if len(values) == steps + 1 else values
