"""Connector pieces, and environments whose observations need some."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from harness import Walk
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.core.columns import Columns


class StructuredWalk(Walk):
    """The same walk, seen as parts of all kinds (in alphabetic order: Dict sorts its keys)."""

    def __init__(self, config: dict | None = None):
        super().__init__(config)
        self.observation_space = Dict(
            {
                "place": Box(-np.inf, np.inf, (2, 1), np.float32),
                "coarse": Tuple([Discrete(3), MultiDiscrete([2, 3])]),
                "flags": MultiBinary(2),
            }
        )

    def _observation(self):
        place = self._place.astype(np.float32)
        sign = int(np.sign(place[0])) + 1
        right = int(place[1] > 0)
        return {
            "place": place[:, None],
            "coarse": (sign, np.array([right, self._time % 3])),
            "flags": np.array([right, 1 - right], np.int8),
        }


def flattened(env=None, spaces=None, device=None) -> ConnectorV2:
    """For `env_to_module_connector`, by its name in the processes of Ray."""
    return FlattenObservations()


class Counting(ConnectorV2):
    """Divides observations by how many it has seen: a state that RLlib knows nothing of."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.count = 0

    def __call__(self, *, batch, episodes, **kwargs):
        for episode in episodes:
            self.count += 1
            episode.set_observations(
                at_indices=-1, new_data=episode.get_observations(-1) / np.float32(self.count)
            )
        return batch

    def get_state(self, components=None, **kwargs):
        return {"count": self.count} if self.count else {}

    def set_state(self, state):
        self.count = state["count"]


class LongAgo(ConnectorV2):
    """What was seen 100 steps ago; zeros where an episode, or what is kept of it, is shorter."""

    def __call__(self, *, batch, episodes, **kwargs):
        seen = [episode.get_observations(slice(-101, -100), fill=0.0)[0] for episode in episodes]
        return {**batch, Columns.OBS: seen}


class Standstill(ConnectorV2):
    """The action of the environment's middle, whatever pi wants."""

    def __call__(self, *, batch, episodes, **kwargs):
        if isinstance(batch[Columns.ACTIONS], np.ndarray):  # alone: nothing took the batch apart
            return {**batch, Columns.ACTIONS_FOR_ENV: np.zeros_like(batch[Columns.ACTIONS])}
        batch[Columns.ACTIONS_FOR_ENV] = {
            key: [np.zeros_like(action) for action in actions]
            for key, actions in batch[Columns.ACTIONS].items()
        }
        return batch


class DoubledRewards(ConnectorV2):
    """A learner's piece."""

    def __call__(self, *, batch, **kwargs):
        for columns in batch.values():
            columns[Columns.REWARDS] = 2 * columns[Columns.REWARDS]
        return batch


class Pixels(gym.Env):
    """A bright dot on a line of pixels: go to the right end."""

    action_space = Discrete(2)
    width = 6

    def __init__(self, config: dict | None = None):
        self.observation_space = Box(0, 255, (self.width, 3, 1), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place, self._time = int(self.np_random.integers(3)), 0
        return self._picture(), {}

    def step(self, action):
        self._place = int(np.clip(self._place + 2 * action - 1, 0, self.width - 1))
        self._time += 1
        arrived = self._place == self.width - 1
        return self._picture(), float(arrived), arrived, self._time >= 9, {}

    def _picture(self):
        picture = np.full(self.observation_space.shape, 10, np.uint8)
        picture[self._place] = 250
        return picture
