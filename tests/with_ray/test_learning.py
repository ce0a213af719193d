"""The real algorithms learn: the right circle of the two-circle MDP, and Reacher-v5."""

import gymnasium as gym
import pytest
from harness import CONFIGS, built, learner_of, train

from rllib_geoffpac.maths.tables import softmax_policy
from rllib_geoffpac.maths.value import j_pi


def outer_probability(algorithm: str, gamma_hat: float | None, seed: int) -> float:
    """pi(A -> B) after 10,000 steps with the authors' tabular step sizes."""
    training = {} if gamma_hat is None else {"gamma_hat": gamma_hat}
    config = (
        CONFIGS[algorithm]()
        .environment("TwoCircle-v0")
        .training(
            module="tabular",
            num_lanes=1,
            lambda_1=1.0,
            lambda_2=1.0,
            optimizer_type="sgd",
            actor_lr=0.01,
            value_lr=0.1,
            density_ratio_lr=0.1,
            replay_batch_size=0,
            target_update_freq=1,
            learning_starts=0,
            grad_clip=None,
            **training,
        )
        .env_runners(rollout_fragment_length=1000)
        .reporting(min_sample_timesteps_per_iteration=10_000)
        .debugging(seed=seed)
    )
    with built(config) as algo:
        train(algo, 1)
        logits = learner_of(algo).rl_module.pi.table.detach().numpy()
    return float(softmax_policy(logits)[0, 0])


def test_ace_goes_to_the_inner_circle(ray):
    """0.020 to 0.022 over five seeds; the authors' code gives 0.021."""
    assert outer_probability("ACE", None, seed=0) < 0.1


def test_geoff_pac_goes_to_the_outer_circle(ray):
    """0.988 to 0.999 over five seeds; the authors' code gives 0.995."""
    assert outer_probability("GeoffPAC", 0.9, seed=0) > 0.9


def reacher_j_pi(algorithm: str, seed: int, **training) -> float:
    """J_pi of 20 episodes after 20,000 steps."""
    config = (
        CONFIGS[algorithm]()
        .environment("Reacher-v5")
        .training(**training)
        .reporting(min_sample_timesteps_per_iteration=20_000)
        .evaluation(evaluation_interval=1, evaluation_duration=20)
        .debugging(seed=seed)
    )
    with built(config) as algo:
        (result,) = train(algo, 1)
    assert result["num_env_steps_sampled_lifetime"] == 20_000
    return result["evaluation"]["env_runners"]["j_pi"]


def uniform_j_pi(num_episodes: int = 20) -> float:
    env = gym.make("Reacher-v5")
    env.action_space.seed(0)
    episodes = []
    for seed in range(num_episodes):
        env.reset(seed=seed)
        rewards, done = [], False
        while not done:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            rewards.append(reward)
            done = terminated or truncated
        episodes.append((rewards, [0.99] * len(rewards)))
    env.close()
    return j_pi(episodes)


MARGIN = 9.0
"""Half of the uniform policy's -19. Over six seeds ACE reaches -5.7 +- 0.4 (standard deviation),
Geoff-PAC with the baseline -6.1 +- 0.5 and with the truncated Gaussian too -6.3 +- 0.4; with the
paper's settings Geoff-PAC breaks on Reacher (-25 +- 12), see docs/results.md."""


@pytest.mark.parametrize(
    ("algorithm", "training"),
    [
        ("ACE", {}),
        ("GeoffPAC", {"policy_distribution": "truncated_gaussian", "value_baseline": "ema"}),
    ],
    ids=["ACE", "GeoffPAC"],
)
def test_reacher_is_far_better_than_uniform_after_20000_steps(ray, algorithm, training):
    learned = [reacher_j_pi(algorithm, seed, **training) for seed in (0, 1)]
    assert min(learned) > uniform_j_pi() + MARGIN, learned
