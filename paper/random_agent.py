"""Measures the random agent, the dashed line of the pictures, and writes random_agent.csv.

    python -m paper.random_agent [--episodes 100]

Actions are uniform on the action box, episodes run to their end or time limit, gamma 0.99.
"""

from __future__ import annotations

import argparse

import gymnasium as gym
import pandas as pd

from paper.entries import MEASURED_TASKS
from paper.places import DATA
from rllib_geoffpac import GeoffPACConfig
from rllib_geoffpac.env_runners.target_policy_env_runner import EvaluationEpisode
from rllib_geoffpac.envs.make_env import make_env
from rllib_geoffpac.evaluation.target_policy import summarize

GAMMA = 0.99


def play(env: gym.Env, episode: int) -> EvaluationEpisode:
    """One episode of uniformly random actions, seeded with its number."""
    env.reset(seed=episode)
    env.action_space.seed(episode)
    rewards, done = [], False
    while not done:
        _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        rewards.append(float(reward))
        done = terminated or truncated
    return EvaluationEpisode(episode, rewards, [GAMMA] * len(rewards))


def measure(task: str, episodes: int) -> dict[str, float | str]:
    """J_pi and return of the random agent with their standard errors over the episodes."""
    env = make_env(GeoffPACConfig().environment(task))
    found = summarize([play(env, episode) for episode in range(episodes)])
    env.close()
    return {
        "task": task,
        "episodes": episodes,
        "j_pi": round(found["j_pi"], 3),
        "j_pi_stderr": round(found["j_pi_stderr"], 3),
        "return": round(found["episode_return_mean"], 3),
        "return_stderr": round(found["episode_return_stderr"], 3),
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=100)
    episodes = parser.parse_args().episodes
    table = pd.DataFrame([measure(task, episodes) for task in MEASURED_TASKS])
    table.to_csv(DATA / "random_agent.csv", index=False)
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
