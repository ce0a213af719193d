"""Learning from logged data: what is refused, passes over the data, estimated mu, memory."""

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from harness import Walk, built, digests, tiny_config, train
from logged_data import columns_of, walk_episodes, write_columns

from rllib_geoffpac.data import DataError, DataSettings
from rllib_geoffpac.data.episodes import LoggedEpisode
from rllib_geoffpac.data.estimated_density import estimate_density
from rllib_geoffpac.data.survey import survey_data
from rllib_geoffpac.lanes.logged import EpisodeDealer, LoggedLane
from rllib_geoffpac.maths.distributions import make_distribution

pytestmark = pytest.mark.usefixtures("ray")

EPISODES = walk_episodes(60)
SPACES = Walk().observation_space, Walk().action_space


@pytest.fixture(scope="module")
def data(tmp_path_factory, ray) -> str:
    return str(write_columns(tmp_path_factory.mktemp("data"), columns_of(EPISODES), 100))


def survey(folder, behavior="uniform", num_lanes=5, **settings):
    return survey_data(DataSettings(str(folder), **settings), SPACES, behavior, num_lanes)


@pytest.mark.slow
def test_uniform_actions_need_no_logged_densities(tmp_path, data):
    columns = columns_of(EPISODES)
    del columns["action_logp"]
    write_columns(tmp_path, columns, 100)
    config = tiny_config()
    with_logp, without = (
        digests(config.copy(copy_frozen=False).offline_data(input_=folder), 1)
        for folder in (data, str(tmp_path))
    )
    assert with_logp == without


def test_more_lanes_than_episodes_are_refused(data):
    with pytest.raises(DataError, match=r"60 episodes for `num_lanes`=61: .*at most 60"):
        survey(data, num_lanes=61)


class Half:
    """A known policy: half the uniform density."""

    def logp(self, observations, actions):
        assert len(observations) == len(actions)
        return np.full(len(actions), np.log(0.125))


def test_a_known_policy_tells_the_densities(data):
    assert next(map(survey(data, Half()).fitter(), survey(data).data.episodes())).logp[0] == (
        np.log(0.125)
    )
    with pytest.raises(DataError, match="has no method `logp"):
        survey(data, lambda observation_space, action_space: object())


def test_a_lane_starts_over_with_fresh_traces(data):
    found = survey(data)
    lane = LoggedLane(EpisodeDealer(found, range(5), 5), 2)
    mine = EPISODES[2::5]
    steps = sum(len(episode["actions"]) for episode in mine)
    twice = [lane.run(steps), lane.run(steps)]
    for columns in twice:
        assert np.flatnonzero(columns.chain_start).tolist() == [0]
        np.testing.assert_array_equal(
            columns.rewards, np.concatenate([episode["rewards"] for episode in mine])
        )
        assert len(columns.finished) == len(mine)
    # The last transition of a pass leads to the first state, as after any reset.
    np.testing.assert_array_equal(twice[0].observations[-1], twice[1].observations[0])


@pytest.mark.slow
def test_passes_over_the_data_are_counted_and_resume_exactly(data, tmp_path):
    config = tiny_config().offline_data(input_=data)
    steps = sum(len(episode["actions"]) for episode in EPISODES)
    with built(config) as algo:
        results = train(algo, 3)
        checkpoint = algo.save_to_path(str(tmp_path / "checkpoint"))
        want = train(algo, 2)[-1]
    assert [result["data_epochs"] for result in results] == [150 / steps, 300 / steps, 450 / steps]
    assert results[-1]["data_epochs"] > 1 and want["data_source"] == "logged"
    resumed = tiny_config().offline_data(input_=data).env_runners(num_env_runners=2)
    with built(resumed) as algo:
        algo.restore_from_path(checkpoint)
        assert train(algo, 2)[-1]["weights_digest"] == want["weights_digest"]


def test_another_data_set_under_the_same_name_is_noticed(data, tmp_path):
    found = survey(data)
    lane = LoggedLane(EpisodeDealer(found, range(5), 5), 0)
    lane.run(12)
    place = lane.position
    write_columns(tmp_path, columns_of(EPISODES[1:]), 100)
    other = LoggedLane(EpisodeDealer(survey(tmp_path), range(5), 5), 0)
    other.seek(place)
    with pytest.raises(DataError, match="the data set has changed since"):
        other.run(1)


def known_policy_episodes(count: int) -> list[LoggedEpisode]:
    """A truncated Gaussian around half the first observation, std 0.3, in a box of two."""
    rng = np.random.default_rng(0)
    distribution = make_distribution(SPACES[1], "truncated_gaussian")
    std = np.full(2, np.log(np.expm1(0.3 - 1e-3)))
    episodes = []
    for number in range(count):
        observations = rng.normal(size=(51, 3)).astype(np.float32)
        outputs = np.arctanh(0.5 * np.tanh(observations[:-1, :2]))
        actions = distribution.sample(outputs, std, rng)
        logp = distribution.log_prob(outputs, std, actions.astype(np.float64))
        episodes.append(
            LoggedEpisode(number, "", observations, actions, np.zeros(50), True, False, logp)
        )
    return episodes


@pytest.mark.slow
def test_an_estimated_density_comes_near_the_true_one_and_is_the_same_again():
    episodes = known_policy_episodes(60)
    density, report = estimate_density(episodes, *SPACES, seed=3)
    assert report["behavior_model"] in ("truncated_gaussian", "beta")
    true = np.mean([episode.logp.mean() for episode in episodes[9::10]])
    assert report["behavior_log_likelihood"] == pytest.approx(true, abs=0.05)
    assert report["behavior_log_likelihood_uniform"] < true - 0.3
    again, _ = estimate_density(episodes, *SPACES, seed=3)
    np.testing.assert_array_equal(density(episodes[0]), again(episodes[0]))


def test_a_table_is_estimated_for_discrete_states_and_actions():
    rng = np.random.default_rng(0)
    table = np.array([[0.2, 0.8], [0.6, 0.4], [0.5, 0.5]])
    episodes = []
    for number in range(100):
        states = rng.integers(3, size=41)
        actions = (rng.random(40) > table[states[:-1], 0]).astype(np.int64)
        episodes.append(LoggedEpisode(number, "", states, actions, np.zeros(40), True, False))
    spaces = gym.spaces.Discrete(3), gym.spaces.Discrete(2)
    density, report = estimate_density(episodes, *spaces)
    assert report["behavior_model"] == "table"
    first = episodes[0]
    want = np.log(table[first.observations[:-1], first.actions])
    np.testing.assert_allclose(density(first), want, atol=0.1)


READ_ALL = """
import resource, sys
import ray
ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False,
         logging_level="ERROR", object_store_memory=100 * 2**20)
import gymnasium as gym, numpy as np
from rllib_geoffpac.data import DataSettings
from rllib_geoffpac.data.survey import survey_data
from rllib_geoffpac.lanes.logged import EpisodeDealer, LoggedLane

observations = gym.spaces.Box(-np.inf, np.inf, (500,), np.float32)
spaces = observations, gym.spaces.Box(-1, 1, (1,), np.float32)
found = survey_data(DataSettings(sys.argv[1]), spaces, "uniform", 4)
dealer = EpisodeDealer(found, range(4), 4)
lanes = [LoggedLane(dealer, lane) for lane in range(4)]
used = []
for _ in range(16):
    for lane in lanes:
        lane.run(found.steps // 4 // 8)
    used.append(int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 2**20)
print(found.steps, *used)
"""


@pytest.mark.slow
def test_memory_stays_flat_on_a_large_data_set(tmp_path):
    """40 MB in which one lane's episodes are far longer than the others', twice."""
    rng = np.random.default_rng(0)
    episodes = []
    for number in range(200):
        steps = 250 if number % 4 == 0 else 50
        episodes.append(
            {
                "observations": rng.normal(size=(steps + 1, 500)).astype(np.float32),
                "actions": rng.uniform(-1, 1, (steps, 1)).astype(np.float32),
                "rewards": np.zeros(steps),
                "terminated": True,
                "truncated": False,
                "logp": np.full(steps, -np.log(2)),
            }
        )
    columns = columns_of(episodes)
    del columns["new_obs"]
    write_columns(tmp_path, columns, 2_000)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) > 30e6
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, str(tmp_path)],
        capture_output=True,
        text=True,
        env={"PATH": "", "HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steps, *used = map(float, done.stdout.split())
    assert steps == 50 * 250 + 150 * 50
    assert max(used[8:]) < max(used[:8]) + 15, used
