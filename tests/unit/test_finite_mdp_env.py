"""Finite MDPs as gymnasium environments."""

import gymnasium as gym
import numpy as np
import pytest
from finite_mdps import CASES
from gymnasium.utils.env_checker import check_env

import rllib_geoffpac
from rllib_geoffpac.maths.finite_mdp import FiniteMDP


def rollout(env, steps, seed):
    """Follow the environment's behaviour table, seeding every episode; (s, a, r, s', gamma) rows.

    s' is the state the lane goes on from: after a termination that of the reset.
    """
    # Not default_rng(seed), the environment's own stream: actions and successors would be coupled.
    rng = np.random.default_rng([seed, 1])
    episode = 0
    state, _ = env.reset(seed=seed)
    rows = []
    for _ in range(steps):
        action = rng.choice(env.action_space.n, p=env.behavior_table[state])
        following, reward, terminated, truncated, info = env.step(action)
        assert not truncated
        assert terminated == (env.episodic and info["discount"] == 0)
        if terminated:
            episode += 1
            following, _ = env.reset(seed=seed + 1000 * episode)
        rows.append((state, action, reward, following, info["discount"]))
        state = following
    return rows


@pytest.mark.parametrize(("name", "episodic"), [("continuing", False), ("episodic", True)])
def test_obeys_the_gymnasium_interface(name, episodic):
    check_env(CASES[name].mdp.as_env(episodic=episodic), skip_render_check=True)


@pytest.mark.parametrize(
    ("name", "episodic"), [("continuing", False), ("episodic", False), ("episodic", True)]
)
def test_transitions_follow_the_chain_whether_or_not_episodes_end(name, episodic):
    mdp = CASES[name].mdp
    rows = rollout(mdp.as_env(episodic=episodic), 20_000, seed=3)
    counts = np.zeros(mdp.transitions.shape)
    for state, action, _, following, discount in rows:
        counts[state, action, following] += 1
        assert discount == mdp.discounts[state, action, following]
    expected = mdp.behavior_distribution()[:, None] * mdp.behavior
    expected = expected[:, :, None] * mdp.transitions
    np.testing.assert_allclose(counts / len(rows), expected, atol=0.02)


def test_rewards_and_discounts_are_those_of_the_transition():
    mdp = CASES["continuing"].mdp
    for state, action, reward, following, discount in rollout(mdp.as_env(), 200, seed=0):
        assert reward == mdp.rewards[state, action, following]
        assert discount == mdp.discounts[state, action, following]


def test_the_stream_is_a_function_of_the_reset_seed_and_the_actions():
    mdp = CASES["episodic"].mdp
    env = mdp.as_env(episodic=True)
    first = rollout(env, 300, seed=5)
    assert rollout(env, 300, seed=5) == first
    assert rollout(mdp.as_env(episodic=True), 300, seed=5) == first
    assert rollout(env, 300, seed=6) != first


def test_a_continuing_environment_starts_where_told_or_in_the_stationary_distribution():
    mdp = CASES["continuing"].mdp
    env = mdp.as_env()
    starts = np.bincount([env.reset(seed=seed)[0] for seed in range(2000)], minlength=4) / 2000
    np.testing.assert_allclose(starts, mdp.behavior_distribution(), atol=0.05)
    told = FiniteMDP(mdp.transitions, mdp.rewards, mdp.discounts, mdp.behavior, start=2).as_env()
    assert {told.reset(seed=seed)[0] for seed in range(20)} == {2}


def test_stepping_after_the_end_is_an_error():
    env = CASES["episodic"].mdp.as_env(episodic=True)
    with pytest.raises(RuntimeError, match="Call reset"):
        env.step(0)
    env.reset(seed=0)
    while not env.step(0)[2]:
        pass
    with pytest.raises(RuntimeError, match="Call reset"):
        env.step(0)


def test_episodic_needs_endings_that_forget_where_they_came_from():
    mdp = CASES["continuing"].mdp
    with pytest.raises(ValueError, match="needs transitions of discount 0"):
        mdp.as_env(episodic=True)
    discounts = np.zeros_like(mdp.discounts)
    with pytest.raises(ValueError, match="depends on the state or action before"):
        FiniteMDP(mdp.transitions, mdp.rewards, discounts, mdp.behavior).as_env(episodic=True)
    mdp = CASES["episodic"].mdp
    wrong_start = FiniteMDP(mdp.transitions, mdp.rewards, mdp.discounts, mdp.behavior, start=3)
    with pytest.raises(ValueError, match="Leave start out"):
        wrong_start.as_env(episodic=True)


def test_two_circle_is_registered_and_begins_in_a():
    rllib_geoffpac.register()
    rllib_geoffpac.register()
    env = gym.make("TwoCircle-v0")
    assert env.reset(seed=0)[0] == 0
    observation, reward, terminated, truncated, info = env.step(1)
    assert (observation, reward, terminated, truncated) == (4, 0.0, False, False)
    assert info["discount"] == 0.6
    assert env.step(0)[:2] == (5, 5.0)
    assert env.unwrapped.behavior_table.shape == (11, 2)
