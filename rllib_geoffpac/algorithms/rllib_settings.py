"""Every argument of every method of RLlib's AlgorithmConfig, and what these algorithms do about it.

Who sets one is served or told. `docs/generate.py` writes the page 'RLlib features' from this table;
`tests/with_ray/test_rllib_surface.py` compares it with the installed RLlib and shows that each
entry is true.
"""

from __future__ import annotations

from rllib_geoffpac.compat import SWITCH_OF_CHECKS

OLD = "it belongs to RLlib's old API stack"

_LEARNING = "every lockstep is learned from once, see `num_lanes` and `replay_batch_size`"
_LANES = "logged data (`input_`) are read as lanes, in the order of time"
_EPISODES = "`output` writes whole episodes into parquet files of about 20,000 steps"
_OFFLINE = "evaluation plays pi in the environment"
_ONE_AGENT = "there is one agent and one module"
_COMPILE = "`kernel` chooses the compiled backend"
_HERE = "it names something of TensorFlow's, and the modules are torch"
_ACTS = "`rl_module` is pi in evaluation, and None where a fixed mu acts, which has none"
_STATE = "env runners have no state to share"

HONOURED = {
    "api_stack": {
        "enable_rl_module_and_learner": "True, the only stack there is here",
        "enable_env_runner_and_connector_v2": "True, likewise",
    },
    "callbacks": {
        "callbacks_class": "one class or several",
        "on_algorithm_init": "",
        "on_train_result": "",
        "on_evaluate_start": "",
        "on_evaluate_end": "",
        "on_env_runners_recreated": "for env runners of training and of evaluation",
        "on_checkpoint_loaded": "",
        "on_environment_created": "for every lane and every evaluation episode's environment",
        "on_episode_created": _ACTS,
        "on_episode_start": _ACTS,
        "on_episode_step": _ACTS,
        "on_episode_end": _ACTS,
        "on_sample_end": "",
    },
    "debugging": {
        "log_level": "",
        "log_sys_usage": "",
        "seed": "everything that is drawn follows from it; None: another one in every run",
    },
    "env_runners": {
        "env_runner_cls": "a subclass of the default one",
        "num_env_runners": "at most `num_lanes`; never changes the weights",
        "create_local_env_runner": "",
        "create_env_on_local_worker": "the lanes' process has its environments in any case",
        "num_envs_per_env_runner": "left out, or in agreement with `num_lanes`",
        "num_cpus_per_env_runner": "fractions, too; above 0 inside Tune",
        "num_gpus_per_env_runner": "fractions, too",
        "custom_resources_per_env_runner": "what the cluster lacks is named before anything starts",
        "validate_env_runners_after_construction": "",
        "sample_timeout_s": "takes the place of `env_hang_timeout_s`",
        "rollout_fragment_length": "locksteps, or 'auto'; never changes the weights under a "
        "fixed behaviour",
        "explore": "False: no noise on the behaviour, and evaluation takes pi's mode",
        "env_to_module_connector": "for the learner and for pi, at one place; mu sees what the "
        "environment shows",
        "module_to_env_connector": "for pi's actions in evaluation",
        "add_default_connectors_to_env_to_module_pipeline": "False: your pieces alone",
        "add_default_connectors_to_module_to_env_pipeline": "False: your pieces alone",
        "episode_lookback_horizon": "64 steps at least",
        "merge_env_runner_states": "nothing to merge: env runners have no state",
        "broadcast_env_runner_states": "nothing to send: env runners have no state",
    },
    "environment": {
        "env": "",
        "env_config": "",
        "observation_space": "must be the environment's",
        "action_space": "must be the environment's",
        "clip_actions": "actions are in the box in any case",
        "disable_env_checking": "RLlib's own checks are not run in any case",
    },
    "evaluation": {
        "evaluation_interval": "",
        "evaluation_duration": "whole episodes; 'auto' beside training",
        "evaluation_duration_unit": "timesteps: the first whole episodes that have so many",
        "evaluation_sample_timeout_s": "for an env runner's episodes of one evaluation",
        "evaluation_parallel_to_training": "",
        "evaluation_config": "",
        "evaluation_num_env_runners": "never changes the results",
        "custom_evaluation_function": "",
    },
    "experimental": {
        SWITCH_OF_CHECKS: "False: nothing is checked, at your own risk",
        "_use_msgpack_checkpoints": "",
        "_torch_lr_scheduler_classes": "stepped after every update, by torch",
    },
    "fault_tolerance": {
        "restart_failed_env_runners": "",
        "ignore_env_runner_failures": "its lanes go on in the algorithm's own process",
        "max_num_env_runner_restarts": "",
        "restart_failed_sub_environments": "",
        "env_runner_restore_timeout_s": "takes the place of `env_runner_lost_timeout_s`",
    },
    "framework": {"framework": "'torch'"},
    "learners": {
        "num_learners": "0 or 1",
        "num_cpus_per_learner": "fractions, too",
        "num_gpus_per_learner": "fractions, too; torch learns there",
        "custom_resources_per_learner": "",
        "local_gpu_idx": "",
        "learner_class": "a subclass of the algorithm's learner",
        "learner_connector": "pieces for columns [time, lanes]; RLlib's that work on episodes are "
        "refused by name",
        "add_default_connectors_to_learner_pipeline": "the default ones align the lanes",
        "learner_config_dict": "for a learner of your own",
    },
    "multi_agent": {
        "count_steps_by": "",
        "algorithm_config_overrides_per_module": "for 'default_policy', the one module",
    },
    "offline_data": {
        "input_": "data sets are read as lanes: docs/data.md",
        "input_read_episodes": "RLlib's episodes and plain columns are told apart by themselves",
        "input_read_method": "",
        "input_read_method_kwargs": "of `read_parquet` the columns; who reads changes nothing",
        "input_read_schema": "",
        "input_filesystem": "",
        "input_filesystem_kwargs": "",
        "input_compress_columns": "",
        "ignore_final_observation": "",
        "actions_in_input_normalized": "",
        "output": "whole episodes, as RLlib writes them",
    },
    "reporting": {
        "metrics_num_episodes_for_smoothing": "",
        "min_time_s_per_iteration": "",
        "min_train_timesteps_per_iteration": "",
        "min_sample_timesteps_per_iteration": "",
        "log_gradients": "by torch",
        "custom_stats_cls_lookup": "",
    },
    "resources": {
        "num_cpus_for_main_process": "",
        "custom_resources_for_main_process": "",
        "placement_strategy": "",
        "local_gpu_idx": "as under learners",
    },
    "rl_module": {
        "model_config": "",
        "rl_module_spec": "",
    },
    "training": {
        "gamma": "",
        "lr": "a number or a schedule",
        "grad_clip": "for each network by itself",
        "grad_clip_by": "",
        "learner_class": "as under learners",
        "learner_connector": "as under learners",
        "add_default_connectors_to_learner_pipeline": "as under learners",
        "learner_config_dict": "as under learners",
    },
}
"""What is done as RLlib says; the words say what is particular here."""

REFUSED = {
    "callbacks": {
        "on_evaluate_offline_start": _OFFLINE,
        "on_evaluate_offline_end": _OFFLINE,
        "on_offline_eval_runners_recreated": _OFFLINE,
    },
    "checkpointing": {
        "export_native_model_files": "`weights.npz` in a checkpoint holds the weights",
        "checkpoint_trainable_policies_only": _ONE_AGENT,
    },
    "debugging": {"fake_sampler": OLD},
    "env_runners": {
        "gym_env_vectorize_mode": "the lanes of an env runner are stepped one after the other; use "
        "`num_env_runners` for slow simulators",
        "max_requests_in_flight_per_env_runner": "`sample_ahead` says how far ahead lanes run",
        "use_env_runner_state_server": _STATE,
        "env_runner_state_server_max_concurrency": _STATE,
        "compress_observations": "fragments are plain arrays, and recorded streams are not "
        "compressed",
        "batch_mode": "lanes are cut after `rollout_fragment_length` locksteps",
        "episodes_to_numpy": "fragments are arrays",
        "exploration_config": "`behavior` is what explores",
        "observation_filter": "use RLlib's MeanStdFilter as `env_to_module_connector`",
        "remote_worker_envs": "use `num_env_runners` for slow simulators",
        "use_worker_filter_stats": OLD,
        "update_worker_filter_stats": OLD,
        "sample_collector": OLD,
        "remote_env_batch_wait_ms": OLD,
        "preprocessor_pref": OLD,
        "enable_tf1_exec_eagerly": OLD,
        "sampler_perf_stats_ema_coef": OLD,
    },
    "environment": {
        "render_env": "`rllib evaluate` records videos",
        "clip_rewards": "use gymnasium.wrappers.TransformReward",
        "normalize_actions": "actions are always those of the environment: pi and mu have "
        "densities in its units",
        "is_atari": "wrap the environment as you want it",
        "action_mask_key": "mu and pi have densities on the whole action space",
    },
    "evaluation": {
        "evaluation_auto_duration_min_env_steps_per_sample": "whole episodes are played",
        "evaluation_auto_duration_max_env_steps_per_sample": "whole episodes are played",
        "evaluation_error_after_n_consecutive_skips": "no evaluation is skipped",
        "evaluation_force_reset_envs_before_iteration": "every evaluation begins new episodes",
        "evaluation_unhealthy_workers_timeout_s": OLD,
        "off_policy_estimation_methods": _OFFLINE,
        "ope_split_batch_by_episode": _OFFLINE,
        "offline_evaluation_interval": _OFFLINE,
        "num_offline_eval_runners": _OFFLINE,
        "offline_evaluation_type": _OFFLINE,
        "offline_eval_runner_class": _OFFLINE,
        "offline_loss_for_module_fn": _OFFLINE,
        "offline_eval_batch_size_per_runner": _OFFLINE,
        "dataset_num_iters_per_offline_eval_runner": _OFFLINE,
        "offline_eval_rl_module_inference_only": _OFFLINE,
        "num_cpus_per_offline_eval_runner": _OFFLINE,
        "num_gpus_per_offline_eval_runner": _OFFLINE,
        "custom_resources_per_offline_eval_runner": _OFFLINE,
        "offline_evaluation_timeout_s": _OFFLINE,
        "max_requests_in_flight_per_offline_eval_runner": _OFFLINE,
        "broadcast_offline_eval_runner_states": _OFFLINE,
        "validate_offline_eval_runners_after_construction": _OFFLINE,
        "restart_failed_offline_eval_runners": _OFFLINE,
        "ignore_offline_eval_runner_failures": _OFFLINE,
        "max_num_offline_eval_runner_restarts": _OFFLINE,
        "offline_eval_runner_health_probe_timeout_s": _OFFLINE,
        "offline_eval_runner_restore_timeout_s": _OFFLINE,
    },
    "experimental": {
        "_torch_grad_scaler_class": "`dtype` is float32 or float64, and gradients need no scaling",
        "_tf_policy_handles_more_than_one_loss": OLD,
        "_disable_preprocessor_api": OLD,
        "_disable_action_flattening": OLD,
        "_disable_initialize_loss_from_dummy_batch": OLD,
    },
    "fault_tolerance": {
        "delay_between_env_runner_restarts_s": "a lost env runner is rebuilt at once",
        "num_consecutive_env_runner_failures_tolerance": "`max_env_failures_in_a_row` says how "
        "many failures are survived",
        "env_runner_health_probe_timeout_s": "env runners are not probed; `env_hang_timeout_s` "
        "says when one counts as hung",
    },
    "framework": {
        "eager_tracing": _HERE,
        "eager_max_retraces": _HERE,
        "tf_session_args": _HERE,
        "local_tf_session_args": _HERE,
        "torch_compile_learner": _COMPILE,
        "torch_compile_learner_what_to_compile": _COMPILE,
        "torch_compile_learner_dynamo_mode": _COMPILE,
        "torch_compile_learner_dynamo_backend": _COMPILE,
        "torch_compile_worker": _COMPILE,
        "torch_compile_worker_dynamo_backend": _COMPILE,
        "torch_compile_worker_dynamo_mode": _COMPILE,
        "torch_ddp_kwargs": "there is one learner",
        "torch_skip_nan_gradients": "a gradient that is not finite ends the trial: `diverged`",
    },
    "learners": {
        "num_aggregator_actors_per_learner": "fragments go to the learner as they are",
        "max_requests_in_flight_per_aggregator_actor": "fragments go to the learner as they are",
        "max_requests_in_flight_per_learner": "`sample_ahead` says how far ahead lanes run",
    },
    "multi_agent": {
        "policies": _ONE_AGENT,
        "policy_map_capacity": _ONE_AGENT,
        "policy_mapping_fn": _ONE_AGENT,
        "policies_to_train": _ONE_AGENT,
        "policy_states_are_swappable": _ONE_AGENT,
        "observation_fn": _ONE_AGENT,
    },
    "offline_data": {
        "input_read_sample_batches": "`input_` takes RLlib's episodes and plain columns",
        "input_read_batch_size": _LANES,
        "offline_data_class": _LANES,
        "materialize_data": _LANES,
        "materialize_mapped_data": _LANES,
        "map_batches_kwargs": _LANES,
        "iter_batches_kwargs": _LANES,
        "prelearner_class": _LANES,
        "prelearner_buffer_class": _LANES,
        "prelearner_buffer_kwargs": _LANES,
        "prelearner_module_synch_period": _LANES,
        "prelearner_use_recorded_module_states": _LANES,
        "dataset_num_iters_per_learner": _LANES,
        "shuffle_buffer_size": _LANES,
        "postprocess_inputs": _LANES,
        "offline_sampling": _LANES,
        "input_config": OLD,
        "output_config": OLD,
        "output_compress_columns": _EPISODES,
        "output_max_file_size": _EPISODES,
        "output_max_rows_per_file": _EPISODES,
        "output_write_remaining_data": _EPISODES,
        "output_write_method": _EPISODES,
        "output_write_method_kwargs": _EPISODES,
        "output_filesystem": _EPISODES,
        "output_filesystem_kwargs": _EPISODES,
        "output_write_episodes": _EPISODES,
    },
    "python_environment": {
        "extra_python_environs_for_driver": "set environment variables before Ray starts",
        "extra_python_environs_for_worker": "use the `runtime_env` of `ray.init`",
    },
    "reporting": {
        "keep_per_episode_custom_metrics": "callbacks log custom metrics with their "
        "`metrics_logger`",
        "metrics_episode_collection_timeout_s": OLD,
    },
    "resources": {"num_gpus": OLD, "_fake_gpus": OLD},
    "training": {
        "train_batch_size": _LEARNING,
        "train_batch_size_per_learner": _LEARNING,
        "num_epochs": _LEARNING,
        "minibatch_size": _LEARNING,
        "shuffle_batch_per_epoch": _LEARNING,
        "model": "use `model_config`",
        "optimizer": "use `optimizer_type`, or a learner of your own",
    },
}
"""What has no effect: another value than RLlib's default is refused with these words."""

RENAMED_BY_RLLIB = {
    "env_runners": [
        "num_rollout_workers",
        "num_envs_per_worker",
        "validate_workers_after_construction",
        "ignore_worker_failures",
        "recreate_failed_workers",
        "restart_failed_sub_environments",
        "num_consecutive_worker_failures_tolerance",
        "worker_health_probe_timeout_s",
        "worker_restore_timeout_s",
        "synchronize_filter",
        "enable_connectors",
    ],
    "environment": ["env_task_fn"],
    "evaluation": ["always_attach_evaluation_results", "evaluation_num_workers"],
    "fault_tolerance": [
        "recreate_failed_env_runners",
        "ignore_worker_failures",
        "recreate_failed_workers",
        "max_num_worker_restarts",
        "delay_between_worker_restarts_s",
        "num_consecutive_worker_failures_tolerance",
        "worker_health_probe_timeout_s",
        "worker_restore_timeout_s",
    ],
    "multi_agent": ["replay_mode", "policy_map_cache"],
    "resources": [
        "num_cpus_per_worker",
        "num_gpus_per_worker",
        "custom_resources_per_worker",
        "num_learner_workers",
        "num_cpus_per_learner_worker",
        "num_gpus_per_learner_worker",
        "num_cpus_for_local_worker",
    ],
    "rl_module": [
        "algorithm_config_overrides_per_module",
        "model_config_dict",
        "_enable_rl_module_api",
    ],
    "training": [
        "num_aggregator_actors_per_learner",
        "max_requests_in_flight_per_aggregator_actor",
        "num_sgd_iter",
        "max_requests_in_flight_per_sampler_worker",
    ],
}
"""Arguments that RLlib has kept to say, or to take them for, what is now called otherwise."""
