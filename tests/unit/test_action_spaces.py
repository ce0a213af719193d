"""Action spaces: what is refused, whether the advice helps, and boxes scaled to [-1, 1]^d."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from rllib_geoffpac.maths.action_spaces import UnitBox, check_action_space


class Acting(gym.Env):
    """An environment that is nothing but its action space."""

    observation_space = Discrete(1)

    def __init__(self, action_space: gym.Space):
        self.action_space = action_space


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Box(-np.inf, np.inf, (2,)), "unbounded.*finite `low` and `high`"),
        (Box(0, np.inf, (2,)), "unbounded"),
        (Box(0, 3, (2,), np.int64), "whole-number actions.*floating-point dtype"),
        (Box(np.float32([0, 1]), np.float32([1, 1])), "no volume.*`low` must be below `high`"),
        (MultiDiscrete([2, 3]), "not supported: allowed are Discrete and a bounded Box"),
        (Dict({"a": Discrete(2)}), "not supported: allowed are Discrete and a bounded Box"),
    ],
)
def test_spaces_without_a_density_are_refused(space, message):
    with pytest.raises(ValueError, match=message):
        check_action_space(space)


def test_the_advice_for_an_unbounded_box_helps():
    env = Acting(Box(-np.inf, np.inf, (2,), np.float32))
    with pytest.raises(ValueError) as refusal:
        check_action_space(env.action_space)
    advice = str(refusal.value).partition("for example with ")[2].rstrip(".")
    bounded = eval(advice, {"gymnasium": gym, "env": env})
    assert check_action_space(bounded.action_space).shape == (2,)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_box_scales_to_the_unit_box_and_back(shape, dtype):
    rng = np.random.default_rng(0)
    low = rng.normal(size=shape).astype(dtype)
    space = Box(low, low + dtype(rng.uniform(0.1, 5, size=shape)), shape, dtype)
    box = UnitBox(space)
    space.seed(0)
    actions = np.stack([space.sample() for _ in range(20)])
    unit = box.to_unit(actions)
    assert unit.shape == (20, box.size)
    assert np.abs(unit).max() <= 1 + 1e-6
    again = box.from_unit(unit)
    assert again.dtype == dtype
    np.testing.assert_allclose(again, actions, rtol=1e-6)
    corners = box.from_unit(np.array([-np.ones(box.size), np.ones(box.size)]))
    np.testing.assert_allclose(corners, [space.low, space.high], rtol=1e-6)
    widths = np.float64(space.high) - np.float64(space.low)
    assert box.log_volume_scale == pytest.approx(np.log(widths / 2).sum())


def test_clipped_actions_are_in_the_space():
    box = UnitBox(Box(-0.5, 2, (2, 1), np.float32))
    clipped = box.clip(np.random.default_rng(0).normal(0, 10, size=(50, 2, 1)))
    assert all(box.space.contains(action) for action in clipped)
