"""Episodes of pi for other code: RLlib's `eval_env_runner.sample()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rllib_geoffpac.env_runners.episode_metrics import EpisodeMetrics

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

# Episodes that other code plays must not be those of the algorithm's own evaluation rounds.
_ROUNDS_OF_OTHERS = 1 << 31


class EpisodesOfPi:
    """The part of an evaluation env runner that its own algorithm does not need."""

    config: AlgorithmConfig
    metrics: MetricsLogger
    worker_index: int | None
    _envs: dict[int, gym.Env]
    _watched_envs: dict[int, gym.Env]
    _always_watched: bool
    _num_samples: int

    def sample_episodes(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = True,
    ) -> list[SingleAgentEpisode]:
        """Plays whole episodes that no runner has played before, and logs them in `self.metrics`.

        Args:
            num_timesteps: The first episodes that have so many steps together.
            num_episodes: How many. None for both: `evaluation_duration`.
            explore: Whether actions are sampled from pi; None: as configured.
            random_actions: Refused: who plays here is pi.
            force_reset: Every episode begins anew in any case.
        """
        if random_actions:
            raise ValueError(
                "`random_actions` is True, but evaluation env runners play pi: the env runners of "
                "training take it (`algorithm.env_runner.sample(random_actions=True)`)."
            )
        watched, self._always_watched = self._envs, True
        configured, self._envs = self.config.explore, self._watched_envs
        self.config.explore = configured if explore is None else explore
        try:
            episodes: list[SingleAgentEpisode] = []
            count = 1 if num_timesteps else num_episodes or self._episodes_at_once()
            while not episodes or sum(map(len, episodes)) < (num_timesteps or 0):
                episodes += self._new_episodes(count)
            return episodes
        finally:
            self._watched_envs, self._envs, self._always_watched = self._envs, watched, False
            self.config.explore = configured

    def _new_episodes(self, count: int) -> list[SingleAgentEpisode]:
        first = count * (self.worker_index or 0)  # of another runner, too
        round_ = _ROUNDS_OF_OTHERS + self._num_samples
        self._num_samples += 1
        played = self._play_round(list(range(first, first + count)), round_, count)
        metrics = EpisodeMetrics(self.metrics)
        metrics.steps(sum(episode.env_steps() for episode in played), len(played))
        window = self.config.metrics_num_episodes_for_smoothing
        for episode in played:
            metrics.episode(episode.episode_return, episode.env_steps(), episode.seconds, window)
        envs: dict[int, Any] = self._envs
        return [envs[k].episode for k in sorted(episode.row for episode in played)]

    def _episodes_at_once(self) -> int:
        raise NotImplementedError

    def _play_round(self, episodes: list[int], round_: int, rows: int | None) -> list[Any]:
        raise NotImplementedError
