"""Settings of RLlib that these algorithms can't honour: who sets one is told so, and what to do.

Silence would be worse: the run would go on without what was asked for.
"""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from rllib_geoffpac.compat import SETTING_ATTRIBUTES

_LEARNING = "every lockstep is learned from once, see `num_lanes` and `replay_batch_size`"
_CONNECTORS = (
    "connectors between environment and module are not run. Transform observations and actions in "
    "a gymnasium wrapper of the environment"
)
_LANES = "logged data (`input_`) are read as lanes, in the order of time"
_EPISODES = "`output` writes whole episodes into parquet files of about 20,000 steps"

WITHOUT_EFFECT = {
    "train_batch_size": _LEARNING,
    "train_batch_size_per_learner": _LEARNING,
    "minibatch_size": _LEARNING,
    "num_epochs": _LEARNING,
    "shuffle_batch_per_epoch": _LEARNING,
    "batch_mode": "lanes are cut after `rollout_fragment_length` locksteps",
    "clip_rewards": "use gymnasium.wrappers.TransformReward",
    "normalize_actions": "actions are always those of the environment: pi and mu have densities in "
    "its units",
    "gym_env_vectorize_mode": "the lanes of an env runner are stepped one after the other; use "
    "`num_env_runners` for slow simulators",
    "remote_worker_envs": "use `num_env_runners` for slow simulators",
    "compress_observations": "fragments are plain arrays, and recorded streams are not compressed",
    "env_to_module_connector": _CONNECTORS,
    "module_to_env_connector": _CONNECTORS,
    "use_env_runner_state_server": "env runners have no state to share",
    "ignore_env_runner_failures": "the lanes of a lost env runner can't be left out; with "
    "`restart_failed_env_runners` it is rebuilt and the weights come out the same",
    "sample_timeout_s": "`env_hang_timeout_s` says how long to wait for an env runner",
    "evaluation_sample_timeout_s": "`env_hang_timeout_s`, for each episode, says how long to wait",
    "num_aggregator_actors_per_learner": "fragments go to the learner as they are",
    "observation_filter": "use gymnasium.wrappers.NormalizeObservation with fixed statistics",
    "exploration_config": "`behavior` is what explores",
    "input_read_sample_batches": "`input_` takes RLlib's episodes and plain columns",
    "offline_data_class": _LANES,
    "prelearner_class": _LANES,
    "prelearner_buffer_class": _LANES,
    "shuffle_buffer_size": _LANES,
    "postprocess_inputs": _LANES,
    "output_write_episodes": _EPISODES,
    "output_write_method": _EPISODES,
    "output_max_rows_per_file": _EPISODES,
    "off_policy_estimation_methods": "evaluation plays pi in the environment",
    "offline_evaluation_interval": "evaluation plays pi in the environment",
    "keep_per_episode_custom_metrics": "callbacks log custom metrics with their `metrics_logger`",
}
"""By key: why another value than RLlib's default has no effect, or what to use instead."""


def settings_without_effect(config: AlgorithmConfig) -> list[tuple[str, Any, bool, str]]:
    """(key, value, possible, allowed) for each of them."""
    if config.in_evaluation:  # RLlib sets some of them itself
        return []
    standard, checks = AlgorithmConfig(), []
    for key, instead in WITHOUT_EFFECT.items():
        if key == "batch_mode" and config.output is not None:
            continue  # whole episodes are written, which RLlib wants to be said so
        attribute = SETTING_ATTRIBUTES.get(key, key)
        default, value = getattr(standard, attribute), getattr(config, attribute)
        allowed = f"{default!r}, its default, because another value has no effect: {instead}"
        checks.append((key, value, value == default, allowed))
    return checks
