"""Writing data sets, and learning the same from them as from the simulation."""

import numpy as np
import pytest
from connector_pieces import StructuredWalk, flattened
from harness import built, digests, tiny_config, train
from logged_data import PreciseWalk

from rllib_geoffpac import DDPGConfig, TD3Config
from rllib_geoffpac.data import DataError, open_data_set
from rllib_geoffpac.data.record import record_data
from rllib_geoffpac.env_runners import BehaviorEnvRunner
from rllib_geoffpac.lanes.positions import LaneAnchor

pytestmark = pytest.mark.usefixtures("ray")

LOCKSTEPS = 90  # of 5 lanes: three iterations


def simulated(algorithm: str = "GeoffPAC", **env_config):
    config = tiny_config(algorithm).environment(PreciseWalk, env_config=env_config)
    return config.env_runners(num_env_runners=0)


def from_data(config, out: str, num_env_runners: int = 0):
    config = config.copy(copy_frozen=False).offline_data(input_=out)
    return config.env_runners(num_env_runners=num_env_runners)


@pytest.mark.slow
@pytest.mark.parametrize("env_config", [{}, {"discounts": True}, {"end": 0, "limit": 1000}])
def test_a_recorded_simulation_gives_the_weights_of_the_simulation(tmp_path, env_config):
    config = simulated(**env_config)
    recorded = record_data(config, str(tmp_path / "data"), 5 * LOCKSTEPS)
    assert recorded.steps >= 5 * LOCKSTEPS
    want = digests(config)
    assert digests(from_data(config, recorded.place)) == want
    without_env = from_data(config, recorded.place, 0 if env_config else 2)
    without_env.env = None
    assert digests(without_env) == want


@pytest.mark.slow
def test_so_does_one_in_minari(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    config = simulated(discounts=True)
    recorded = record_data(config, "minari:walk/uniform-v0", 5 * LOCKSTEPS)
    assert digests(from_data(config, recorded.place)) == digests(config)
    with pytest.raises(DataError, match="minari:walk/uniform-v0 exists already"):
        record_data(config, "minari:walk/uniform-v0", 5)


@pytest.mark.slow
@pytest.mark.parametrize("out", ["data", "minari:walk/structured-v0"])
def test_so_does_one_of_dict_and_tuple_observations(tmp_path, monkeypatch, out):
    if "minari" in out:
        pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    config = (
        tiny_config()
        .environment(StructuredWalk)
        .env_runners(num_env_runners=0, env_to_module_connector=flattened)
    )
    recorded = record_data(config, out, 5 * LOCKSTEPS)
    assert digests(from_data(config, recorded.place), 2) == digests(config, 2)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ACE", "OffPAC", "DDPG", "TD3"])
def test_every_algorithm_learns_from_data(tmp_path, algorithm):
    config = simulated("ACE")
    recorded = record_data(config, str(tmp_path), 5 * LOCKSTEPS)
    if algorithm in ("DDPG", "TD3"):
        deterministic = {"DDPG": DDPGConfig, "TD3": TD3Config}[algorithm]()
        config = (
            deterministic.environment(PreciseWalk, env_config={})
            .training(num_lanes=5, learning_starts=50, replay_batch_size=8, kernel="torch")
            .rl_module(model_config={"fcnet_hiddens": [8, 8]})
            .reporting(min_sample_timesteps_per_iteration=150)
        )
    else:
        config = simulated(algorithm)
    assert digests(from_data(config, recorded.place)) == digests(config)


def test_the_data_set_holds_what_the_lanes_see_in_rounds_of_whole_episodes(tmp_path):
    config = simulated()
    recorded = record_data(config, str(tmp_path), 60)
    runner = BehaviorEnvRunner(config=config, worker_index=0, num_workers=0)
    fragment = runner.sample(start=0, num_locksteps=40, anchor=LaneAnchor.start(range(5)))
    episodes = list(open_data_set(str(tmp_path)).episodes())
    assert len(episodes) == recorded.episodes and len(episodes) % 5 == 0
    assert sum(map(len, episodes)) == recorded.steps
    assert all(episode.is_done for episode in episodes)
    assert episodes[0].observations.dtype == np.float64
    for lane in range(5):
        rewards = np.concatenate([episode.rewards for episode in episodes[lane::5]])
        assert len(rewards) >= 12
        common = min(40, len(rewards))
        np.testing.assert_array_equal(
            rewards[:common].astype(np.float32), fragment.rewards[:common, lane]
        )
    with pytest.raises(DataError, match="holds a data set already"):
        record_data(config, str(tmp_path), 5)


@pytest.mark.slow
def test_training_writes_what_it_learns_from_and_goes_on_writing_after_a_checkpoint(tmp_path):
    config = simulated().offline_data(output=str(tmp_path / "whole"))
    with built(config) as algo:
        train(algo, 4)
    cut = simulated().offline_data(output=str(tmp_path / "cut"))
    with built(cut.env_runners(num_env_runners=2)) as algo:
        train(algo, 2)
        checkpoint = algo.save_to_path(str(tmp_path / "checkpoint"))
        train(algo, 1)  # is written, and once more after the restore
    with built(cut) as algo:
        algo.restore_from_path(checkpoint)
        train(algo, 2)
    whole, resumed = (
        list(open_data_set(str(tmp_path / name)).episodes()) for name in ("whole", "cut")
    )
    assert len(whole) == len(resumed) > 20
    for one, other in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(one.observations, other.observations)
        np.testing.assert_array_equal(one.logp, other.logp)
    assert len(digests(from_data(simulated(), str(tmp_path / "whole")))) == 3
