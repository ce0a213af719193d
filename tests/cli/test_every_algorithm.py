"""Every algorithm that RLlib ships: one iteration, and the evaluation that the command proposes.

It takes about ten minutes, so it is run on demand:

    RLLIB_EVERY_ALGORITHM=1 python -m pytest tests/cli/test_every_algorithm.py
"""

import json
import os

import pytest
from command import run
from test_train import printed_command, reports

from rllib_cli.experiment import names

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        os.environ.get("RLLIB_EVERY_ALGORITHM") != "1", reason="set RLLIB_EVERY_ALGORITHM=1"
    ),
]

BATCH = {"train_batch_size_per_learner": 200}
OFFLINE = {
    **BATCH,
    "dataset_num_iters_per_learner": 1,
    "input_read_episodes": True,
    "observation_space": "spaces:observation_space",
    "action_space": "spaces:action_space",
}
REPLAY = {**BATCH, "num_steps_sampled_before_learning_starts": 100, "num_env_runners": 0}
ASYNCHRONOUS = {**BATCH, "num_env_runners": 1, "min_time_s_per_iteration": 1}
SPACES = """
import gymnasium

env = gymnasium.make("{env}")
observation_space, action_space = env.observation_space, env.action_space
"""
# Environment, settings.
ALGORITHMS = {
    "APPO": ("CartPole-v1", ASYNCHRONOUS),
    "BC": ("CartPole-v1", OFFLINE),
    "CQL": (
        "Pendulum-v1",
        {
            **OFFLINE,
            "lr": None,
            "dataset_num_iters_per_learner": 2,  # RLlib 2.60 fails with 1
            "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 1000},
        },
    ),
    "DQN": ("CartPole-v1", REPLAY),
    "DreamerV3": (
        "CartPole-v1",
        {"batch_size_B": 2, "batch_length_T": 8, "training_ratio": 8, "num_env_runners": 0},
    ),
    "IMPALA": ("CartPole-v1", ASYNCHRONOUS),
    "IQL": ("Pendulum-v1", OFFLINE),
    "MARWIL": ("CartPole-v1", {**OFFLINE, "beta": 0.5}),
    "PPO": ("CartPole-v1", {**BATCH, "num_env_runners": 2, "num_epochs": 1}),
    "SAC": ("Pendulum-v1", {**REPLAY, "n_step": [1, 3]}),
    "TQC": ("Pendulum-v1", REPLAY),
}
RECORDING = {
    "batch_mode": "complete_episodes",
    "num_env_runners": 1,
    "num_epochs": 1,
    "output_max_rows_per_file": 3,  # rows are episodes
    "train_batch_size_per_learner": 1000,
}


def arguments(algorithm, env, settings, name="run"):
    return [
        *("train", "--algo", algorithm, "--env", env, "--stop", "{training_iteration: 1}"),
        *("--config", json.dumps(settings), "--ray-num-cpus", 4),
        *("--storage-path", "results", "--experiment-name", name),
    ]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A function that lets RLlib record data of an environment, once, and returns their folder."""
    folders = {}

    def data_of(env):
        if env not in folders:
            home = tmp_path_factory.mktemp("data")
            settings = {**RECORDING, "output": str(home / "data")}
            done = run(arguments("PPO", env, settings), home)
            assert done.status == 0, done.text
            folders[env] = sorted({str(file.parent) for file in home.glob("data/**/*.parquet")})
            assert folders[env]
        return folders[env]

    return data_of


def test_no_algorithm_is_left_out():
    assert sorted(ALGORITHMS) == sorted(names.RLLIB_ALGORITHMS)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_algorithm_of_rllib_trains_and_is_evaluated_as_it_says(home, recorded, algorithm):
    env, settings = ALGORITHMS[algorithm]
    if algorithm in names.OFFLINE_ALGORITHMS:
        settings = {**settings, "input_": recorded(env)}
        (home / "spaces.py").write_text(SPACES.format(env=env))
    done = run(arguments(algorithm, env, settings), home)
    assert done.status == 0, done.text
    ((lines),) = reports(home / "results" / "run").values()
    assert len(lines) == 1
    proposed = [*printed_command(done.out, "Evaluate it"), "--episodes", 1]
    for options in ([], ["--weights-only"]):
        evaluated = run([*proposed, *options], home)
        assert evaluated.status == 0, evaluated.text
        assert f"{algorithm} on {env}, 1 episode" in evaluated.out
