"""Lanes that keep their finished episodes whole, to be written as a data set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, SupportsFloat

import gymnasium as gym

from rllib_geoffpac.lanes.simulated import SimulatedLane


@dataclass
class RecordedEpisode:
    """One episode as the environment gave it: T transitions, nothing converted."""

    lane: int = 0
    index: int = 0  # in its lane, from 0
    seed: int | None = None
    observations: list[Any] = field(default_factory=list)  # T + 1
    actions: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    infos: list[dict[str, Any]] = field(default_factory=list)  # T: what learning needs of them
    logp: list[float] = field(default_factory=list)  # T: log mu(A_t|S_t)
    terminated: bool = False
    truncated: bool = False

    def __len__(self) -> int:
        return len(self.actions)


class EpisodeRecorder(gym.Wrapper):
    """Keeps the current episode of an environment."""

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self.episode = RecordedEpisode()

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        """Starts an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.episode = RecordedEpisode(seed=seed, observations=[observation])
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Makes a transition."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        episode = self.episode
        episode.observations.append(observation)
        episode.actions.append(action)
        episode.rewards.append(float(reward))
        episode.infos.append({"discount": info["discount"]} if "discount" in info else {})
        episode.terminated = bool(terminated)
        episode.truncated = bool(truncated) and not terminated
        return observation, reward, terminated, truncated, info


class RecordingLane(SimulatedLane):
    """A simulated lane over an `EpisodeRecorder`."""

    env: EpisodeRecorder

    def __init__(self, *args: Any, **kwargs: Any):
        self._finished: list[RecordedEpisode] = []
        super().__init__(*args, **kwargs)

    def take(self) -> list[RecordedEpisode]:
        """The episodes that have ended since the last time."""
        episodes, self._finished = self._finished, []
        return episodes

    def cut(self) -> RecordedEpisode:
        """The current episode as it stands, marked as truncated."""
        episode = self.env.episode
        episode.lane, episode.index, episode.truncated = self.lane, self.episode, True
        return episode

    def _next_action(self) -> tuple[Any, float]:
        action, logp = super()._next_action()
        self.env.episode.logp.append(logp)
        return action, logp

    def _reset(self) -> None:
        episode = self.env.episode
        if episode.terminated or episode.truncated:
            episode.lane, episode.index = self.lane, self.episode - 1
            self._finished.append(episode)
        super()._reset()
