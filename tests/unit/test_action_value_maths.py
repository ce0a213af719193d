"""The small equations of action values, and the random numbers of the actor."""

import numpy as np
import pytest
from array_libraries import assert_same, every_library

from rllib_geoffpac.lanes.seeding import action_noise
from rllib_geoffpac.maths.action_values import (
    counterfactual_action_value_loss,
    lower,
    return_range,
    worth_scale,
)

FIRST, SECOND = np.array([1.0, -2.0, 3.0]), np.array([0.5, -1.0, 4.0])
TARGET = np.array([0.0, 1.0, 1.0])


def test_the_lower_critic_is_the_lower_one_in_every_row():
    np.testing.assert_array_equal(lower([FIRST, SECOND]), [0.5, -2.0, 3.0])
    np.testing.assert_array_equal(lower([SECOND]), SECOND)


def test_cut_transitions_are_left_out_of_the_mean():
    valid = np.array([1.0, 0.0, 1.0])
    loss = counterfactual_action_value_loss([FIRST, SECOND], TARGET, valid)
    assert loss == pytest.approx(((1 + 4) + (0.25 + 9)) / 2)
    assert counterfactual_action_value_loss([FIRST, SECOND], TARGET, 0 * valid) == 0


def test_the_scale_is_the_mean_deviation_and_never_zero():
    assert worth_scale(np.array([1.0, 3.0, 5.0])) == pytest.approx(4 / 3)
    assert worth_scale(np.full(3, 7.0)) == 1


@pytest.mark.parametrize(
    ("rewards", "discount"), [((-1.0, 2.0), 0.9), ((0.5, 3.0), 0.5), ((-3.0, -1.0), 0.8)]
)
def test_no_return_leaves_the_range_and_the_extremes_are_reached(rewards, discount):
    low, high = return_range(*rewards, discount)
    rng = np.random.default_rng(0)
    weights = discount ** np.arange(400)
    returns = [rng.uniform(*rewards, n) @ weights[:n] for n in rng.integers(1, 400, 200)]
    lengths = np.cumsum(weights)[[0, -1]]  # one step, and as good as infinitely many
    returns += [reward * length for reward in rewards for length in lengths]
    assert min(returns) == pytest.approx(low) and max(returns) == pytest.approx(high)
    assert return_range(*rewards, 1.0) == (-np.inf, np.inf)


@every_library
def test_every_array_library_gives_the_same(library):
    valid = np.array([1.0, 0.0, 1.0])

    def loss(first, second, target, valid):
        return counterfactual_action_value_loss([first, second], target, valid)

    assert_same(library, loss, FIRST, SECOND, TARGET, valid)
    assert_same(library, lambda *values: lower(values), FIRST, SECOND)
    assert_same(library, worth_scale, FIRST)


def test_the_noise_of_a_lockstep_depends_on_nothing_but_seed_and_lockstep():
    whole = action_noise(3, 10, 7, 13)
    parts = [(10, 2), (12, 1), (13, 4)]
    cut = np.concatenate([action_noise(3, start, count, 13) for start, count in parts])
    np.testing.assert_array_equal(cut, whole)
    assert len(np.unique(whole)) == whole.size
    assert not np.isin(action_noise(4, 10, 7, 13), whole).any()


def test_the_noise_is_uniform():
    numbers = np.sort(action_noise(0, 0, 1000, 20).ravel())
    assert abs(numbers - np.linspace(0, 1, len(numbers))).max() < 0.02
