"""A module from a checkpoint acts as pi does: RLlib's inference loop, for every action space."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from harness import Walk, built, tiny_config, train
from ray.rllib.core.rl_module.rl_module import RLModule

from rllib_cli.evaluate.measure import EvaluateOptions, evaluate
from rllib_geoffpac import DDPGConfig, TD3Config
from rllib_geoffpac.lanes.seeding import evaluation_stream
from rllib_geoffpac.maths.value import monte_carlo_values

MODULE = "learner_group/learner/rl_module/default_policy"
SPACES = {
    "unit box": Box(-1.0, 1.0, (2,), np.float32),
    "other bounds": Box(np.float32([-3, 1]), np.float32([-1, 9])),
    "shape ()": Box(-2.0, 0.5, (), np.float32),
    "shape (2, 3)": Box(-1.0, 2.0, (2, 3), np.float32),
    "float64": Box(0.0, 7.0, (2,), np.float64),
    "discrete": Discrete(4),
    "discrete from 3": Discrete(2, start=3),
}
POLICIES = ("gaussian", "truncated_gaussian", "beta")


def deterministic_config(config_class):
    config = config_class().environment(Walk).training(learning_starts=20, replay_batch_size=8)
    config.rl_module(model_config={"fcnet_hiddens": [8]})
    return config.reporting(min_sample_timesteps_per_iteration=50)


def loaded(config, folder, iterations: int = 1) -> RLModule:
    """The module of a checkpoint, after some training."""
    with built(config) as algo:
        train(algo, iterations)
        algo.save_to_path(folder)
    return RLModule.from_checkpoint(folder / MODULE)


def actions_of(module: RLModule, observation: np.ndarray, count: int, forward: str):
    """The distribution of actions in one state, for a batch of equal rows."""
    rows = torch.from_numpy(np.stack([observation] * count))
    with torch.no_grad():
        output = getattr(module, forward)({"obs": rows})
    distribution = module.get_inference_action_dist_cls()
    return distribution.from_logits(output["action_dist_inputs"])


CASES = [
    *((name, "truncated_gaussian") for name in SPACES),
    *(("other bounds", policy) for policy in ("gaussian", "beta")),
]


@pytest.mark.slow
@pytest.mark.parametrize("name, policy", CASES)
def test_samples_are_pi_s_actions_in_the_space_of_the_environment(ray, name, policy, tmp_path):
    space, env = SPACES[name], Walk()
    config = tiny_config(policy_distribution=policy, env_config={"action_space": space})
    module = loaded(config, tmp_path)
    observation, _ = env.reset(seed=1)
    torch.manual_seed(0)
    for forward in ("forward_inference", "forward_exploration"):
        actions = actions_of(module, observation, 4000, forward)
        samples = actions.sample().numpy()
        assert samples.shape == (4000, *space.shape) and samples.dtype == space.dtype
        assert all(space.contains(sample) for sample in samples[:100])
        assert space.contains(actions.to_deterministic().sample()[0].numpy())
        logp = actions.logp(torch.from_numpy(samples)).double()
        assert torch.isfinite(logp).all()
        if isinstance(space, Discrete):
            shares = np.bincount(samples - space.start, minlength=space.n) / 4000
            every = torch.arange(space.n).repeat(4000 // space.n) + space.start
            expected = actions.logp(every)[: space.n].exp()
            np.testing.assert_allclose(shares, expected, atol=0.04)
        elif policy != "gaussian":
            # -E_pi[log pi(A)] is the entropy; a Gaussian's samples were moved into the box.
            assert float(-logp.mean()) == pytest.approx(float(actions.entropy()[0]), abs=0.06)
    assert torch.allclose(
        actions.logp(torch.from_numpy(samples)),
        module.log_prob(torch.from_numpy(np.stack([observation] * 4000)), torch.tensor(samples)),
    )


@pytest.mark.parametrize("config_class", [DDPGConfig, TD3Config])
def test_a_deterministic_policy_has_one_action(ray, config_class, tmp_path):
    space = SPACES["other bounds"]
    config = deterministic_config(config_class).environment(env_config={"action_space": space})
    module = loaded(config, tmp_path)
    observation, _ = Walk().reset(seed=1)
    actions = actions_of(module, observation, 2, "forward_inference").sample().numpy()
    assert actions.dtype == space.dtype and space.contains(actions[0])
    unit = module.policy(torch.from_numpy(observation)[None]).detach().numpy()[0]
    np.testing.assert_allclose(actions[0], [-2, 5] + np.array([1, 4]) * unit, rtol=1e-6)


def test_samples_repeat_with_torch_s_seed_and_take_a_shape(ray, tmp_path):
    module = loaded(tiny_config(), tmp_path)
    observation, _ = Walk().reset(seed=1)
    drawn = []
    for _ in range(2):
        torch.manual_seed(7)
        drawn.append(actions_of(module, observation, 3, "forward_inference").sample())
    assert torch.equal(*drawn)
    more = actions_of(module, observation, 3, "forward_inference").sample(sample_shape=(4, 5))
    assert more.shape == (4, 5, 3, 2)
    assert len(more.reshape(60, 2).unique(dim=0)) > 50


def play(module: RLModule, env: gym.Env, seed: int, explore: bool):
    """RLlib's documented inference loop; returns the values of the visited states."""
    distribution = module.get_inference_action_dist_cls()
    observation, _ = env.reset(seed=seed)
    rewards, discounts, done = [], [], False
    while not done:
        with torch.no_grad():
            output = module.forward_inference({"obs": torch.from_numpy(observation)[None]})
        actions = distribution.from_logits(output["action_dist_inputs"])
        if not explore:
            actions = actions.to_deterministic()
        observation, reward, terminated, truncated, _ = env.step(actions.sample()[0].numpy())
        rewards.append(reward)
        discounts.append(0.0 if terminated else 0.99)
        done = terminated or truncated
    return monte_carlo_values(rewards, discounts)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_the_inference_loop_has_the_j_pi_of_rllib_evaluate(ray, policy, tmp_path):
    space = {"action_space": SPACES["other bounds"]}
    config = tiny_config(policy_distribution=policy, env_config=space, actor_lr=0.05)
    module = loaded(config, tmp_path, iterations=2)
    env, episodes = Walk(space), 20
    seeds = [evaluation_stream(0, 0, k)[0] for k in range(episodes)]
    exact = evaluate(tmp_path, EvaluateOptions(episodes=episodes, deterministic=True))
    played = np.concatenate([play(module, env, seed, explore=False) for seed in seeds])
    assert played.mean() == pytest.approx(exact.j_pi, rel=1e-5)
    torch.manual_seed(0)
    sampled = evaluate(tmp_path, EvaluateOptions(episodes=200))
    played = np.concatenate([play(module, env, k, explore=True) for k in range(200)])
    assert abs(played.mean() - sampled.j_pi) < 4 * 1.5 * sampled.j_pi_stderr
    assert abs(sampled.j_pi - exact.j_pi) > 0.05, "sampling matters here"
