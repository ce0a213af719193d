"""Schedules: their values, which settings take them, and what is told about wrong ones."""

import numpy as np
import pytest
from ray.rllib.utils.schedules import PiecewiseSchedule

from rllib_geoffpac import ACEConfig, DDPGConfig, GeoffPACConfig, TD3Config
from rllib_geoffpac.algorithms.schedules import can_be_scheduled, numbers_at, schedules_of
from rllib_geoffpac.maths.schedules import is_schedule, piecewise_linear

SCHEDULES = [
    [[0, 1e-3], [1e6, 1e-4]],
    [(0, 1.0), (10, 0.0), (10, 5.0), (30, 6.0)],
    [[0, 2], [7, 2], [8, -1]],
]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_values_are_those_of_rllib_s_schedules(schedule):
    expected = PiecewiseSchedule(schedule, outside_value=schedule[-1][1])
    steps = np.array([0, 1, 5, 7, 8, 9, 10, 11, 20, 29, 30, 31, 999_999, 1_000_000, 2_000_000])
    values = piecewise_linear(schedule, steps)
    np.testing.assert_allclose(values, [expected.value(int(t)) for t in steps], rtol=1e-12)


OTHERS = (
    *(1e-3, None, "schedule", [], [0, 1], [[0, 1.0]], [[5, 1.0], [9, 2.0]]),
    *([[0, 1], [9, 2], [8, 3]], [[0, "a"], [1, 2]], [[0, 1, 2], [1, 2, 3]]),
)


@pytest.mark.parametrize("value", OTHERS)
def test_what_is_no_schedule(value):
    assert not is_schedule(value)


def test_every_number_of_an_update_and_every_learning_rate_can_be_scheduled():
    emphatic = can_be_scheduled(GeoffPACConfig())
    rates = {"lr", "actor_lr", "value_lr", "density_ratio_lr"}
    traces = {"gamma_hat", "lambda_1", "lambda_2", "rho_clip", "overlap_coeff", "overlap_gamma_hat"}
    assert rates | traces <= emphatic
    assert not emphatic & {"gamma", "num_lanes", "grad_clip", "replay_batch_size", "seed"}
    assert {"lr", "actor_lr", "critic_lr", "tau"} <= can_be_scheduled(DDPGConfig())
    assert "target_noise" in can_be_scheduled(TD3Config())


def test_numbers_follow_their_schedules_and_others_stay():
    config = GeoffPACConfig().training(
        lambda_1=[[0, 0.0], [100, 1.0]], gamma_hat=[[0, 0.5], [50, 0.1]], lr=[[0, 1], [9, 2]]
    )
    assert set(schedules_of(config)) == {"lambda_1", "gamma_hat", "lr"}
    numbers = numbers_at(config, np.array([0, 25, 50, 1000]))
    np.testing.assert_allclose(numbers["lambda_1"], [0.0, 0.25, 0.5, 1.0])
    np.testing.assert_allclose(numbers["gamma_hat"], [0.5, 0.3, 0.1, 0.1])
    np.testing.assert_allclose(numbers["trace_gamma_hat"], numbers["gamma_hat"])
    np.testing.assert_allclose(numbers["lambda_2"], 0.6)
    config.validate()
    assert config.lambda_1 == [[0, 0.0], [100, 1.0]], "a check leaves the config as it is"


REFUSED = {
    "a value out of bounds": ({"lambda_1": [[0, 0.5], [100, 1.5]]}, "`lambda_1` is 1.5; allowed"),
    "a rate of 0": ({"lr": [[0, 1e-3], [100, 0.0]]}, "`lr` is 0.0; allowed is a number above 0"),
    "a late start": (
        {"value_lr": [[10, 1e-3], [100, 1e-4]]},
        r"`value_lr` is \[\[10, .*or a schedule \[\[0, a\], \[1e6, b\]\]",
    ),
    "a key that takes none": (
        {"gamma": [[0, 0.9], [100, 0.99]]},
        r"`gamma` is \[\[0, 0.9\].*allowed is a number from 0 to 1\.",
    ),
    "gamma_hat down to 0": ({"gamma_hat": [[0, 0.2], [9, 0.0]]}, "`gamma_hat` .* reaches 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_schedules_are_named(name):
    settings, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        GeoffPACConfig().environment("CartPole-v1").training(**settings).validate()


def test_a_force_may_begin_or_end_at_0():
    for schedule in ([[0, 0.0], [100, 2.0]], [[0, 2.0], [100, 0.0]]):
        config = ACEConfig().environment("CartPole-v1").training(overlap_coeff=schedule)
        config.validate()
        assert config.uses_second_trace and not config.uses_density_ratio
