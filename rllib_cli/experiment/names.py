"""Names that can be checked without importing RLlib.

``tests/cli`` compares these lists with RLlib's and Tune's own, so that they cannot drift.
"""

from rllib_cli import plugins

# ray.rllib.algorithms.registry.ALGORITHMS, and TQC, which RLlib ships without registering it.
RLLIB_ALGORITHMS = (
    "APPO",
    "BC",
    "CQL",
    "DQN",
    "DreamerV3",
    "IMPALA",
    "IQL",
    "MARWIL",
    "PPO",
    "SAC",
    "TQC",
)
ALGORITHMS = plugins.algorithms() + RLLIB_ALGORITHMS

# Algorithms that learn from recorded data and need no environment.
OFFLINE_ALGORITHMS = ("BC", "CQL", "IQL", "MARWIL")

EXPERIMENT_KEYS = (
    "run",
    "env",
    "stop",
    "config",
    "num_samples",
    "checkpoint_config",
    "storage_path",
    "tune_config",
    "failure_config",
)
CHECKPOINT_KEYS = (
    "num_to_keep",
    "checkpoint_score_attribute",
    "checkpoint_score_order",
    "checkpoint_frequency",
    "checkpoint_at_end",
)
TUNE_KEYS = (
    "metric",
    "mode",
    "scheduler",
    "search_alg",
    "max_concurrent_trials",
    "time_budget_s",
)
FAILURE_KEYS = ("max_failures",)
SCHEDULERS = {
    "fifo": "FIFOScheduler",
    "asha": "AsyncHyperBandScheduler",
    "hyperband": "HyperBandScheduler",
    "median_stopping_rule": "MedianStoppingRule",
    "pbt": "PopulationBasedTraining",
}

# ray.tune.search.SEARCH_ALG_IMPORT, but for the two names of what draws at random by default.
SEARCH_ALGORITHMS = (
    "ax",
    "bayesopt",
    "bohb",
    "hebo",
    "hyperopt",
    "nevergrad",
    "optuna",
    "zoopt",
)

# Names of the old API stack, and what to write on the new one.
OLD_EXPERIMENT_KEYS = {
    "local_dir": "storage_path",
    "checkpoint_freq": "checkpoint_config: {checkpoint_frequency: ...}",
    "checkpoint_at_end": "checkpoint_config: {checkpoint_at_end: ...}",
    "keep_checkpoints_num": "checkpoint_config: {num_to_keep: ...}",
    "checkpoint_score_attr": "checkpoint_config: {checkpoint_score_attribute: ...}",
    "max_failures": "failure_config: {max_failures: ...}",
    "scheduler": "tune_config: {scheduler: ...}",
    "metric": "tune_config: {metric: ...}",
    "mode": "tune_config: {mode: ...}",
    "max_concurrent_trials": "tune_config: {max_concurrent_trials: ...}",
    "resources_per_trial": "num_env_runners, num_cpus_per_env_runner ... in config",
    "pass_criteria": "stop",
    "trial_resources": "num_env_runners, num_cpus_per_env_runner ... in config",
}
OLD_CONFIG_KEYS = {
    "num_workers": "num_env_runners",
    "num_rollout_workers": "num_env_runners",
    "num_envs_per_worker": "num_envs_per_env_runner",
    "num_cpus_per_worker": "num_cpus_per_env_runner",
    "num_gpus_per_worker": "num_gpus_per_env_runner",
    "num_cpus_for_driver": "num_cpus_for_main_process",
    "num_cpus_for_local_worker": "num_cpus_for_main_process",
    "custom_resources_per_worker": "custom_resources_per_env_runner",
    "num_learner_workers": "num_learners",
    "num_gpus_per_learner_worker": "num_gpus_per_learner",
    "num_cpus_per_learner_worker": "num_cpus_per_learner",
    "num_gpus": "num_gpus_per_learner",
    "evaluation_num_workers": "evaluation_num_env_runners",
    "evaluation_num_episodes": "evaluation_duration",
    "custom_eval_function": "custom_evaluation_function",
    "sgd_minibatch_size": "minibatch_size",
    "num_sgd_iter": "num_epochs",
    "model": "model_config",
    "lambda": "lambda_",
    "input": "input_",
    "timesteps_per_iteration": "min_sample_timesteps_per_iteration",
    "min_sample_timesteps_per_reporting": "min_sample_timesteps_per_iteration",
    "min_train_timesteps_per_reporting": "min_train_timesteps_per_iteration",
    "min_time_s_per_reporting": "min_time_s_per_iteration",
    "min_iter_time_s": "min_time_s_per_iteration",
    "metrics_smoothing_episodes": "metrics_num_episodes_for_smoothing",
    "collect_metrics_timeout": "metrics_episode_collection_timeout_s",
    "exploration_config": "an RLModule with its own forward_exploration",
    "observation_filter": "env_to_module_connector with a MeanStdFilter",
    "multiagent": "policies and policy_mapping_fn",
    "recreate_failed_workers": "restart_failed_env_runners",
    "recreate_failed_env_runners": "restart_failed_env_runners",
    "ignore_worker_failures": "ignore_env_runner_failures",
    "max_num_worker_restarts": "max_num_env_runner_restarts",
    "delay_between_worker_restarts_s": "delay_between_env_runner_restarts_s",
    "remote_worker_envs": "gym_env_vectorize_mode",
    "horizon": "env_config: {max_episode_steps: ...}",
}
OLD_METRICS = {
    "timesteps_total": "num_env_steps_sampled_lifetime",
    "num_env_steps_sampled": "num_env_steps_sampled_lifetime",
    "num_agent_steps_sampled": "env_runners/num_agent_steps_sampled_lifetime/default_agent",
    "num_env_steps_trained": "num_env_steps_sampled_lifetime",
    "agent_timesteps_total": "env_runners/num_agent_steps_sampled_lifetime/default_agent",
    "episodes_total": "env_runners/num_episodes_lifetime",
    "episode_reward_mean": "env_runners/episode_return_mean",
    "episode_reward_max": "env_runners/episode_return_max",
    "episode_reward_min": "env_runners/episode_return_min",
    "episode_return_mean": "env_runners/episode_return_mean",
    "episode_len_mean": "env_runners/episode_len_mean",
    "sampler_results/episode_reward_mean": "env_runners/episode_return_mean",
    "env_runners/episode_reward_mean": "env_runners/episode_return_mean",
    "evaluation/episode_reward_mean": "evaluation/env_runners/episode_return_mean",
    "evaluation/episode_return_mean": "evaluation/env_runners/episode_return_mean",
    "evaluation/env_runners/episode_reward_mean": "evaluation/env_runners/episode_return_mean",
}
