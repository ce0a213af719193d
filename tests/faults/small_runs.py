"""Small runs: config, building, digests, and the processes that can be killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from fault_envs import DriftEnv

from rllib_geoffpac import GeoffPACConfig
from rllib_geoffpac.compat import env_runner_actors

ROOT = Path(__file__).parents[2]


def drift_config(**env_config: Any) -> GeoffPACConfig:
    """6 lanes of `DriftEnv`, networks of 8 units, 60 locksteps per iteration."""
    return (
        GeoffPACConfig()
        .environment(DriftEnv, env_config=env_config)
        .training(
            num_lanes=6,
            learning_starts=10,
            replay_batch_size=2,
            replay_capacity=6 * 50,
            target_update_freq=25,
        )
        .env_runners(num_env_runners=0, rollout_fragment_length=20)
        .rl_module(model_config={"fcnet_hiddens": [8, 8]})
        .reporting(min_sample_timesteps_per_iteration=360)
    )


@contextmanager
def built(config: GeoffPACConfig) -> Iterator[Any]:
    """The algorithm of a config, stopped at the end."""
    algorithm = config.build_algo()
    try:
        yield algorithm
    finally:
        algorithm.stop()


def digests(algorithm: Any, iterations: int) -> list[str]:
    """The weights' digests after each of the next iterations."""
    return [algorithm.train()["weights_digest"] for _ in range(iterations)]


def pids(group: Any) -> list[int]:
    """The processes of a group's remote env runners, as they say themselves."""
    actors = env_runner_actors(group).values()
    return ray.get([actor.apply.remote(lambda runner: os.getpid()) for actor in actors])
