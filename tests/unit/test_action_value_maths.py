"""The small equations of action values, and the random numbers of the actor."""

import numpy as np
import pytest
import torch
from array_libraries import assert_same, every_library

from rllib_geoffpac.lanes.seeding import action_noise
from rllib_geoffpac.maths.action_values import (
    conservative_loss,
    cost_of_ends,
    counterfactual_action_value_loss,
    lower,
    return_range,
    worth_scale,
)
from rllib_geoffpac.maths.deterministic import critic_loss

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


def conservative_minimum(penalty) -> tuple[np.ndarray, np.ndarray]:
    """Where both losses are least over a table of Q, for pairs as often as mu and pi take them.

    Returns:
        The minimum, and y - b (pi / mu - 1) [4, 3].
    """
    mu, pi = (torch.tensor(p, dtype=torch.float64) for p in ([0.5, 0.3, 0.2], [0.1, 0.3, 0.6]))
    y = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 3)))
    taken, own = (np.repeat(np.arange(3), (10 * p).round().int()) for p in (mu, pi))
    table = torch.zeros(4, 3, dtype=torch.float64, requires_grad=True)
    target, said, drawn = (t.reshape(-1) for t in (y[:, taken], table[:, taken], table[:, own]))
    loss = critic_loss([said], target) + penalty([drawn], [said], 0.7)
    (gradient,) = torch.autograd.grad(loss, [table])
    # A parabola over every entry, as steep as mu is large: one Newton step leads to its bottom.
    return (-gradient / (2 * mu / 4)).numpy(), (y - 0.7 * (pi / mu - 1)).numpy()


def test_conservative_values_are_lower_by_the_excess_of_pi_over_mu():
    np.testing.assert_allclose(*conservative_minimum(conservative_loss), atol=1e-12)


@pytest.mark.parametrize(
    "mutant",
    [
        lambda own, taken, push: conservative_loss(taken, own, push),
        lambda own, taken, push: conservative_loss(own, [0 * taken[0]], push),
        lambda own, taken, push: conservative_loss(own, taken, push) / 2,
    ],
    ids=["swapped", "without the data", "half"],
)
def test_every_mistake_in_the_penalty_shows(mutant):
    minimum, expected = conservative_minimum(mutant)
    assert abs(minimum - expected).max() > 0.1


def test_ends_cost_the_value_of_what_would_have_followed():
    discount = np.array([0.0, 0.9, 0.0])
    assert cost_of_ends([FIRST, SECOND], discount) == pytest.approx((0.5 + 3) / 3)
    assert cost_of_ends([FIRST, SECOND], discount + 0.5) == 0


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


@pytest.mark.slow
@every_library
def test_every_array_library_gives_the_same(library):
    valid = np.array([1.0, 0.0, 1.0])

    def loss(first, second, target, valid):
        return counterfactual_action_value_loss([first, second], target, valid)

    assert_same(library, loss, FIRST, SECOND, TARGET, valid)
    assert_same(library, lambda *values: lower(values), FIRST, SECOND)
    assert_same(library, worth_scale, FIRST)

    assert_same(library, lambda a, b: conservative_loss([a, b], [b, a + 1], 0.3), FIRST, SECOND)
    assert_same(library, lambda a, b: cost_of_ends([a], b), FIRST, valid)


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
