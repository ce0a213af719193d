"""Behaviour policies: what they draw, and the log-density that they tell."""

import gymnasium as gym
import numpy as np
import pytest
from finite_mdps import CASES
from harness import MDPEnv, Walk, built, stream_of, tiny_config

from rllib_geoffpac.lanes.behavior import TabularBehavior, UniformBehavior, make_behavior


class Lopsided:
    """Beta(2, 1) in every direction of a unit box: density prod 2 u / (high - low)."""

    def __init__(self, observation_space, action_space):
        self.low, self.width = action_space.low, action_space.high - action_space.low

    def sample(self, observation, rng):
        unit = np.sqrt(rng.random(self.low.shape))
        action = (self.low + unit * self.width).astype(np.float32)
        return action, float(np.log(2 * unit / self.width).sum())

    def log_density(self, actions):
        unit = (actions - self.low) / self.width
        return np.log(2 * unit / self.width).sum(axis=-1)


def make_lopsided(observation_space, action_space):
    return Lopsided(observation_space, action_space)


class AlwaysTheSame:
    """A policy object without a constructor's arguments."""

    def sample(self, observation, rng):
        return np.zeros(2, np.float32), 0.25


always_the_same = AlwaysTheSame()

BOX = gym.spaces.Box(np.float32([[-1, 0], [2, -5]]), np.float32([[1, 4], [3, 5]]))


def test_uniform_on_a_box_covers_it_evenly_and_knows_its_density():
    behavior = UniformBehavior(BOX)
    actions = behavior.sample_block(np.random.default_rng(0), 20_000)
    assert actions.shape == (20_000, 2, 2) and actions.dtype == np.float32
    unit = (actions - BOX.low) / (BOX.high - BOX.low)
    assert unit.min() >= 0 and unit.max() <= 1
    np.testing.assert_allclose(unit.mean(axis=0), 0.5, atol=0.01)
    np.testing.assert_allclose(unit.var(axis=0), 1 / 12, atol=0.003)
    assert behavior.log_density == pytest.approx(-np.log(2 * 4 * 1 * 10))


def test_uniform_on_discrete_draws_every_action_equally():
    behavior = UniformBehavior(gym.spaces.Discrete(3, start=5))
    actions = behavior.sample_block(np.random.default_rng(0), 9_000)
    values, counts = np.unique(actions, return_counts=True)
    assert values.tolist() == [5, 6, 7]
    np.testing.assert_allclose(counts / 9_000, 1 / 3, atol=0.02)
    assert behavior.log_density == pytest.approx(-np.log(3))


def test_a_table_is_followed_and_its_probabilities_told():
    table = np.array([[0.7, 0.2, 0.1], [0.0, 0.5, 0.5]])
    behavior, rng = TabularBehavior(table), np.random.default_rng(0)
    for state in (0, 1):
        drawn = [behavior.sample(state, rng) for _ in range(5_000)]
        counts = np.bincount([action for action, _ in drawn], minlength=3) / 5_000
        np.testing.assert_allclose(counts, table[state], atol=0.025)
        for action, logp in drawn[:50]:
            assert logp == pytest.approx(np.log(table[state, action]))


@pytest.mark.parametrize(
    "behavior", [Lopsided, make_lopsided, "test_behavior:Lopsided", "test_behavior:make_lopsided"]
)
def test_a_policy_comes_as_class_as_factory_or_by_name(behavior):
    made = make_behavior(behavior, Walk())
    assert isinstance(made, Lopsided)


@pytest.mark.parametrize("behavior", [always_the_same, "test_behavior:always_the_same"])
def test_a_policy_object_is_taken_as_it_is(behavior):
    made = make_behavior(behavior, Walk())
    assert made.sample(None, None)[1] == 0.25


@pytest.mark.parametrize(
    ("behavior", "message"),
    [
        ("unifrom", "`behavior` is 'unifrom': write it as 'package.module:name'"),
        ("no_such_module:policy", "`behavior` is 'no_such_module:policy', which can't be imported"),
        ("test_behavior:missing", "`behavior` is 'test_behavior:missing', which can't be imported"),
        (lambda observation_space, action_space: 3, "`behavior` is 3, which has no method `sample"),
    ],
)
def test_a_wrong_behavior_is_named(behavior, message):
    with pytest.raises(ValueError, match=message):
        make_behavior(behavior, Walk())


@pytest.mark.parametrize("behavior", [Lopsided, "test_behavior:Lopsided"])
def test_the_lanes_follow_a_custom_policy_and_record_its_density(ray, behavior):
    with built(tiny_config().env_runners(behavior=behavior)) as algo:
        (fragment,) = stream_of(algo, 60)
        policy = Lopsided(None, algo.env_runner._lanes[0].env.action_space)
        expected = policy.log_density(fragment.actions)
        np.testing.assert_allclose(fragment.behavior_logp, expected, rtol=1e-4, atol=1e-4)
        assert fragment.actions.mean() > 0.2  # Beta(2, 1) has its mean at 2/3 of the box
        algo.train()


def test_the_lanes_record_the_density_of_the_uniform_policy(ray):
    config = tiny_config(env_config={"action_space": gym.spaces.Box(-2, 3, (2,), np.float32)})
    with built(config) as algo:
        (fragment,) = stream_of(algo, 20)
    np.testing.assert_allclose(fragment.behavior_logp, -2 * np.log(5), rtol=1e-6)


def test_a_finite_mdp_brings_its_own_behaviour(ray):
    mdp = CASES["episodic"].mdp
    config = tiny_config(kernel="auto", module="tabular").environment(
        MDPEnv, env_config={"mdp": mdp, "episodic": True}
    )
    with built(config) as algo:
        (fragment,) = stream_of(algo, 400)
    states, actions = fragment.observations[:-1], fragment.actions
    expected = np.log(mdp.behavior[states, actions])
    np.testing.assert_allclose(fragment.behavior_logp, expected, rtol=1e-6)
    for state in range(mdp.num_states):
        taken = actions[states == state]
        frequency = np.bincount(taken, minlength=mdp.num_actions) / len(taken)
        np.testing.assert_allclose(frequency, mdp.behavior[state], atol=5 / len(taken) ** 0.5)


class Unbounded(Walk):
    """A walk whose steps have no bounds."""

    def __init__(self, config=None):
        super().__init__()
        self.action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def step(self, action):
        assert self.action_space.contains(action)
        self._place, self._time = 0.9 * self._place + 0.1 * action, self._time + 1
        return self._observation(), -float(self._place @ self._place), False, self._time >= 8, {}


class Normal:
    """Standard normal times 1.5."""

    def sample(self, observation, rng):
        action = (1.5 * rng.standard_normal(2)).astype(np.float32)
        return action, float(-0.5 * (action / 1.5) @ (action / 1.5) - 2 * np.log(1.5 * 2.5066283))


def unbounded_config(kernel="torch", **training):
    config = tiny_config(kernel=kernel, **training).environment(Unbounded)
    return config.env_runners(behavior=Normal())


@pytest.mark.slow
def test_an_unbounded_box_is_learned_on_with_a_behavior_that_has_a_density_there(ray, kernel):
    config = unbounded_config(kernel, dtype="float64", rho_clip=np.inf, lr=1e-4, num_lanes=20)
    config.reporting(min_sample_timesteps_per_iteration=4000)
    with built(config.evaluation(evaluation_interval=1, evaluation_duration=3)) as algo:
        result = algo.train()
        digest = result["weights_digest"]
        assert algo.train()["weights_digest"] != digest
    # pi and mu have their densities in the same units: E_mu[rho] = 1.
    assert result["learners"]["default_policy"]["rho_mean"] == pytest.approx(1, abs=0.08)
    assert np.isfinite(result["evaluation"]["env_runners"]["j_pi"])


def test_other_policies_and_the_uniform_behavior_need_bounds(ray):
    for config in (
        unbounded_config(policy_distribution="beta"),
        unbounded_config().env_runners(behavior="uniform"),
    ):
        with pytest.raises(ValueError, match="is unbounded: a uniform behaviour policy needs"):
            config.build_algo()
