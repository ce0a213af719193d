"""What every RLlib algorithm reports of its episodes, under RLlib's names."""

from __future__ import annotations

from typing import Any

from ray.rllib.core import DEFAULT_AGENT_ID, DEFAULT_MODULE_ID
from ray.rllib.utils.metrics import (
    ENV_RESET_TIMER,
    ENV_STEP_TIMER,
    EPISODE_DURATION_SEC_MEAN,
    EPISODE_LEN_MAX,
    EPISODE_LEN_MEAN,
    EPISODE_LEN_MIN,
    EPISODE_RETURN_MAX,
    EPISODE_RETURN_MEAN,
    EPISODE_RETURN_MIN,
    NUM_AGENT_STEPS_SAMPLED,
    NUM_AGENT_STEPS_SAMPLED_LIFETIME,
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_EPISODES,
    NUM_EPISODES_LIFETIME,
    NUM_MODULE_STEPS_SAMPLED,
    NUM_MODULE_STEPS_SAMPLED_LIFETIME,
    SAMPLE_TIMER,
)
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rllib_geoffpac.lanes.fragments import Spent


class EpisodeMetrics:
    """Logs steps and episodes; there is one agent and one module.

    Args:
        logger: Where to log them.
        place: The keys above them, such as `("env_runners",)`.
    """

    def __init__(self, logger: MetricsLogger, place: tuple[str, ...] = ()):
        self._logger, self._place = logger, place

    def log(self, name: str | tuple[str, str], value: float, **how: Any) -> None:
        """Logs any metric there."""
        path = (name,) if isinstance(name, str) else name
        self._logger.log_value((*self._place, *path), value, **how)

    def steps(self, env_steps: int, episodes: int) -> None:
        """Logs how much was sampled: now, and in this run."""
        for agent_steps, module_steps, how in (
            (NUM_AGENT_STEPS_SAMPLED, NUM_MODULE_STEPS_SAMPLED, "sum"),
            (NUM_AGENT_STEPS_SAMPLED_LIFETIME, NUM_MODULE_STEPS_SAMPLED_LIFETIME, "lifetime_sum"),
        ):
            self.log((agent_steps, DEFAULT_AGENT_ID), env_steps, reduce=how)
            self.log((module_steps, DEFAULT_MODULE_ID), env_steps, reduce=how)
        self.log(NUM_ENV_STEPS_SAMPLED, env_steps, reduce="sum")
        self.log(
            NUM_ENV_STEPS_SAMPLED_LIFETIME, env_steps, reduce="lifetime_sum", with_throughput=True
        )
        self.log(NUM_EPISODES, episodes, reduce="sum")
        self.log(NUM_EPISODES_LIFETIME, episodes, reduce="lifetime_sum")

    def times(self, seconds: float, spent: Spent, env_steps: int) -> None:
        """Logs the times of one call of an env runner, smoothed as RLlib's."""
        self.log(SAMPLE_TIMER, seconds, reduce="ema")
        if spent.steps:
            self.log(ENV_STEP_TIMER, spent.steps / env_steps, reduce="ema")
        if spent.num_resets:
            self.log(ENV_RESET_TIMER, spent.resets / spent.num_resets, reduce="ema")

    def episode(self, episode_return: float, length: int, seconds: float, window: int) -> None:
        """Logs one finished episode into means over the latest `window` of them."""
        self.log(EPISODE_RETURN_MEAN, episode_return, window=window)
        self.log(("agent_episode_return_mean", DEFAULT_AGENT_ID), episode_return, window=window)
        self.log(("module_episode_return_mean", DEFAULT_MODULE_ID), episode_return, window=window)
        self.log(EPISODE_RETURN_MIN, episode_return, reduce="min", window=window)
        self.log(EPISODE_RETURN_MAX, episode_return, reduce="max", window=window)
        self.log(EPISODE_LEN_MEAN, length, window=window)
        self.log(EPISODE_LEN_MIN, length, reduce="min", window=window)
        self.log(EPISODE_LEN_MAX, length, reduce="max", window=window)
        self.log(EPISODE_DURATION_SEC_MEAN, seconds, window=window)
