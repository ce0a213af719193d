"""Reads RLlib's packed episodes: a row each, in the column that its env runners write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from rllib_geoffpac.data.episodes import LOG_DENSITY_NAMES, DataError, LoggedEpisode

EPISODE_COLUMN = "item"
"""The column of packed episodes: what RLlib's env runners write with `output_write_episodes`."""

Batch = Mapping[str, np.ndarray]


class PackedEpisodes:
    """Joins RLlib's packed episodes; one that was cut goes on in the next row.

    Args:
        number: Of the first episode.
    """

    def __init__(self, number: int = 0):
        self.number = number
        self.observation_space: gym.Space | None = None
        self.action_space: gym.Space | None = None
        self._open: tuple[str, LoggedEpisode] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the next row may go on with an episode."""
        return self._open is not None

    def feed(self, source: str, batch: Batch) -> Iterator[LoggedEpisode]:
        """The episodes that end in these rows of a file."""
        for packed in batch[EPISODE_COLUMN]:
            id_, part = self._unpack(source, packed)
            if self._open is not None:
                open_id, opened = self._open
                if open_id == id_:
                    part = _joined(opened, part)
                else:
                    yield self._close(opened)
                    part = replace(part, number=self.number)
            if part.is_done:
                yield self._close(part)
            else:
                self._open = id_, part

    def finish(self) -> Iterator[LoggedEpisode]:
        """The last episode, if it has no end."""
        if self._open is not None:
            yield self._close(self._open[1])

    def _close(self, episode: LoggedEpisode) -> LoggedEpisode:
        self._open, self.number = None, self.number + 1
        return episode

    def _unpack(self, source: str, packed: Any) -> tuple[str, LoggedEpisode]:
        try:
            import msgpack
            import msgpack_numpy
        except ImportError:
            raise DataError(
                f"{source} holds RLlib's packed episodes, and msgpack_numpy, which unpacks them, "
                "is not installed: pip install 'rllib_geoffpac[offline]'."
            ) from None
        from ray.rllib.env.single_agent_episode import SingleAgentEpisode

        try:
            state = msgpack.unpackb(packed, object_hook=msgpack_numpy.decode, strict_map_key=False)
            episode = SingleAgentEpisode.from_state(state)
        except Exception as error:  # of msgpack, numpy and RLlib, of many kinds
            raise DataError(
                f"{source}, episode {self.number} is no episode of RLlib "
                f"({type(error).__name__}: {error})."
            ) from None
        if self.observation_space is None:
            self.observation_space = episode.observation_space
            self.action_space = episode.action_space
        outputs = episode.extra_model_outputs
        name = next((name for name in LOG_DENSITY_NAMES if name in outputs), None)
        steps = len(episode)
        return episode.id_, LoggedEpisode(
            self.number,
            source,
            _stacked(episode.get_observations(slice(0, steps + 1))),
            _stacked(episode.get_actions(slice(0, steps))),
            np.asarray(episode.get_rewards(slice(0, steps)), np.float64),
            bool(episode.is_terminated),
            bool(episode.is_truncated) and not episode.is_terminated,
            logp=None
            if name is None
            else np.asarray(
                episode.get_extra_model_outputs(name, slice(0, steps)), np.float64
            ).reshape(steps),
            discounts=_discounts(episode.get_infos(slice(1, steps + 1))),
        )


def _joined(first: LoggedEpisode, second: LoggedEpisode) -> LoggedEpisode:
    def both(name: str) -> Any:
        parts = getattr(first, name), getattr(second, name)
        return None if any(part is None for part in parts) else np.concatenate(parts)

    return replace(
        second,
        number=first.number,
        observations=np.concatenate([first.observations, second.observations[1:]]),
        **{name: both(name) for name in ("actions", "rewards", "logp", "discounts")},
    )


def _stacked(values: Any) -> np.ndarray:
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, list) and values and isinstance(values[0], dict | tuple | list):
        made = np.empty(len(values), object)  # of a Dict or Tuple space
        made[:] = values
        return made
    return np.stack([np.asarray(v) for v in values])


def _discounts(infos: Any) -> np.ndarray | None:
    """[T] what the environment supplied as `discount`; None if it never did."""
    given = [
        info.get("discount", np.nan) if isinstance(info, Mapping) else np.nan for info in infos
    ]
    discounts = np.asarray(given, np.float64)
    return None if np.isnan(discounts).all() else discounts
