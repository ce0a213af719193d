"""Environments that fail or return nonsense: one lane at a time, without Ray."""

import gymnasium as gym
import numpy as np
import pytest
from fault_envs import DriftEnv

from rllib_geoffpac.lanes.behavior import make_behavior
from rllib_geoffpac.lanes.seeding import behavior_stream
from rllib_geoffpac.lanes.simulated import EnvironmentFailure, SimulatedLane

SEED, LANE = 3, 1


def lane_of(env_class=DriftEnv, max_failures=0, **env_config) -> SimulatedLane:
    return SimulatedLane(
        lambda: env_class(env_config),
        lambda env: make_behavior("uniform", env),
        SEED,
        LANE,
        max_failures,
    )


def seed_of(episode: int) -> int:
    return behavior_stream(SEED, LANE, episode)[0]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("nan_observation", "the observation is"),
        ("nan_final_observation", "the observation is"),
        ("inf_reward", "the reward is inf"),
        ("discount", "the discount .* is 1.5"),
        ("array_reward", "step raised TypeError"),
        ("shape", r"the observation has shape \(2,\) instead of \(3,\)"),
        ("dtype", "the observation has dtype <U"),
        ("raise", "step raised OSError: the simulator lost its connection"),
    ],
)
@pytest.mark.parametrize("fragment", [7, 400])
def test_a_bad_step_is_refused_with_its_place_and_seed(fault, message, fragment):
    lane = lane_of(fault=fault, fault_seed=seed_of(1), fault_step=4)
    with pytest.raises(EnvironmentFailure, match=message) as raised:
        for _ in range(0, 400, fragment):
            lane.run(fragment)
    assert f"DriftEnv, lane {LANE}, episode 1, step 3" in str(raised.value)
    assert f"reset(seed={seed_of(1)})" in str(raised.value)


@pytest.mark.parametrize("episode", [0, 1])
def test_a_bad_reset_is_refused_with_its_place_and_seed(episode):
    lane = lane_of(fault="nan_in_reset", fault_seed=seed_of(episode))
    with pytest.raises(EnvironmentFailure, match=f"episode {episode}, step 0.*nan.*after reset"):
        lane.run(400)


class CountingEnv(gym.Env):
    """States 0, 1, 2, ... of which the space knows two."""

    observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)

    def __init__(self, config):
        self.increment = config["increment"]

    def reset(self, *, seed=None, options=None):
        self.state = 0
        return self.state, {}

    def step(self, action):
        self.state += self.increment
        return self.state, 0.0, False, False, {}


@pytest.mark.parametrize(("increment", "message"), [(1, "is 2"), (0.5, "dtype float64")])
def test_a_state_that_the_space_does_not_know_is_refused(increment, message):
    with pytest.raises(EnvironmentFailure, match=message):
        lane_of(CountingEnv, increment=increment).run(5)


@pytest.mark.parametrize("fault", ["raise", "raise_in_reset"])
def test_a_failed_episode_is_skipped_and_the_chain_restarts(fault):
    healthy_lane = lane_of()
    healthy = healthy_lane.run(400)
    lane = lane_of(max_failures=2, fault=fault, fault_seed=seed_of(2), fault_step=4)
    columns = lane.run(400)
    assert lane.events["env_failures"] == 1
    start_of_3 = [row for row, episode, _ in lane.starts if episode == 3]
    np.testing.assert_array_equal(np.flatnonzero(columns.chain_start), [0, *start_of_3])
    # Episode 3 is what it would have been, only earlier.
    (row,) = start_of_3
    (undisturbed,) = [row for row, episode, _ in healthy_lane.starts if episode == 3]
    np.testing.assert_array_equal(
        columns.observations[row : row + 401 - undisturbed], healthy.observations[undisturbed:]
    )


def test_a_chain_that_restarts_at_a_border_does_so_in_a_rebuilt_lane_too():
    fault = {"fault": "raise_in_reset", "fault_seed": seed_of(2)}
    whole = lane_of(max_failures=1, **fault)
    expected = whole.run(400)
    (border,) = [row for row, episode, _ in whole.starts if episode == 3]
    before = lane_of(max_failures=1, **fault)
    before.run(border)
    assert before.position.chain_starts and before.position.episode == 3
    rebuilt = lane_of(max_failures=1, **fault)
    rebuilt.seek(before.position)
    after = rebuilt.run(20)
    assert after.chain_start.tolist() == [True] + 19 * [False]
    for name in ("chain_start", "actions", "rewards"):
        rows = getattr(expected, name)[border : border + 20]
        np.testing.assert_array_equal(getattr(after, name), rows)


def test_too_many_failures_in_a_row_end_with_the_original_error():
    lane = lane_of(max_failures=3, fault="raise", fault_step=1)
    with pytest.raises(EnvironmentFailure, match="lost its connection") as raised:
        lane.run(50)
    assert isinstance(raised.value.__cause__, OSError)
    assert lane.events["env_failures"] == 4


@pytest.mark.parametrize("fault", ["raise", "raise_in_reset"])
def test_a_lane_whose_episode_fails_when_it_is_simulated_again_starts_a_new_one(fault):
    lane = lane_of()
    lane.run(5)
    again = lane_of(max_failures=1, fault=fault, fault_seed=seed_of(0), fault_step=3)
    again.seek(lane.position)
    assert (again.episode, again.step) == (1, 0)
    assert again.run(3).chain_start.tolist() == [True, False, False]
