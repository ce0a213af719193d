"""Action and observation spaces: what works, and what the others are told."""

import gymnasium as gym
import numpy as np
import pytest
from connector_pieces import flattened
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from harness import Walk, built, learner_of, stream_of, tiny_config, train
from ray.rllib.utils.test_utils import check_supported_spaces

SPACES = {
    "box of other bounds": {"action_space": Box(np.float32([-3, 1]), np.float32([-1, 9]))},
    "1-dimensional box": {"action_space": Box(-2.0, 0.5, (1,), np.float32)},
    "box of shape ()": {"action_space": Box(-2.0, 0.5, (), np.float32)},
    "box of shape (2, 3)": {"action_space": Box(-1.0, 2.0, (2, 3), np.float32)},
    "float64 box": {"action_space": Box(-1.0, 1.0, (2,), np.float64)},
    "discrete": {"action_space": Discrete(4)},
    "discrete from 3": {"action_space": Discrete(2, start=3)},
    "discrete observations": {"observation_space": Discrete(5, start=-2)},
    "observations of shape (3, 1)": {"observation_space": Box(-9, 9, (3, 1), np.float32)},
}


@pytest.mark.parametrize("name", SPACES)
def test_it_trains_and_evaluates(ray, kernel, name):
    """`Walk` refuses actions outside of its space, in training and in evaluation."""
    config = tiny_config(kernel=kernel, env_config=SPACES[name]).evaluation(
        evaluation_interval=1, evaluation_duration=3
    )
    with built(config) as algo:
        results = train(algo, 2)
        space = learner_of(algo).rl_module.action_space
        (fragment,) = stream_of(algo, 50)
    assert results[0]["weights_digest"] != results[1]["weights_digest"]
    assert not results[-1]["diverged"]
    learned = results[-1]["learners"]["default_policy"]
    assert np.isfinite([learned[name] for name in ("value_loss", "rho_mean", "f1_mean")]).all()
    assert np.isfinite(results[-1]["evaluation"]["env_runners"]["j_pi"])
    # The behaviour is uniform over exactly this space.
    if isinstance(space, Discrete):
        density = -np.log(space.n)
        assert set(np.unique(fragment.actions)) == set(space.start + np.arange(space.n))
    else:
        density = -np.log((space.high - space.low).astype(np.float64)).sum()
        middle = (space.high + space.low) / 2
        assert fragment.actions.shape == (50, 5, *space.shape)
        np.testing.assert_allclose(
            fragment.actions.mean(axis=(0, 1)), middle, atol=0.1 * (space.high - space.low).max()
        )
    np.testing.assert_allclose(fragment.behavior_logp, density, rtol=1e-6)


@pytest.mark.parametrize("name", ["box of other bounds", "box of shape (2, 3)"])
def test_an_affine_change_of_the_box_changes_nothing_in_rho(ray, name):
    """At the start pi is the same in units of the box, whatever the bounds."""
    rho = []
    space = SPACES[name]["action_space"]
    for action_space in (space, Box(-1.0, 1.0, space.shape, np.float32)):
        config = tiny_config(env_config={"action_space": action_space}, dtype="float64")
        with built(config) as algo:
            (result,) = train(algo, 1)
            rho.append(result["learners"]["default_policy"]["rho_mean"])
    assert rho[0] == pytest.approx(rho[1], rel=0.02)


REFUSED = {
    "unbounded box": (
        {"action_space": Box(-np.inf, np.inf, (2,), np.float32)},
        r"is unbounded: a uniform behaviour policy needs finite bounds.*TransformAction",
    ),
    "half bounded box": ({"action_space": Box(0, np.inf, (2,), np.float32)}, "is unbounded"),
    "dict actions": ({"action_space": Dict(a=Discrete(2))}, "action space Dict.*not supported"),
    "tuple actions": ({"action_space": Tuple([Discrete(2)])}, "action space Tuple.*not supported"),
    "multi-discrete actions": ({"action_space": MultiDiscrete([2, 2])}, "not supported: allowed"),
    "whole-number box": ({"action_space": Box(0, 5, (2,), np.int64)}, "not supported: allowed"),
    "dict observations": (
        {"observation_space": Dict(a=Discrete(2))},
        "observation space Dict.*FlattenObservation",
    ),
    "tuple observations": (
        {"observation_space": Tuple([Discrete(2)])},
        "observation space Tuple.*FlattenObservation",
    ),
    "binary observations": ({"observation_space": MultiBinary(3)}, "observation space MultiBinary"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_spaces_are_refused_when_building(ray, name):
    spaces, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        tiny_config(env_config=spaces).build_algo()


@pytest.mark.parametrize("connector", [flattened, None], ids=["flattened", "as they are"])
def test_rllib_s_own_check_of_spaces_passes(ray, connector):
    """Without the connector it accepts what is refused as RLlib would refuse it."""
    config = tiny_config().env_runners(env_to_module_connector=connector)
    # By its name the check only tells the old API stack's models, which it looks at, from others.
    check_supported_spaces("PPO", config, train=connector is not None, check_bounds=True)


def test_a_space_is_refused_as_clearly_with_remote_env_runners(ray):
    spaces, message = REFUSED["unbounded box"]
    with pytest.raises(ValueError, match=message):
        tiny_config(env_config=spaces).env_runners(num_env_runners=1).build_algo()


def test_tables_are_refused_for_vectors(ray):
    with pytest.raises(ValueError, match="tabular module needs Discrete observations and actions"):
        tiny_config(kernel="auto", module="tabular").build_algo()


def test_walk_itself_checks_its_actions():
    env = Walk({"action_space": Discrete(2)})
    env.reset(seed=0)
    with pytest.raises(AssertionError, match="is not in"):
        env.step(gym.spaces.Discrete(9).start + 8)
