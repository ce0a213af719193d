"""What the `rllib` command asks a config for; see `rllib_cli.plugins`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from rllib_geoffpac.algorithms.data_config import DataConfig
from rllib_geoffpac.deployment import ExportedPolicy, exported_policy
from rllib_geoffpac.env_runners import TargetPolicyEnvRunner
from rllib_geoffpac.metrics import Metric, metrics_of

if TYPE_CHECKING:
    from rllib_geoffpac.offline_evaluation.evaluation import OfflineEvaluation


class ServedConfig(DataConfig):
    """The part of our configs that the command is served by (with `check_env`)."""

    def result_metrics(self) -> tuple[Metric, ...]:
        """The metrics of the results: those of the nearest ancestor that the table knows."""
        names = (klass.__name__ for klass in self.algo_class.__mro__)
        return next(filter(None, map(metrics_of, names)), ())

    def target_policy_runner(
        self, make_env: Callable[[], gym.Env], episodes: int, seed: int, explore: bool
    ) -> TargetPolicyEnvRunner:
        """Plays pi as evaluation while training does; changes this config.

        Args:
            make_env: Makes the environment, in place of the config's own.
            episodes: How many will be played.
            seed: Of the episodes and of the sampled actions.
            explore: Whether actions are sampled from pi.
        """
        # Not by a registered name: Tune would pickle the function.
        self.environment(env=lambda context: make_env(), env_config={})
        self.evaluation(
            evaluation_interval=1,
            evaluation_duration=episodes,
            evaluation_num_env_runners=0,
            evaluation_config={"explore": explore, "num_env_runners": 0},
        )
        self.debugging(seed=seed)
        return TargetPolicyEnvRunner(config=self.get_evaluation_config_object(), worker_index=0)

    def for_measuring(self) -> ServedConfig:
        """A copy to see how fast it is: it learns from the first step on and records nothing."""
        config = self.copy(copy_frozen=False)
        config.experience_cache = None
        if hasattr(config, "learning_starts"):
            config.learning_starts = 0
        return config

    def exported_policy(
        self, weights: dict[str, Any], sampled: bool = False
    ) -> tuple[ExportedPolicy, dict[str, Any]]:
        """pi with these weights as a plain torch module, and what it says of itself."""
        return exported_policy(self, weights, sampled)

    def evaluate_on_data(
        self, weights: Mapping[str, np.ndarray], data: str, **options: Any
    ) -> OfflineEvaluation:
        """Estimates the objectives of pi from logged data; see `evaluate_config` there."""
        from rllib_geoffpac.offline_evaluation.checkpoint import evaluate_config

        return evaluate_config(self, weights, data, **options)
