"""The replay ring: what goes in comes out, the oldest is overwritten, memory stays flat."""

from __future__ import annotations

import numpy as np
import pytest

from rllib_geoffpac.lanes.replay_ring import ReplayRing

LANES = 4


def rows(first: int, count: int) -> dict[str, np.ndarray]:
    """Locksteps whose every number is that of the lockstep; the lane is beside it."""
    number = np.repeat(np.arange(first, first + count)[:, None], LANES, axis=1)
    return {
        "obs": np.repeat(number[..., None], 3, axis=2).astype(np.float32),
        "actions": number.astype(np.int64),
        "lane": np.tile(np.arange(LANES, dtype=np.int8), (count, 1)),
        "valid": np.ones((count, LANES), np.float32),
    }


def held(ring: ReplayRing) -> set[int]:
    return set(ring.get_state()["rows"]["actions"][:, 0].tolist())


@pytest.mark.parametrize("at_once", [1, 3, 7, 25])
def test_the_latest_rows_are_kept(at_once):
    ring = ReplayRing(10)
    for first in range(0, 25, at_once):
        ring.add(rows(first, min(at_once, 25 - first)))
    assert ring.size == 10 and held(ring) == set(range(15, 25))


def test_a_drawn_row_is_one_lockstep_of_all_lanes_in_lane_order():
    ring = ReplayRing(5000)
    ring.add(rows(0, 1500))
    ring.add(rows(1500, 1500))
    drawn = ring.sample(np.random.default_rng(0), 200)
    expected = np.random.default_rng(0).integers(3000, size=200)
    np.testing.assert_array_equal(drawn["actions"], np.repeat(expected, LANES))
    np.testing.assert_array_equal(drawn["obs"][:, 2], np.repeat(expected, LANES))
    np.testing.assert_array_equal(drawn["lane"], np.tile(np.arange(LANES), 200))
    assert {name: column.dtype for name, column in drawn.items()} == {
        name: column.dtype for name, column in rows(0, 1).items()
    }


def test_single_transitions_are_drawn_from_all_rows_and_lanes():
    ring = ReplayRing(50)
    ring.add(rows(0, 30))
    drawn = ring.unpack(ring.draw_transitions(np.random.default_rng(0), 4000))
    assert set(zip(drawn["actions"].tolist(), drawn["lane"].tolist(), strict=True)) == {
        (row, lane) for row in range(30) for lane in range(LANES)
    }
    np.testing.assert_array_equal(drawn["obs"][:, 0], drawn["actions"])


@pytest.mark.parametrize("capacity", [100, 12])
def test_rows_are_drawn_before_the_next_one_enters(capacity):
    """At once or one by one: the same rows, also where the ring overwrites what was drawn."""
    together, apart = ReplayRing(capacity), ReplayRing(capacity)
    for ring in (together, apart):
        ring.add(rows(0, 10))
    generators = [np.random.default_rng(3) for _ in range(2)]
    drawn = together.unpack(together.draw_and_add(generators[0], 4, rows(10, 8)))
    for t in range(8):
        expected = apart.sample(generators[1], 4)
        apart.add(rows(10 + t, 1))
        for name, column in expected.items():
            np.testing.assert_array_equal(drawn[name][t], column)
    after = [ring.sample(np.random.default_rng(9), 50) for ring in (together, apart)]
    np.testing.assert_array_equal(after[0]["actions"], after[1]["actions"])


def test_what_was_drawn_does_not_change_with_the_ring():
    ring = ReplayRing(3)
    ring.add(rows(0, 3))
    drawn = ring.sample(np.random.default_rng(0), 2)
    before = drawn["obs"].copy()
    ring.add(rows(3, 3))
    np.testing.assert_array_equal(drawn["obs"], before)


def test_memory_is_taken_as_the_ring_fills_and_then_no_more():
    ring = ReplayRing(100_000)
    ring.add(rows(0, 10))
    assert ring.nbytes < 100_000 * LANES * 32 / 50
    ring.add(rows(10, 99_990))
    full = ring.nbytes
    ring.add(rows(100_000, 5000))
    assert ring.nbytes == full


def test_a_transition_of_half_cheetah_takes_about_200_bytes():
    ring, lanes = ReplayRing(2000), 10
    widths = {"obs": 17, "actions": 6, "new_obs": 17}
    columns = {name: np.zeros((2000, lanes, n), np.float32) for name, n in widths.items()}
    for name in ("rewards", "action_logp", "discount", "valid"):
        columns[name] = np.zeros((2000, lanes), np.float32)
    ring.add(columns)
    assert ring.nbytes / (2000 * lanes) <= 200


def test_a_restored_ring_goes_on_as_the_saved_one():
    saved, restored = ReplayRing(8), ReplayRing(8)
    saved.add(rows(0, 11))
    restored.set_state(saved.get_state())
    for ring in (saved, restored):
        ring.add(rows(11, 2))
    assert held(saved) == held(restored) == set(range(5, 13))
    draws = [ring.sample(np.random.default_rng(1), 9)["obs"] for ring in (saved, restored)]
    np.testing.assert_array_equal(*draws)


def test_a_ring_of_another_capacity_is_not_restored():
    with pytest.raises(ValueError, match="replay_capacity"):
        ReplayRing(8).set_state(ReplayRing(9).get_state())


@pytest.mark.parametrize("capacity", [100, 12])
def test_windows_are_consecutive_locksteps_that_end_with_the_drawn_one(capacity):
    """However the rows are added, also where the ring has begun to overwrite."""
    whole, cut = ReplayRing(capacity), ReplayRing(capacity)
    for ring in (whole, cut):
        ring.add(rows(0, 1))
    generators = [np.random.default_rng(3), np.random.default_rng(3)]
    together = whole.draw_windows_and_add(generators[0], 5, 3, rows(1, 30))
    parts = [cut.draw_windows_and_add(generators[1], 5, 3, rows(t, 1)) for t in range(1, 31)]
    packed, exists = together
    np.testing.assert_array_equal(exists, np.concatenate([part[1] for part in parts]))
    drawn, again = whole.unpack(packed), cut.unpack(np.concatenate([part[0] for part in parts]))
    for name, column in drawn.items():
        np.testing.assert_array_equal(column, again[name])
    numbers = drawn["actions"].reshape(30, 4, 5, LANES)
    np.testing.assert_array_equal(drawn["lane"], np.tile(np.arange(LANES), (30, 4, 5)))
    for t in range(30):
        oldest = max(0, t + 1 - capacity)
        assert (numbers[t, -1] >= min(oldest + 3, t)).all() and (numbers[t, -1] <= t).all()
        for k in range(4):
            expected = numbers[t, -1] - (3 - k)
            there = exists[t, k]
            np.testing.assert_array_equal(there, expected[:, 0] >= 0)
            np.testing.assert_array_equal(numbers[t, k][there], expected[there])
    assert exists[3:].all()
