"""`rllib evaluate --data` and `evaluate_offline`: a checkpoint's policy on logged data."""

import copy
import json
import logging
import sys

import numpy as np
import pytest
from harness import built, tiny_config
from logged_data import columns_of, walk_episodes, write_columns
from ray.rllib.connectors.env_to_module import EnvToModulePipeline, MeanStdFilter
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_geoffpac import evaluate_offline
from rllib_geoffpac.checkpoints import read_weights
from rllib_geoffpac.compat import freeze_statistics
from rllib_geoffpac.offline_evaluation.checkpoint import evaluate_config
from rllib_geoffpac.offline_evaluation.evaluation import ESTIMATORS, FITTED_Q

pytestmark = [pytest.mark.usefixtures("ray"), pytest.mark.slow]  # an algorithm and Ray Data


@pytest.fixture(scope="module")
def place(tmp_path_factory, ray):
    """A folder with a checkpoint, and data of the same environment."""
    folder = tmp_path_factory.mktemp("logged")
    with built(tiny_config()) as algorithm:
        algorithm.train()
        algorithm.save_to_path(folder / "checkpoint")
    write_columns(folder / "data", columns_of(walk_episodes(60)), rows_per_file=1000)
    return folder


@pytest.fixture
def rllib(place, capfd, monkeypatch):
    """Runs the command in this process."""
    from rllib_cli import interruption
    from rllib_cli.main import main

    monkeypatch.setattr(interruption, "listen", lambda: None)  # Ctrl-C is pytest's
    monkeypatch.setattr(logging, "raiseExceptions", False)

    def call(*arguments):
        monkeypatch.chdir(place)
        monkeypatch.setattr(sys, "argv", ["rllib", "evaluate", *map(str, arguments)])
        capfd.readouterr()
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = ended.code or 0
        out, err = capfd.readouterr()
        return status, out + err

    return call


def test_the_function_estimates_every_objective_and_is_a_function_of_its_seed(place):
    results = [
        evaluate_offline(place / "checkpoint", str(place / "data"), updates=30, seed=seed)
        for seed in (0, 0, 1)
    ]
    assert {e.objective for e in results[0].estimates} == {"j_pi", "j_mu", "j_gamma_hat"}
    assert {e.estimator for e in results[0].estimates} == set(ESTIMATORS)
    assert repr(results[0]) == repr(results[1]) != repr(results[2])
    assert results[0].num_episodes == 60


def test_the_mean_action_alone_has_no_density(place):
    result = evaluate_offline(
        place / "checkpoint", str(place / "data"), updates=30, deterministic=True
    )
    assert {e.estimator for e in result.estimates} == {FITTED_Q}
    assert "pi has no density" in result.warnings[0]


def test_the_command_prints_a_table_and_writes_json(place, rllib):
    status, text = rllib(
        "checkpoint", "--data", "data", "--updates", "30", "--out", "r.json", "--gamma-hat", "0.5"
    )
    assert status == 0, text
    assert "60 episodes" in text and "overlap" in text and "J_gamma_hat 0.5" in text
    assert all(estimator in text for estimator in ESTIMATORS)
    report = json.loads((place / "r.json").read_text())
    assert report["algorithm"] == "GeoffPAC" and len(report["estimates"]) == 15


@pytest.fixture(scope="module")
def normalised(tmp_path_factory, place):
    """A checkpoint of a policy that sees normalised observations."""
    folder = tmp_path_factory.mktemp("normalised") / "checkpoint"
    config = tiny_config().env_runners(
        env_to_module_connector=lambda env, spaces, device: MeanStdFilter()
    )
    with built(config) as algorithm:
        algorithm.train()
        algorithm.save_to_path(folder)
    return folder


def test_logged_observations_pass_the_connectors_as_they_were_saved(place, normalised):
    pipeline = EnvToModulePipeline.from_checkpoint(
        normalised / "env_runner/env_to_module_connector"
    )
    assert all(freeze_statistics(piece) for piece in pipeline.connectors if "Mean" in str(piece))

    def seen(observation):
        episode = SingleAgentEpisode()
        episode.add_env_reset(observation)
        batch = pipeline(
            episodes=[episode], batch={}, rl_module=None, explore=False, shared_data={}
        )
        return np.asarray(batch["obs"][0], np.float32)

    raw = walk_episodes(20)
    for episode in (passed := copy.deepcopy(raw)):
        episode["observations"] = np.array([seen(o) for o in episode["observations"]])
    assert np.abs(passed[0]["observations"] - raw[0]["observations"]).max() > 0.1
    for name, episodes in (("raw", raw), ("passed", passed)):
        write_columns(normalised.parent / name, columns_of(episodes), rows_per_file=1000)
    got = evaluate_offline(normalised, str(normalised.parent / "raw"), updates=5)
    want = evaluate_config(
        tiny_config(), read_weights(normalised), str(normalised.parent / "passed"), updates=5
    )
    assert repr(got) == repr(want)


def test_actions_that_a_connector_changes_have_no_density(place):
    config = tiny_config().env_runners(module_to_env_connector=lambda env, spaces, device: [])
    with pytest.raises(ValueError, match="`module_to_env_connector` changes pi's actions"):
        evaluate_config(config, read_weights(place / "checkpoint"), str(place / "data"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--data", "none"], ["none"]),
        (["--data", "data", "--video-dir", "v"], ["--video-dir", "--data"]),
        (["--data", "data", "--episodes", "3"], ["--episodes", "--data"]),
        (["--data", "data", "--gamma-hat", "2"], ["--gamma-hat", "from 0 to 1"]),
        (["--data", "data", "--updates", "0"], ["--updates", "at least 1"]),
        (["--gamma-hat", "0.5"], ["--gamma-hat", "--data"]),
    ],
)
def test_a_mistake_gets_one_sentence(rllib, options, says):
    status, text = rllib("checkpoint", *options)
    assert status == 2 and "Traceback" not in text
    assert [word for word in says if word not in text] == []
