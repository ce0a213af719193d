"""Measures agents that learn nothing: what an algorithm must surpass.

    python -m paper.fixed_agents

writes random_agent.csv (uniformly random actions, 100 episodes, all tasks: the pictures' dashed
line) and zero_action.csv (the middle of the action box, 10 episodes, Hopper and Walker2d: a body
without a motor). Episodes run to their end or time limit, gamma 0.99.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import pandas as pd

from paper.entries import MEASURED_TASKS
from paper.levels import FALLING_TASKS, GAMMA
from paper.places import DATA
from rllib_geoffpac import GeoffPACConfig
from rllib_geoffpac.env_runners.target_policy_env_runner import EvaluationEpisode
from rllib_geoffpac.envs.make_env import make_env
from rllib_geoffpac.evaluation.target_policy import summarize

Act = Callable[[gym.spaces.Box], np.ndarray]


class FixedAgent(NamedTuple):
    """How an agent acts, whatever it sees, and on what it is measured."""

    act: Act
    tasks: list[str]
    episodes: int


AGENTS = {
    "random_agent": FixedAgent(lambda box: box.sample(), MEASURED_TASKS, 100),
    "zero_action": FixedAgent(lambda box: (box.low + box.high) / 2, FALLING_TASKS, 10),
}
"""Name of the CSV file -> the agent."""


def play(env: gym.Env, act: Act, episode: int) -> EvaluationEpisode:
    """One episode, seeded with its number."""
    box = env.action_space
    assert isinstance(box, gym.spaces.Box)
    env.reset(seed=episode)
    box.seed(episode)
    rewards, done = [], False
    while not done:
        _, reward, terminated, truncated, _ = env.step(act(box))
        rewards.append(float(reward))
        done = terminated or truncated
    return EvaluationEpisode(episode, rewards, [GAMMA] * len(rewards))


def measure(task: str, act: Act, episodes: int) -> dict[str, float | str]:
    """J_pi and return with their standard errors over the episodes, and the episodes' length."""
    env = make_env(GeoffPACConfig().environment(task))
    found = summarize([play(env, act, episode) for episode in range(episodes)])
    env.close()
    return {
        "task": task,
        "episodes": episodes,
        "j_pi": round(found["j_pi"], 3),
        "j_pi_stderr": round(found["j_pi_stderr"], 3),
        "return": round(found["episode_return_mean"], 3),
        "return_stderr": round(found["episode_return_stderr"], 3),
        "length": round(found["episode_len_mean"], 1),
    }


def main() -> None:
    """The command line."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    for name, agent in AGENTS.items():
        rows = [measure(task, agent.act, agent.episodes) for task in agent.tasks]
        table = pd.DataFrame(rows)
        table.to_csv(DATA / f"{name}.csv", index=False)
        print(f"{name}\n{table.to_string(index=False)}\n")


if __name__ == "__main__":
    main()
