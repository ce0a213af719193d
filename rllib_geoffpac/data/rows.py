"""From rows of files to episodes: RLlib's packed episodes (a row each) and plain columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from rllib_geoffpac.data.episodes import LOG_DENSITY_NAMES, DataError, LoggedEpisode

EPISODE_COLUMN = "item"
"""The column of packed episodes: what RLlib's env runners write with `output_write_episodes`."""

COLUMN_NAMES = {
    "obs": ("obs", "observations", "observation"),
    "new_obs": ("new_obs", "next_obs", "next_observations", "next_observation"),
    "actions": ("actions", "action"),
    "rewards": ("rewards", "reward"),
    "terminateds": ("terminateds", "terminated", "terminations", "terminals", "dones", "done"),
    "truncateds": ("truncateds", "truncated", "truncations", "timeouts"),
    "eps_id": ("eps_id", "episode_id", "episode"),
    "action_logp": LOG_DENSITY_NAMES,
    "discount": ("discount", "discounts"),
}
"""RLlib's names of the columns, and the names under which others keep the same."""

_NEEDED = ("obs", "actions", "rewards", "terminateds")

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


class PlainColumns:
    """Cuts rows of a transition each into episodes: at each end, and where their id changes.

    Args:
        schema: The data set's own name of each of `COLUMN_NAMES`, where it is none of those.
        compressed: Columns that RLlib has packed, by RLlib's names.
        ignore_final_observation: Whether final observations that are missing are zeros.
        number: Of the first episode.
    """

    observation_space = action_space = None  # such files don't tell

    def __init__(
        self,
        schema: Mapping[str, str],
        compressed: tuple[str, ...] = (),
        ignore_final_observation: bool = False,
        number: int = 0,
    ):
        self.number = number
        # As in RLlib: who names the observations means the next ones as well.
        also = ("new_obs",) if "obs" in compressed else ()
        self._schema, self._compressed = schema, (*compressed, *also)
        self._ignore_final = ignore_final_observation
        self._open: list[dict[str, np.ndarray]] = []
        self._source = ""

    @property
    def is_open(self) -> bool:
        """Whether the next row may go on with an episode."""
        return bool(self._open)

    def feed(self, source: str, batch: Batch) -> Iterator[LoggedEpisode]:
        """The episodes that end in these rows of a file."""
        columns = self._columns(source, batch)
        if self._open and "eps_id" in columns and columns["eps_id"][0] != self._open_id:
            yield self._close()
        self._source = source
        done = columns["terminateds"].copy()
        if "truncateds" in columns:
            done |= columns["truncateds"]
        last = done.copy()
        if "eps_id" in columns:
            last[:-1] |= columns["eps_id"][1:] != columns["eps_id"][:-1]
        begin = 0
        for end in (np.flatnonzero(last) + 1).tolist():
            self._open.append({name: values[begin:end] for name, values in columns.items()})
            yield self._close()
            begin = end
        if begin < len(last):
            self._open.append({name: values[begin:] for name, values in columns.items()})

    def finish(self) -> Iterator[LoggedEpisode]:
        """The last episode, if it has no end."""
        if self._open:
            yield self._close()

    @property
    def _open_id(self) -> Any:
        return self._open[-1]["eps_id"][-1]

    def _columns(self, source: str, batch: Batch) -> dict[str, np.ndarray]:
        found = {}
        for name, aliases in COLUMN_NAMES.items():
            given = self._schema.get(name)
            if given is not None and given not in batch:
                raise DataError(
                    f"{source} has no column {given!r}, which `input_read_schema` names for "
                    f"{name!r}. Its columns are {_listed(batch)}."
                )
            column = given or next((alias for alias in aliases if alias in batch), None)
            if column is not None:
                found[name] = self._values(name, batch[column])
        missing = [name for name in _NEEDED if name not in found]
        if missing:
            raise DataError(
                f"{source} has no column {missing[0]!r}; its columns are {_listed(batch)}. Say "
                "which one it is with `input_read_schema`, for instance "
                f"{{{missing[0]!r}: 'my_column'}}."
            )
        return found

    def _values(self, name: str, values: np.ndarray) -> np.ndarray:
        if name in self._compressed and values.dtype == object and len(values):
            from ray.rllib.utils.compression import is_compressed, unpack

            if is_compressed(values[0]):
                values = np.stack([unpack(value) for value in values])
        if values.dtype == object and name != "eps_id":
            values = np.stack([np.asarray(value) for value in values])
        return values.astype(bool) if name in ("terminateds", "truncateds") else values

    def _close(self) -> LoggedEpisode:
        parts, self._open = self._open, []
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        obs, terminated = columns["obs"], bool(columns["terminateds"][-1])
        truncated = bool("truncateds" in columns and columns["truncateds"][-1]) and not terminated
        following = columns.get("new_obs")
        steps = len(obs)
        final = obs[-1:] if following is None else following[-1:]
        episode = LoggedEpisode(
            self.number,
            self._source,
            np.concatenate([obs, final]),
            columns["actions"],
            np.asarray(columns["rewards"], np.float64).reshape(steps),
            terminated,
            truncated,
            *(
                np.asarray(columns[name], np.float64).reshape(steps) if name in columns else None
                for name in ("action_logp", "discount")
            ),
        )
        self.number += 1
        if following is None:
            self._without_final(episode)
        else:
            _check_order(episode, obs, following)
        return episode

    def _without_final(self, episode: LoggedEpisode) -> None:
        """A final observation enters nothing after a termination; else it has to be there."""
        if self._ignore_final:
            episode.observations[-1] = 0
        elif not episode.terminated:
            raise episode.error(
                "its final observation is missing: there is no column 'new_obs', and the episode "
                "does not end with a termination. Name the column with `input_read_schema`, or "
                "set `ignore_final_observation` to true, which puts zeros there.",
                len(episode) - 1,
            )


def _check_order(episode: LoggedEpisode, obs: np.ndarray, following: np.ndarray) -> None:
    same = (obs[1:] == following[:-1]).all(axis=tuple(range(1, obs.ndim)))
    if not same.all():
        raise episode.error(
            "its next observation ('new_obs') is not the observation of the next row: rows must "
            "be in the order of time, episode after episode, with an end or another 'eps_id'.",
            int(np.argmin(same)),
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


def _listed(batch: Batch) -> str:
    return ", ".join(repr(name) for name in batch)
