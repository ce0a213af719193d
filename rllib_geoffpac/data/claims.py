"""What is claimed about mu's log-densities, tested against the whole data set.

For mu(a|s) on a box of volume v: E_mu[1 / mu(A|S)] is the volume where mu has density, at most v.
Probabilities that were logged in place of their logarithms fulfil it without the exponential.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from rllib_geoffpac.data.episodes import DataError, LoggedEpisode
from rllib_geoffpac.maths.action_spaces import UnitBox

_BINS = 10
_ENOUGH = 200  # transitions, below which nothing can be said
_DEVIATIONS = 8.0  # of a chi-squared statistic: never by chance


class DensityClaims:
    """Counts while the data set is surveyed, and judges at its end.

    Args:
        action_space: Of the data.
        name: Of the data set.
        is_uniform: Whether mu was said to be uniform.
    """

    def __init__(
        self, action_space: gym.spaces.Box | gym.spaces.Discrete, name: str, is_uniform: bool
    ):
        self._space, self._name, self._is_uniform = action_space, name, is_uniform
        self._box: UnitBox | None = None
        if isinstance(action_space, gym.spaces.Box):
            self._box = UnitBox(action_space)
            self._counts = np.zeros((self._box.size, _BINS), np.int64)
        else:
            self._counts = np.zeros((1, int(action_space.n)), np.int64)
        self._steps, self._lowest, self._inverse_sum = 0, np.inf, 0.0

    def add(self, episode: LoggedEpisode) -> None:
        """Counts one fitted episode."""
        self._steps += len(episode)
        if self._is_uniform:
            self._count_actions(episode.actions)
        if episode.logp is not None:
            self._lowest = min(self._lowest, float(episode.logp.min()))
            positive = episode.logp[episode.logp > 0]
            self._inverse_sum += float((1 / positive).sum())

    def check(self) -> None:
        """Raises DataError if a claim can't be true."""
        if self._steps < _ENOUGH:
            return
        if self._box is not None and self._lowest > 0:
            self._check_logs(self._box)
        if self._is_uniform:
            self._check_uniform()

    def _count_actions(self, actions: np.ndarray) -> None:
        if self._box is None:
            start = int(self._space.start) if isinstance(self._space, gym.spaces.Discrete) else 0
            self._counts[0] += np.bincount(actions - start, minlength=self._counts.shape[1])
            return
        unit = (self._box.to_unit(actions) + 1) / 2
        bins = np.minimum((unit * _BINS).astype(np.int64), _BINS - 1)
        for dimension in range(self._box.size):
            self._counts[dimension] += np.bincount(bins[:, dimension], minlength=_BINS)

    def _check_logs(self, box: UnitBox) -> None:
        volume = float(np.exp(box.log_volume_scale + box.size * np.log(2)))
        if 0.5 * volume < self._inverse_sum / self._steps < 2 * volume:
            raise DataError(
                f"{self._name}: every log-density of mu is above 0, and the mean of their inverses "
                f"is {self._inverse_sum / self._steps:.3g}, about the volume {volume:.3g} of the "
                "action space: these are densities instead of their logarithms. Log log mu(a|s)."
            )

    def _check_uniform(self) -> None:
        expected = self._steps / self._counts.shape[1]
        statistic = ((self._counts - expected) ** 2 / expected).sum(axis=1)
        freedom = self._counts.shape[1] - 1
        worst = int(statistic.argmax())
        if statistic[worst] > freedom + _DEVIATIONS * np.sqrt(2 * freedom):
            shares = ", ".join(f"{share:.0%}" for share in self._counts[worst] / self._steps)
            raise DataError(
                f"{self._name} has no log-densities of mu, `behavior` is 'uniform', and its "
                f"actions are not: dimension {worst} falls into {self._counts.shape[1]} equal "
                f"parts by {shares}. Name the column (`input_read_schema: {{action_logp: ...}}`), "
                "set `behavior` to the policy that acted, or to 'estimated'."
            )
