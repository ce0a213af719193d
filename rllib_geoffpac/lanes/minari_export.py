"""The behaviour data as a Minari dataset, for offline RL libraries (extra `offline`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, SupportsFloat

import gymnasium as gym

from rllib_geoffpac.envs.make_env import make_env
from rllib_geoffpac.lanes.behavior import make_behavior
from rllib_geoffpac.lanes.simulated import SimulatedLane

if TYPE_CHECKING:
    from minari import MinariDataset


class _EpisodeRecorder(gym.Wrapper):
    """Keeps what happens, episode by episode (Minari's own collector needs all of JAX for it)."""

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self.episodes: list[dict[str, Any]] = []

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        observation, info = self.env.reset(seed=seed, options=options)
        columns = ("actions", "rewards", "terminations", "truncations")
        self.episodes.append({"seed": seed, "observations": [observation]})
        self.episodes[-1].update({name: [] for name in columns})
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        episode = self.episodes[-1]
        episode["observations"].append(observation)
        episode["actions"].append(action)
        episode["rewards"].append(reward)
        episode["terminations"].append(terminated)
        episode["truncations"].append(truncated)
        return observation, reward, terminated, truncated, info


def export_minari(
    config: Any, dataset_id: str, num_locksteps: int, **metadata: Any
) -> MinariDataset:
    """Records what the lanes of a config see as a Minari dataset.

    The dataset holds, lane after lane, the very episodes that the algorithms learn from with this
    config (environment, seed, `num_lanes`, behaviour); a lane's last episode is cut.

    Args:
        config: Any of our configs, e.g. `GeoffPACConfig().environment("Reacher-v5")`.
        dataset_id: Minari's name, e.g. "reacher/uniform-v0".
        num_locksteps: Transitions of each lane.
        metadata: Further arguments of `minari.create_dataset_from_buffers`.

    Example:
        >>> config = GeoffPACConfig().environment("Reacher-v5")  # doctest: +SKIP
        >>> export_minari(config, "reacher/uniform-v0", 1000)  # doctest: +SKIP
    """
    try:
        from minari import create_dataset_from_buffers
        from minari.data_collector import EpisodeBuffer
    except ImportError:
        raise ImportError(
            "Minari is not installed: pip install 'rllib_geoffpac[offline]' (Python >= 3.11)."
        ) from None
    config.validate()
    recorder = _EpisodeRecorder(make_env(config))
    behavior = partial(make_behavior, config.behavior)
    for lane in range(config.num_lanes):
        SimulatedLane(lambda: recorder, behavior, config.seed, lane).run(num_locksteps)
    episodes = [episode for episode in recorder.episodes if episode["actions"]]
    for episode in episodes:
        if not episode["terminations"][-1]:
            episode["truncations"][-1] = True
    metadata = {"algorithm_name": f"behavior={config.behavior}", **metadata}
    buffers = [EpisodeBuffer(id=index, **episode) for index, episode in enumerate(episodes)]
    return create_dataset_from_buffers(dataset_id, buffers, env=recorder.env, **metadata)
