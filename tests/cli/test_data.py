"""`rllib record` and `rllib train --data`."""

import json
import os

import pytest

SETTINGS = ["--set", "num_lanes=2", "--set", "learning_starts=10"]
ITERATIONS = [
    "--set",
    "min_sample_timesteps_per_iteration=100",
    "--stop",
    "{training_iteration: 2}",
]


def digests(folder) -> list[str]:
    """The weights' digest after each iteration of an experiment's only trial."""
    (results,) = folder.glob("*/result.json")
    return [json.loads(line)["weights_digest"] for line in results.read_text().splitlines()]


@pytest.mark.slow
def test_what_was_recorded_is_learned_from_without_an_environment(rllib, home):
    train = ["train", "--algo", "GeoffPAC", *SETTINGS, *ITERATIONS, "--storage-path", home]
    recorded = rllib(
        *("record", "--algo", "GeoffPAC", "--env", "CartPole-v1", "--steps", 220),
        *("--out", "data/cartpole", *SETTINGS),
    )
    assert recorded.status == 0, recorded.text
    assert "data/cartpole: " in recorded.out and "--data data/cartpole" in recorded.out
    logged = rllib(*train, "--data", "data/cartpole", "--experiment-name", "logged")
    assert logged.status == 0, logged.text
    assert "logged" in logged.out
    simulated = rllib(*train, "--env", "CartPole-v1", "--experiment-name", "simulated")
    assert simulated.status == 0, simulated.text
    assert digests(home / "logged") == digests(home / "simulated")


def test_mistakes_of_record_are_told_in_a_sentence(rllib_here, home):
    record = ["record", "--algo", "GeoffPAC", "--env", "CartPole-v1", "--steps", 50]
    (home / "full").mkdir()
    (home / "full" / "rows.parquet").write_bytes(b"")
    full = rllib_here(*record, "--out", "full")
    assert full.status == 2 and "holds a data set already" in full.err
    (home / "file").write_text("")
    file = rllib_here(*record, "--out", "file")
    assert file.status == 2 and "can't hold a data set (Not a directory)" in file.err
    below = rllib_here(*record, "--out", "file/below")
    assert below.status == 2 and "Traceback" not in below.text
    ppo = rllib_here("record", "--algo", "PPO", *record[3:], "--out", "out")
    assert ppo.status == 2 and "has no fixed behaviour policy to record" in ppo.err
    several = rllib_here(*record, "--out", "out", "--set", "seed={grid_search: [1, 2]}")
    assert several.status == 2 and "one value" in several.err


def test_a_data_set_that_is_not_there_is_noticed_before_ray_starts(rllib_here, home):
    missing = rllib_here("train", "--algo", "GeoffPAC", "--data", "nowhere")
    assert missing.status == 2 and "There is no data set at" in missing.err


OFFLINE = """
{name}:
  run: {algorithm}
  env: Hopper-v5
  stop: {{training_iteration: 1}}
  config:
    input_: data/hopper
    input_read_episodes: true
    input_read_batch_size: 20
    dataset_num_iters_per_learner: 2
    train_batch_size_per_learner: 256
    map_batches_kwargs: {{concurrency: 1, num_cpus: 0}}
    num_env_runners: 0
    evaluation_interval: 1
    evaluation_duration: 1
    evaluation_num_env_runners: 0{more}
"""


@pytest.mark.slow
@pytest.mark.skipif("RLLIB_OFFLINE_ALGORITHMS" not in os.environ, reason="takes minutes: opt-in")
@pytest.mark.parametrize("algorithm", ["BC", "MARWIL", "CQL", "IQL"])
def test_rllibs_own_offline_algorithms_learn_from_the_data(algorithm, rllib, home):
    record = ["record", "--algo", "GeoffPAC", "--env", "Hopper-v5", "--steps", 4000]
    assert rllib(*record, "--out", "data/hopper").status == 0
    more = "\n    lr: null" if algorithm in ("CQL", "IQL") else ""
    text = OFFLINE.format(name="offline", algorithm=algorithm, more=more)
    (home / "offline.yaml").write_text(text)
    trained = rllib("train", "file", "offline.yaml", "--storage-path", home)
    assert trained.status == 0, trained.text
    (results,) = (home / "offline").glob("*/result.json")
    assert "learners" in json.loads(results.read_text().splitlines()[-1])
