"""Throughput against the number of env runners, for an environment whose step takes 5 ms.

    python benchmarks/slow_env_scaling.py --runners 0 1 2 5 10

The step sleeps, as a simulator on another core or machine would: the table shows what spreading
lanes over processes gives when simulation is the cost. The weights' digest is the same in every
row.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import gymnasium as gym
import numpy as np
import ray

from rllib_geoffpac import GeoffPACConfig


class SlowEnv(gym.Env):
    """A random drift with a slow step and the sizes of HalfCheetah."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (17,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (6,), np.float32)

    def __init__(self, config: dict[str, Any]):
        self._seconds = config["step_seconds"]

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        self._steps, self._state = 0, self.np_random.normal(size=17).astype(np.float32)
        return self._state, {}

    def step(self, action: np.ndarray):
        time.sleep(self._seconds)
        self._steps += 1
        noise = self.np_random.normal(size=17).astype(np.float32)
        self._state = 0.9 * self._state + 0.1 * noise + 0.1 * action.mean()
        return self._state, float(-np.abs(self._state).mean()), False, self._steps >= 1000, {}


def measure(num_runners: int, step_seconds: float, iterations: int) -> tuple[float, str]:
    """Returns env steps per second after the first iteration, and the final digest."""
    config = (
        GeoffPACConfig()
        .environment(SlowEnv, env_config={"step_seconds": step_seconds})
        .env_runners(num_env_runners=num_runners, rollout_fragment_length=20)
        .reporting(min_sample_timesteps_per_iteration=1000)
    )
    algorithm = config.build_algo()
    algorithm.train()
    began = time.perf_counter()
    results = [algorithm.train() for _ in range(iterations)]
    seconds = time.perf_counter() - began
    algorithm.stop()
    return iterations * 1000 / seconds, results[-1]["weights_digest"]


def main() -> None:
    """Measures and prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runners", type=int, nargs="+", default=[0, 1, 2, 5, 10])
    parser.add_argument("--step-ms", type=float, default=5.0)
    parser.add_argument("--iterations", type=int, default=3)
    arguments = parser.parse_args()
    # Sleeping needs no core of its own.
    ray.init(
        address="local",
        num_cpus=max(1, *arguments.runners),
        include_dashboard=False,
        log_to_driver=False,
    )
    print("| env runners | env steps/s | speed-up | weights digest |\n|---|---|---|---|")
    first = None
    for count in arguments.runners:
        rate, digest = measure(count, arguments.step_ms / 1000, arguments.iterations)
        first = first or rate
        print(f"| {count} | {rate:,.0f} | {rate / first:.1f} | `{digest}` |", flush=True)


if __name__ == "__main__":
    main()
