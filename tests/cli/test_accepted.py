"""What RLlib accepts, the command accepts: dry runs that must not be refused."""

import pytest

LAB = """
import gymnasium
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer

observations = gymnasium.spaces.Box(-5.0, 5.0, (4,))
actions = gymnasium.spaces.Discrete(2)


class Callbacks(RLlibCallback):
    pass


class Learner(PPOTorchLearner):
    pass


class Buffer(EpisodeReplayBuffer):
    pass


def choose(agent_id, episode, **more):
    return f"p{agent_id % 2}"


def on_episode_end(**more):
    pass


class Numbered(gymnasium.Env):
    observation_space, action_space = observations, actions

    def __init__(self, config):
        assert config["rooms"][1] == "kitchen" and config[2] == 3, config
"""

MULTI_AGENT = {"env": "ray.rllib.examples.envs.classes.multi_agent:MultiAgentCartPole"}

# Algorithm, environment, settings.
ACCEPTED = {
    "parts of a CPU for an env runner": ("PPO", {"num_cpus_per_env_runner": "0.5"}),
    "parts of a CPU for the main process": ("SAC", {"num_cpus_for_main_process": "0.5"}),
    "parts of a CPU for a learner": ("PPO", {"num_cpus_per_learner": "0.5", "num_learners": "1"}),
    "no GPU as a number with a point": ("PPO", {"num_gpus_per_env_runner": "0.0"}),
    "a schedule that the annotation allows": ("PPO", {"lr": "[[0, 1e-3], [1e6, 1e-4]]"}),
    "a schedule of which only the check knows": (
        "PPO",
        {"entropy_coeff": "[[0, 0.01], [1e6, 0.0]]"},
    ),
    "a schedule of IMPALA": ("IMPALA", {"entropy_coeff": "[[0, 0.01], [1e6, 0.0]]"}),
    "a schedule of exploration": ("DQN", {"epsilon": "[[0, 1.0], [1000, 0.1]]"}),
    "schedules of SAC": ("SAC", {"actor_lr": "[[0, 1e-3], [1e5, 1e-4]]", "lr": "null"}),
    "schedules of ours": (
        "ACE",
        {"actor_lr": "[[0, 1e-3], [1e5, 1e-4]]", "lambda_1": "[[0, 0.0], [1e4, 0.7]]"},
    ),
    "a tuple": ("SAC", {"n_step": "[1, 5]"}),
    "a grid of tuples": ("SAC", {"n_step": "{grid_search: [[1, 5], 3]}"}),
    "a list of policies": (
        "PPO",
        {**MULTI_AGENT, "env_config.num_agents": "2", "policies": "[p0, p1]",
         "policy_mapping_fn": "lab:choose"},
    ),
    "a mapping of policies": (
        "PPO",
        {**MULTI_AGENT, "env_config.num_agents": "2", "policies": "{p0: null, p1: null}",
         "policy_mapping_fn": "lab:choose", "policies_to_train": "[p0]"},
    ),
    "callbacks": ("PPO", {"callbacks": "lab:Callbacks"}),
    "callbacks_class": ("PPO", {"callbacks_class": "lab:Callbacks"}),
    "several callbacks": ("PPO", {"callbacks_class": "[lab:Callbacks, lab:Callbacks]"}),
    "a callback by its method": ("PPO", {"on_episode_end": "lab:on_episode_end"}),
    "spaces": (
        "PPO",
        {"observation_space": "lab:observations", "action_space": "lab:actions"},
    ),
    "a learner class": ("PPO", {"learner_class": "lab:Learner"}),
    "a class inside a mapping": (
        "DQN",
        {"replay_buffer_config": "{type: lab.Buffer, capacity: 100}"},
    ),
    "a class that prepares offline batches": ("BC", {
        "prelearner_buffer_class": "lab:Buffer", "dataset_num_iters_per_learner": "1",
        "input_": "/data", "observation_space": "lab:observations", "action_space": "lab:actions",
    }),
    "integer keys of an environment": (
        "PPO",
        {"env": "lab:Numbered", "env_config": "{rooms: {1: kitchen}, 2: 3}"},
    ),
    "train_batch_size": ("PPO", {"train_batch_size": "2000"}),
    "code for the evaluation": (
        "PPO",
        {"evaluation_interval": "1", "evaluation_config": "{callbacks: lab:Callbacks}"},
    ),
    "a float for an integer-annotated norm": ("DQN", {"grad_clip": "0.5"}),
    "hidden layers, annotated as a number": ("DQN", {"hiddens": "[32, 32]"}),
    "a mode that is text": ("PPO", {"gym_env_vectorize_mode": "sync"}),
}  # fmt: skip
CONTINUOUS = ("SAC",)


@pytest.fixture(autouse=True)
def lab(home, monkeypatch):
    (home / "lab.py").write_text(LAB)
    monkeypatch.syspath_prepend(home)
    monkeypatch.delitem(__import__("sys").modules, "lab", raising=False)


def dry_run(rllib_here, algorithm, settings):
    settings = dict(settings)
    env = settings.pop("env", "Pendulum-v1" if algorithm in CONTINUOUS else "CartPole-v1")
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return rllib_here("train", "--algo", algorithm, "--env", env, *options, "--dry-run")


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_command_accepts_what_rllib_accepts(rllib_here, name):
    result = dry_run(rllib_here, *ACCEPTED[name])
    assert result.status == 0, result.text


REFUSED = {
    "a deprecated setting": ("PPO", {"vf_share_layers": "true"}, ["deprecated"]),
    "a deprecated setting of every algorithm": ("DQN", {"buffer_size": "100"}, ["deprecated"]),
    "a schedule where there is none": ("PPO", {"gamma": "[[0, 0.9], [10, 0.99]]"}, ["a number"]),
    "a schedule that begins late": ("SAC", {"actor_lr": "[[5, 0.9], [10, 0.99]]"}, ["0"]),
    "a schedule that goes back": ("DQN", {"epsilon": "[[0, 1], [9, 0.5], [3, 0]]"}, ["ascend"]),
    "text for a class": ("PPO", {"learner_class": "Learner"}, ["package.module:name"]),
    "a number for a class": ("PPO", {"callbacks_class": "3"}, ["package.module:name"]),
    "a batch size that another overrules": (
        "SAC", {"train_batch_size": "100"}, ["train_batch_size_per_learner"],
    ),
    "no batch size of ours": ("ACE", {"train_batch_size": "100"}, ["train_batch_size"]),
    "a policy that is none": ("PPO", {"policies": "{p0: 3}"}, ["policies", "p0"]),
    "an integer key of the config": ("PPO", {"model_config": "{1: 2}"}, ["keys must be text"]),
    "a wrong type for the evaluation": (
        "PPO", {"evaluation_config": "{num_env_runners: many}"}, ["num_env_runners", "an integer"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_the_command_refuses_what_can_have_no_effect(rllib_here, name):
    algorithm, settings, says = REFUSED[name]
    result = dry_run(rllib_here, algorithm, settings)
    assert (result.status, "Traceback" in result.text) == (2, False), result.text
    assert [words for words in [next(iter(settings)), *says] if words not in result.err] == []


def test_lists_are_tuples_where_rllib_means_tuples():
    from ray.rllib.algorithms.sac import SACConfig

    from rllib_cli.experiment.settings import Settings

    given = Settings(SACConfig(), "SAC").for_rllib({"n_step": [1, 5], "lr": [[0, 1.0], [1, 2.0]]})
    assert given == {"n_step": (1, 5), "lr": [[0, 1.0], [1, 2.0]]}
