"""Lanes: seeds, splits, teleports, and coming back to a place from its anchor."""

import gymnasium as gym
import numpy as np
import pytest
from harness import Walk, built, stream_of, tiny_config
from ray.rllib.core.columns import Columns

from rllib_geoffpac.connectors import LaneAligner
from rllib_geoffpac.connectors.lane_aligner import CHAIN_START, DISCOUNT, VALID
from rllib_geoffpac.env_runners import BehaviorEnvRunner
from rllib_geoffpac.lanes.positions import LaneAnchor, split_lanes
from rllib_geoffpac.lanes.seeding import behavior_stream, evaluation_stream

DATA = ("observations", "actions", "rewards", "behavior_logp", "terminated", "truncated")


@pytest.mark.parametrize("num_lanes", [1, 5, 10])
@pytest.mark.parametrize("num_runners", [1, 2, 3])
def test_lanes_are_split_evenly_and_in_order(num_lanes, num_runners):
    parts = split_lanes(num_lanes, num_runners)
    assert [lane for part in parts for lane in part] == list(range(num_lanes))
    sizes = [len(part) for part in parts]
    assert len(sizes) == num_runners and max(sizes) - min(sizes) <= 1


def test_every_episode_of_every_lane_has_seeds_of_its_own():
    streams = [
        make(seed, first, second)
        for make in (behavior_stream, evaluation_stream)
        for seed in (0, 1)
        for first in range(6)
        for second in range(6)
    ]
    assert len({seed for seed, _ in streams}) == len(streams)
    assert len({rng.random() for _, rng in streams}) == len(streams)


def test_streams_are_the_same_on_every_machine():
    """The published definition of the data: changing it changes every result."""
    seed, rng = behavior_stream(0, lane=3, episode=2)
    again, rng_again = behavior_stream(0, lane=3, episode=2)
    assert seed == again and rng.random() == rng_again.random()
    parent = np.random.SeedSequence(0, spawn_key=(0, 3, 2))
    environment, actions = parent.spawn(2)
    assert seed == environment.generate_state(1)[0]
    expected = np.random.Generator(np.random.PCG64(actions)).random(2)[1]
    assert rng.random() == expected


def runner_for(**env_config) -> BehaviorEnvRunner:
    config = tiny_config(env_config=env_config)
    return BehaviorEnvRunner(config=config)


def sample(runner, start, count, anchor=None):
    anchor = anchor or LaneAnchor.start(range(5))
    return runner.sample(start=start, num_locksteps=count, anchor=anchor)


def test_teleports_go_to_the_reset_state_and_keep_the_final_observation():
    fragment = sample(runner_for(end=0.1, limit=4), 0, 60)
    ends = fragment.terminated | fragment.truncated
    assert fragment.terminated.any() and fragment.truncated.any()
    clock = fragment.observations[..., 2]  # Walk's time in its episode, as a share of the limit
    assert (clock[1:][ends] == 0).all()  # the lane goes on from the reset state
    assert (clock[1:][~ends] > 0).all()
    assert [tuple(i) for i in fragment.final_index] == sorted(
        map(tuple, np.argwhere(fragment.truncated)), key=lambda pair: (pair[1], pair[0])
    )
    assert (fragment.final_observations[:, 2] == 1).all()  # the clock has run out there


def test_the_chain_starts_once_and_goes_on_through_every_end():
    runner = runner_for()
    first, second = sample(runner, 0, 30), sample(runner, 30, 30)
    assert first.chain_start[0].all()
    assert first.chain_start.sum() == 5 and not second.chain_start.any()
    np.testing.assert_array_equal(first.observations[-1], second.observations[0])


def test_finished_episodes_are_reported_with_return_and_length():
    fragment = sample(runner_for(), 0, 40)
    lane = 2
    ends = np.flatnonzero((fragment.terminated | fragment.truncated)[:, lane])
    expected, start = [], 0
    for end in ends:
        expected.append((end, lane, fragment.rewards[start : end + 1, lane].sum(), end + 1 - start))
        start = end + 1
    reported = [episode for episode in fragment.finished if episode[1] == lane]
    np.testing.assert_allclose(reported, expected, rtol=1e-5)


@pytest.mark.parametrize("jump", [0, 1, 13])
def test_another_runner_continues_from_an_anchor(jump):
    """What happens after the loss of a runner: any incarnation answers with the same data."""
    original = runner_for()
    anchor = sample(original, 0, 21).end
    skipped = sample(original, 21, jump) if jump else None
    expected = sample(original, 21 + jump, 10)
    fresh = runner_for()
    fragment = sample(fresh, 21 + jump, 10, anchor)
    for name in DATA:
        np.testing.assert_array_equal(getattr(fragment, name), getattr(expected, name))
    assert not fragment.chain_start.any()
    assert fragment.finished == expected.finished
    assert fragment.events["lanes_resimulated"] == 5
    assert skipped is None or len(skipped) == 5 * jump


def test_a_runner_can_go_back():
    runner = runner_for()
    expected = sample(runner, 0, 12)
    sample(runner, 12, 9)
    fragment = sample(runner, 0, 12)
    for name in (*DATA, "chain_start"):
        np.testing.assert_array_equal(getattr(fragment, name), getattr(expected, name))


def test_an_anchor_can_be_split_and_joined():
    anchor = sample(runner_for(), 0, 17).end
    parts = [anchor.select(lanes) for lanes in split_lanes(5, 3)]
    joined = LaneAnchor.concatenate(parts)
    assert [part.lanes.tolist() for part in parts] == [[0, 1], [2, 3], [4]]
    assert joined.lockstep == 17
    for name in ("lanes", "episodes", "steps", "observations", "returns", "chain_starts"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(anchor, name))


class Moody(Walk):
    """Not deterministic given its reset seed."""

    moods = np.random.default_rng(0)

    def step(self, action):
        self._place = self._place + self.moods.normal(size=2)
        return super().step(action)


def test_an_environment_that_is_not_reproducible_starts_new_episodes(caplog):
    config = tiny_config().environment(Moody, env_config={"end": 0.0, "limit": 1000})
    anchor = sample(BehaviorEnvRunner(config=config), 0, 9).end
    fragment = sample(BehaviorEnvRunner(config=config), 9, 5, anchor)
    assert fragment.chain_start[0].all()  # the traces restart
    assert fragment.events["lanes_not_reproducible"] == 5
    np.testing.assert_array_equal(fragment.end.episodes, anchor.episodes + 1)
    assert "not deterministic given its reset seed" in caplog.text


def test_a_supplied_discount_is_recorded_and_others_are_left_open():
    supplied = sample(runner_for(discounts=True), 0, 30)
    assert set(np.unique(supplied.discounts)) == {np.float32(0.5), np.float32(0.9)}
    assert np.isnan(sample(runner_for(), 0, 5).discounts).all()


def aligned(truncation: str, **env_config):
    fragment = sample(runner_for(end=0.1, limit=4, **env_config), 0, 60)
    return fragment, LaneAligner(gamma=0.8, truncation=truncation).align([fragment])


def test_a_time_limit_counts_as_termination():
    fragment, columns = aligned("terminate")
    ends = fragment.terminated | fragment.truncated
    np.testing.assert_array_equal(columns[DISCOUNT], np.where(ends, 0, np.float32(0.8)))
    np.testing.assert_array_equal(columns[Columns.NEXT_OBS], fragment.observations[1:])
    assert (columns[VALID] == 1).all()


def test_a_time_limit_can_bootstrap_from_the_final_observation():
    fragment, columns = aligned("bootstrap")
    cut = fragment.truncated
    np.testing.assert_array_equal(
        columns[DISCOUNT], np.where(fragment.terminated, 0, np.float32(0.8))
    )
    assert (columns[Columns.NEXT_OBS][cut][:, 2] == 1).all()
    np.testing.assert_array_equal(columns[Columns.NEXT_OBS][~cut], fragment.observations[1:][~cut])
    np.testing.assert_array_equal(columns[VALID], ~cut)


@pytest.mark.parametrize("truncation", ["terminate", "bootstrap"])
def test_the_environments_discount_stands_except_at_terminations(truncation):
    fragment, columns = aligned(truncation, discounts=True)
    ends = fragment.terminated | (fragment.truncated & (truncation == "terminate"))
    np.testing.assert_array_equal(columns[DISCOUNT], np.where(ends, 0, fragment.discounts))


def test_fragments_are_aligned_in_lane_order_whatever_their_order():
    runner = runner_for()
    whole = sample(runner, 0, 12)
    config = tiny_config()
    parts = []
    for index in (1, 2):
        part = BehaviorEnvRunner(config=config, worker_index=index, num_workers=2)
        lanes = split_lanes(5, 2)[index - 1]
        parts.append(part.sample(start=0, num_locksteps=12, anchor=LaneAnchor.start(lanes)))
    batch = LaneAligner(gamma=0.9, truncation="terminate")(
        rl_module=None, batch={}, episodes=parts[::-1], shared_data={}
    )
    columns = batch["default_policy"]
    np.testing.assert_array_equal(columns[Columns.OBS], whole.observations[:-1])
    np.testing.assert_array_equal(columns[Columns.ACTIONS], whole.actions)
    np.testing.assert_array_equal(columns[CHAIN_START], whole.chain_start)


@pytest.mark.slow
def test_iterations_end_on_the_same_step_for_any_fragment_length(ray):
    for length in (4, 20, 100):
        with built(tiny_config().env_runners(rollout_fragment_length=length)) as algo:
            lengths = algo._fragment_lengths()
            drawn = [next(lengths) for _ in range(60)]
        ends = set(np.cumsum(drawn).tolist())
        assert {30, 60, 90} <= ends and max(drawn) <= length


def test_the_stream_hands_out_lanes_in_order(ray):
    with built(tiny_config()) as algo:
        (fragment,) = stream_of(algo, 6)
        assert algo.stream.anchor.lockstep == 6
    assert fragment.lanes.tolist() == [0, 1, 2, 3, 4]
    assert isinstance(Walk().action_space, gym.spaces.Box)
