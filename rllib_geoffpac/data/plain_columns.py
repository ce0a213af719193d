"""Reads plain columns: a row for each transition, cut into episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rllib_geoffpac.data.column_values import BadValueError, flags, numbers, per_step
from rllib_geoffpac.data.episodes import LOG_DENSITY_NAMES, DataError, LoggedEpisode
from rllib_geoffpac.data.packed_episodes import Batch
from rllib_geoffpac.validation import did_you_mean

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
_UNREAD = {"infos", "t", "agent_id", "module_id", "agent_index", "dones", "unroll_id"}
"""Columns that RLlib's own schema knows, which say nothing about lanes."""
_FLAGS = ("terminateds", "truncateds")
_CONVERSIONS = {
    **dict.fromkeys(_FLAGS, flags),
    **dict.fromkeys(("rewards", "action_logp", "discount"), per_step),
}
"""Of the columns that have a number in each row; the others may have arrays."""


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
        for name in sorted(schema.keys() - COLUMN_NAMES.keys() - _UNREAD):
            raise DataError(
                f"`input_read_schema` has no key {name!r}.{did_you_mean(name, COLUMN_NAMES)} "
                f"Its keys are {_listed(COLUMN_NAMES)}."
            )
        self.number = number
        # As in RLlib: who names the observations means the next ones as well.
        also = ("new_obs",) if "obs" in compressed else ()
        self._schema, self._compressed = schema, (*compressed, *also)
        self._ignore_final = ignore_final_observation
        self._open: list[dict[str, np.ndarray]] = []
        self._open_id: Any = None
        self._source = ""

    @property
    def is_open(self) -> bool:
        """Whether the next row may go on with an episode."""
        return bool(self._open)

    def feed(self, source: str, batch: Batch) -> Iterator[LoggedEpisode]:
        """The episodes that end in these rows of a file."""
        raw = self._columns(source, batch)
        ids = raw.pop("eps_id", None)
        if self._open and ids is not None and ids[0] != self._open_id:
            yield self._close()
        self._source = source
        columns = self._values(source, raw, ids)
        last = _ends(len(columns["rewards"]), columns, ids)
        if self._open:
            self._check_like_before(source, columns)
        begin = 0
        for end in (np.flatnonzero(last) + 1).tolist():
            self._open.append({name: values[begin:end] for name, values in columns.items()})
            yield self._close()
            begin = end
        if begin < len(last):
            self._open.append({name: values[begin:] for name, values in columns.items()})
            self._open_id = None if ids is None else ids[-1]

    def finish(self) -> Iterator[LoggedEpisode]:
        """The last episode, if it has no end."""
        if self._open:
            yield self._close()

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
                found[name] = self._unpacked(name, batch[column])
        missing = [name for name in _NEEDED if name not in found]
        if missing:
            raise DataError(
                f"{source} has no column {missing[0]!r}; its columns are {_listed(batch)}. Say "
                "which one it is with `input_read_schema`, for instance "
                f"{{{missing[0]!r}: 'my_column'}}."
            )
        return found

    def _unpacked(self, name: str, values: np.ndarray) -> np.ndarray:
        if name in self._compressed and values.dtype == object and len(values):
            from ray.rllib.utils.compression import is_compressed, unpack

            if is_compressed(values[0]):
                return np.stack([unpack(value) for value in values])
        return values

    def _values(
        self, source: str, raw: dict[str, np.ndarray], ids: np.ndarray | None
    ) -> dict[str, np.ndarray]:
        columns: dict[str, np.ndarray] = {}
        for name in sorted(raw, key=lambda name: name not in _FLAGS):  # they tell the episodes
            try:
                columns[name] = _CONVERSIONS.get(name, numbers)(raw[name])
            except BadValueError as bad:
                ends = np.flatnonzero(_ends(len(raw[name]), columns, ids)[: bad.row])
                opened = sum(len(part["rewards"]) for part in self._open)
                step = bad.row - ends[-1] - 1 if len(ends) else opened + bad.row
                raise DataError(
                    f"{source}, episode {self.number + len(ends)}, step {step}: the value of "
                    f"{name!r} {bad}"
                ) from None
        return columns

    def _check_like_before(self, source: str, columns: dict[str, np.ndarray]) -> None:
        """An episode that goes on in another file has the same columns there."""
        before = self._open[-1]
        for name in sorted({*before, *columns}):
            if name not in columns or name not in before:
                where = "not here" if name in before else "only here"
                what = f"the column {name!r} is {where}"
            elif before[name].shape[1:] != columns[name].shape[1:]:
                shapes = before[name].shape[1:], columns[name].shape[1:]
                what = f"the column {name!r} has shape {shapes[1]} instead of {shapes[0]}"
            else:
                continue
            raise DataError(
                f"{source}, episode {self.number}, which began in the rows before: {what}. Files "
                "of one data set have the same columns."
            )

    def _close(self) -> LoggedEpisode:
        parts, self._open = self._open, []
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        obs, terminated = columns["obs"], bool(columns["terminateds"][-1])
        truncated = bool("truncateds" in columns and columns["truncateds"][-1]) and not terminated
        following = columns.get("new_obs")
        final = obs[-1:] if following is None else following[-1:]
        episode = LoggedEpisode(
            self.number,
            self._source,
            np.concatenate([obs, final]),
            columns["actions"],
            columns["rewards"].astype(np.float64),
            terminated,
            truncated,
            *(
                columns[name].astype(np.float64) if name in columns else None
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


def _ends(count: int, columns: dict[str, np.ndarray], ids: np.ndarray | None) -> np.ndarray:
    """[count] whether a row is the last one of its episode, as far as it is known."""
    last = np.zeros(count, bool)
    for name in _FLAGS:
        if name in columns:
            last |= columns[name]
    if ids is not None:
        last[:-1] |= ids[1:] != ids[:-1]
    return last


def _check_order(episode: LoggedEpisode, obs: np.ndarray, following: np.ndarray) -> None:
    same = (obs[1:] == following[:-1]).all(axis=tuple(range(1, obs.ndim)))
    if not same.all():
        raise episode.error(
            "its next observation ('new_obs') is not the observation of the next row: rows must "
            "be in the order of time, episode after episode, with an end or another 'eps_id'.",
            int(np.argmin(same)),
        )


def _listed(batch: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in batch) or "none"
