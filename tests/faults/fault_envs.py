"""A cheap environment that can be told to misbehave at one exact place."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

import gymnasium as gym
import numpy as np


class DriftEnv(gym.Env):
    """A noisy drift in three dimensions: deterministic given its reset seed, episodes of ~30 steps.

    Args:
        config: `step_seconds`: how long a step takes. `fault`: what goes wrong in the episode
            whose reset seed is `fault_seed` (every episode without it), in step `fault_step`.
            `marker`: a file; the fault happens only as long as it doesn't exist, and creates it.
            `pids`: a folder; every process that makes such an environment leaves its pid there.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, config: dict | None = None):
        self.config = dict(config or {})
        if "pids" in self.config:
            Path(self.config["pids"], str(os.getpid())).touch()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._seed, self._steps = seed, 0
        self._state = self.np_random.normal(size=3).astype(np.float32)
        if self._is_due("raise_in_reset"):
            raise OSError("the simulator did not start")
        if self._is_due("nan_in_reset"):
            return self._state * np.nan, {}
        return self._state.copy(), {}

    def step(self, action):
        time.sleep(self.config.get("step_seconds", 0.0))
        self._steps += 1
        noise = self.np_random.normal(size=3).astype(np.float32)
        self._state = 0.9 * self._state + 0.3 * np.float32(action[0]) + 0.1 * noise
        observation, info = self._state.astype(np.float32), {}
        reward = -float(np.abs(observation).sum())
        terminated, truncated = bool(self.np_random.random() < 0.02), self._steps >= 50
        if self._is_due("raise"):
            raise OSError("the simulator lost its connection")
        if self._is_due("hang"):
            ctypes.PyDLL(None).sleep(600)  # in C code that keeps the interpreter lock
        if self._is_due("crash"):
            os._exit(1)
        if self._is_due("nan_observation"):
            observation = observation * np.nan
        if self._is_due("nan_final_observation"):
            observation, terminated, truncated = observation * np.nan, False, True
        if self._is_due("shape"):
            observation = observation[:2]
        if self._is_due("dtype"):
            observation = observation.astype(str)
        if self._is_due("inf_reward"):
            reward = np.inf
        if self._is_due("array_reward"):
            reward = np.array([reward, reward])
        if self._is_due("discount"):
            info["discount"] = 1.5
        if self._is_due("huge_reward"):
            reward = 1e38
        return observation, reward, terminated, truncated, info

    def _is_due(self, fault: str) -> bool:
        config = self.config
        if config.get("fault") != fault:
            return False
        if config.get("fault_seed", self._seed) != self._seed:
            return False
        if "reset" not in fault and config.get("fault_step", self._steps) != self._steps:
            return False
        marker = config.get("marker")
        if marker is None:
            return True
        try:
            Path(marker).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
