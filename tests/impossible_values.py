"""Impossible settings of the five algorithms: values by key, and combinations."""

from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

NAN, INF = float("nan"), float("inf")
NOT_A_NUMBER = ["0.5", None, True, NAN, [0.5]]
FRACTION = [-0.1, 1.1, INF, *NOT_A_NUMBER]
POSITIVE = [0, -1.0, NAN, "1", True]
NOT_NEGATIVE = [-1e-3, *NOT_A_NUMBER]
COUNT = ["3", 2.0, None, True, -1]

SHARED = {
    # Sampling.
    "seed": [None, -1, 1.5, "0"],
    "num_lanes": [0, *COUNT],
    "behavior": ["random", 3, None, ["uniform"]],
    "rollout_fragment_length": [0, *COUNT],
    "min_sample_timesteps_per_iteration": [0, *COUNT],
    "sample_ahead": COUNT,
    "experience_cache": [3, True],
    "experience_cache_max_gb": POSITIVE,
    "max_env_failures_in_a_row": [0, *COUNT],
    "env_hang_timeout_s": [*POSITIVE, None],
    "env_runner_lost_timeout_s": [-1, None, "long", NAN],
    # Learning.
    "gamma": FRACTION,
    "lr": [*POSITIVE, INF, [[10, 1e-3], [100, 1e-4]]],
    "learner_class": [PPOTorchLearner, "EmphaticLearner"],
    "grad_clip": POSITIVE,
    "kernel": ["numpy", None],
    "grad_clip_by": ["everything", None],
    # The API stack.
    "enable_rl_module_and_learner": [False],
    "enable_env_runner_and_connector_v2": [False],
    "framework_str": ["tf2"],
    # Logged data.
    "input_": [["/data", 3], [], 7],
    "output": [3, ""],
    # Evaluation.
    "evaluation_interval": [-1, 2.5, "often"],
    "evaluation_num_env_runners": [-1, 0.5, None],
    "evaluation_horizon": [0, -1, 2.5, "10"],
    "evaluation_duration_unit": ["hours", None],
    "evaluation_duration": [0, "ever", -1],
    # Resources.
    "num_cpus_for_main_process": [-1, "1"],
    "num_cpus_per_env_runner": [-1, "1"],
    "num_gpus_per_env_runner": [-0.5, "1"],
    "num_gpus_per_learner": [-1, "1"],
    "num_learners": [2, 8],
    "num_env_runners": [11, -1, None, "2"],
    "num_envs_per_env_runner": [3, 4, 11],
}
EMPHATIC = {
    "rollout_fragment_length": [0, "auto", *COUNT],
    "gamma_hat": [1.0, *FRACTION],
    "lambda_1": FRACTION,
    "lambda_2": FRACTION,
    "view": ["sideways", None, True],
    "emphasis": ["remembered", None, True],
    "trace_length": [0, *COUNT],
    "value_estimator": ["gtd", None, True],
    "vtrace_length": [0, *COUNT],
    "tdrc_regularization": NOT_NEGATIVE,
    "critic": ["value", None, True],
    "truncation": ["ignore", None, True, ["terminate"]],
    "rho_clip": [*POSITIVE, None],
    "density_ratio_clip": [*POSITIVE, None],
    "sn_loss_coeff": NOT_NEGATIVE,
    "target_update_freq": [0, *COUNT],
    "tau": [0, 1.5, -0.1, NAN, "0.5", True],
    "policy_delay": [0, *COUNT],
    "clip_action_values": ["yes", 1, None],
    "actor_ascends": ["both", None, True],
    "learning_gamma": [1.1, -0.1, NAN, "0.98", True],
    "policy_average": POSITIVE,
    "value_baseline": ["mean", True, 0.0],
    "baseline_decay": [1.0, *FRACTION],
    "overlap_coeff": NOT_NEGATIVE,
    "overlap_gamma_hat": [0, 1, *FRACTION],
    "overlap_target": [0, 1.1, -1, NAN, INF, "0.5", True],
    "policy_distribution": ["laplace", None],
    "dtype": ["float16", None],
    "optimizer_type": ["adamw", None],
    "replay_capacity": [0, 4, *COUNT],
    "replay_batch_size": COUNT,
    "actor_replay_batch_size": [11, *COUNT],
    "updates_per_lockstep": [0, *COUNT],
    "learning_starts": COUNT,
    "actor_lr": POSITIVE,
    "value_lr": POSITIVE,
    "density_ratio_lr": POSITIVE,
    "counterfactual_value_lr": POSITIVE,
    "emphasis_lr": POSITIVE,
    "correction_lr": POSITIVE,
    "action_value_lr": POSITIVE,
    "counterfactual_action_value_lr": POSITIVE,
    "interest_fn": [3, [1.0]],
    "module": ["cnn"],
}
DETERMINISTIC = {
    "tau": [0, *FRACTION],
    "truncation": ["ignore", None, True],
    "critic_weight_decay": NOT_NEGATIVE,
    "replay_capacity": [0, *COUNT],
    "replay_batch_size": [0, *COUNT],
    "learning_starts": COUNT,
    "exploration_noise": NOT_NEGATIVE,
    "dtype": ["float16", None],
    "optimizer_type": ["adamw", None],
    "actor_lr": POSITIVE,
    "critic_lr": POSITIVE,
}
TWINS = {
    "policy_delay": [0, *COUNT],
    "target_noise": NOT_NEGATIVE,
    "target_noise_clip": NOT_NEGATIVE,
}

IMPOSSIBLE = {
    "GeoffPAC": SHARED | EMPHATIC,
    "ACE": SHARED | EMPHATIC | {"gamma_hat": [0.2, *EMPHATIC["gamma_hat"]]},
    "OffPAC": SHARED | EMPHATIC | {"lambda_1": [0.5, *EMPHATIC["lambda_1"]]},
    "DDPG": SHARED | DETERMINISTIC,
    "TD3": SHARED | DETERMINISTIC | TWINS,
}

# Algorithm, environment, settings that exclude each other, and a part of the message.
COMBINATIONS = [
    ("GeoffPAC", "Reacher-v5", {"num_env_runners": 4, "num_lanes": 3}, "at most `num_lanes`=3"),
    ("GeoffPAC", "Reacher-v5", {"num_envs_per_env_runner": 3}, "1 env runners contradict"),
    ("GeoffPAC", "Reacher-v5", {"replay_capacity": 9}, "a whole number >= 10"),
    ("GeoffPAC", "Reacher-v5", {"module": "tabular"}, "Discrete observations and actions"),
    ("ACE", "CartPole-v1", {"module": "tabular"}, "Discrete observations and actions"),
    (
        "OffPAC",
        "Reacher-v5",
        {"kernel": "fast", "model_config": {"fcnet_activation": "silu"}},
        "can't serve: a SiLU",
    ),
    ("ACE", "Reacher-v5", {"model_config": {"fcnet_activation": "rely"}}, "'rely'; allowed is"),
    ("GeoffPAC", "Reacher-v5", {"kernel": "fast", "num_gpus_per_learner": 1}, "on a GPU"),
    ("GeoffPAC", "Reacher-v5", {"actor_replay_batch_size": 5}, "no trace F2; set view='forward'"),
    (
        "GeoffPAC",
        "Reacher-v5",
        {"actor_replay_batch_size": 5, "view": "forward"},
        "no trace F1; set",
    ),
    (
        "ACE",
        "Reacher-v5",
        {"actor_replay_batch_size": 5, "replay_batch_size": 4},
        "`replay_batch_size`=4",
    ),
    ("GeoffPAC", "Reacher-v5", {"value_estimator": "etd"}, "or set emphasis='learned'"),
    ("OffPAC", "Reacher-v5", {"overlap_target": 0.4, "rho_clip": INF}, "is always 1"),
    ("GeoffPAC", "Reacher-v5", {"view": "forward", "overlap_coeff": 1.0}, "`overlap_target`"),
    ("ACE", "Reacher-v5", {"emphasis": "truncated", "overlap_coeff": 1.0}, "no F2 for this force"),
    ("GeoffPAC", "Reacher-v5", {"view": "forward", "value_baseline": "ema"}, "U is the baseline"),
    ("GeoffPAC", "Reacher-v5", {"critic": "action_value"}, "a third critic"),
    ("ACE", "Reacher-v5", {"critic": "action_value", "value_baseline": "ema"}, "need none"),
    ("ACE", "Reacher-v5", {"critic": "action_value", "value_estimator": "tdrc"}, "has no V"),
    ("OffPAC", "Reacher-v5", {"critic": "action_value", "overlap_coeff": 1.0}, "action values"),
    (
        "ACE",
        "Reacher-v5",
        {"critic": "action_value", "actor_replay_batch_size": 5, "lambda_1": 0.5},
        "no trace F1; set",
    ),
    ("GeoffPAC", "Reacher-v5", {"behavior": "noise"}, "`behavior` is 'noise'"),
    ("GeoffPAC", "Reacher-v5", {"behavior": "math:no_such"}, "has no attribute 'no_such'"),
    (
        "GeoffPAC",
        "Reacher-v5",
        {"model_config": {"fcnet_hidens": [8]}},
        "'fcnet_hiddens'?",
    ),
    ("GeoffPAC", "Reacher-v5", {"model_config": {"fcnet_hiddens": [64, 0]}}, "[64, 0]"),
    ("GeoffPAC", "Reacher-v5", {"model_config": {"fcnet_hiddens": "big"}}, "'big'"),
    ("GeoffPAC", "Reacher-v5", {"model_config": {"use_lstm": True}}, "has no key `use_lstm`"),
    ("DDPG", "Reacher-v5", {"model_config": {"action_layer": -1}}, "action_layer -1"),
    ("TD3", "Reacher-v5", {"model_config": {"num_critics": 0}}, "num_critics 0"),
    ("DDPG", "CartPole-v1", {}, "need continuous"),
    ("TD3", "TwoCircle-v0", {}, "need continuous"),
    ("GeoffPAC", "Blackjack-v1", {}, "The observation space"),
    ("TD3", "Pendulum-v1", {"behavior": "noise", "experience_cache": "streams"}, "no two trials"),
    ("DDPG", "Pendulum-v1", {"replay_capacity": 3, "num_lanes": 4}, "a whole number >= 4"),
]
