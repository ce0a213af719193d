"""Small data sets for tests: a few episodes of `Walk`, in each of the formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import Walk


class PreciseWalk(Walk):
    """`Walk` with numbers that float32 can't hold, on another box than [-1, 1]."""

    def __init__(self, config=None):
        space = gym.spaces.Box(np.array([-3.0, 0.5]), np.array([1.0, 2.5]), dtype=np.float64)
        observations = gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
        super().__init__({"action_space": space, "observation_space": observations, **config})

    def _observation(self):
        return np.array([*self._place, self._time / self.limit])


def walk_episodes(count: int, **env_config: Any) -> list[dict[str, Any]]:
    """Episodes of uniform actions, as dictionaries of arrays."""
    env = Walk({"end": 0.2, "limit": 6, **env_config})
    rng = np.random.default_rng(0)
    space = env.action_space
    episodes = []
    for number in range(count):
        observations, actions, rewards, done = [env.reset(seed=number)[0]], [], [], False
        while not done:
            action = rng.uniform(space.low, space.high).astype(space.dtype)
            observation, reward, terminated, truncated, _ = env.step(action)
            observations.append(observation)
            actions.append(action)
            rewards.append(reward)
            done = terminated or truncated
        logp = -float(np.log(space.high - space.low).sum())
        episodes.append(
            {
                "observations": np.array(observations),
                "actions": np.array(actions),
                "rewards": np.array(rewards, np.float64),
                "terminated": terminated,
                "truncated": truncated,
                "logp": np.full(len(actions), logp),
            }
        )
    return episodes


def columns_of(episodes: list[dict[str, Any]]) -> dict[str, list]:
    """The same as plain columns, by RLlib's names."""
    names = ("obs", "new_obs", "actions", "rewards", "terminateds", "truncateds", "eps_id")
    columns: dict[str, list] = {name: [] for name in (*names, "action_logp")}
    for number, episode in enumerate(episodes):
        steps = len(episode["actions"])
        last = np.arange(steps) == steps - 1
        columns["obs"] += list(episode["observations"][:-1])
        columns["new_obs"] += list(episode["observations"][1:])
        columns["actions"] += list(episode["actions"])
        columns["rewards"] += episode["rewards"].tolist()
        columns["terminateds"] += (last & episode["terminated"]).tolist()
        columns["truncateds"] += (last & episode["truncated"]).tolist()
        columns["eps_id"] += [number] * steps
        columns["action_logp"] += episode["logp"].tolist()
    return columns


def write_columns(folder: Path, columns: dict[str, list], rows_per_file: int = 10) -> Path:
    """Plain columns as parquet files of so many rows."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    for number, begin in enumerate(range(0, len(table), rows_per_file)):
        pq.write_table(table.slice(begin, rows_per_file), folder / f"rows-{number:04d}.parquet")
    return folder


def write_packed(
    folder: Path,
    episodes: list[dict[str, Any]],
    per_file: int = 3,
    ids: list[str] | None = None,
) -> Path:
    """RLlib's packed episodes as parquet files of so many."""
    import msgpack
    import msgpack_numpy
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

    env = Walk()
    items = []
    for number, episode in enumerate(episodes):
        made = SingleAgentEpisode(
            id_=ids[number] if ids else str(number),
            observations=list(episode["observations"]),
            actions=list(episode["actions"]),
            rewards=episode["rewards"].tolist(),
            terminated=episode["terminated"],
            truncated=episode["truncated"],
            extra_model_outputs={"action_logp": episode["logp"].tolist()},
            observation_space=env.observation_space,
            action_space=env.action_space,
            len_lookback_buffer=0,
        )
        items.append(msgpack.packb(made.get_state(), default=msgpack_numpy.encode))
    folder.mkdir(parents=True, exist_ok=True)
    for number, begin in enumerate(range(0, len(items), per_file)):
        table = pa.table({"item": items[begin : begin + per_file]})
        pq.write_table(table, folder / f"episodes-{number:04d}.parquet")
    return folder


def write_minari(dataset_id: str, episodes: list[dict[str, Any]]) -> str:
    """A Minari data set, in the folder of MINARI_DATASETS_PATH."""
    from minari import create_dataset_from_buffers
    from minari.data_collector import EpisodeBuffer

    env = Walk()
    buffers = []
    for number, episode in enumerate(episodes):
        last = np.arange(len(episode["actions"])) == len(episode["actions"]) - 1
        buffers.append(
            EpisodeBuffer(
                id=number,
                observations=list(episode["observations"]),
                actions=list(episode["actions"]),
                rewards=episode["rewards"].tolist(),
                terminations=(last & episode["terminated"]).tolist(),
                truncations=(last & episode["truncated"]).tolist(),
                infos={"action_logp": episode["logp"]},
            )
        )
    create_dataset_from_buffers(
        dataset_id,
        buffers,
        observation_space=env.observation_space,
        action_space=env.action_space,
    )
    return f"minari:{dataset_id}"
