"""What the tests of the real algorithms share: a small environment, configs, building, training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from finite_mdps import deviation

from rllib_geoffpac import ACEConfig, GeoffPACConfig, OffPACConfig
from rllib_geoffpac.algorithms.geoff_pac import GeoffPAC
from rllib_geoffpac.compat import local_learner
from rllib_geoffpac.env_runners.remote_runners import RemoteRunners
from rllib_geoffpac.envs import FiniteMDPEnv
from rllib_geoffpac.evaluation.target_policy import play_episodes
from rllib_geoffpac.metrics.episodes import EVALUATION_OF_PI

CONFIGS = {"GeoffPAC": GeoffPACConfig, "ACE": ACEConfig, "OffPAC": OffPACConfig}


class Walk(gym.Env):
    """A noisy walk in the plane that ends by chance (terminated) or by the clock (truncated).

    Env config: `action_space`, `observation_space` (Box of 3 numbers or Discrete), `end` (chance
    of a termination per step), `limit` (steps until truncation), `discounts` (supply one per step).
    """

    def __init__(self, config: dict | None = None):
        config = dict(config or {})
        self.action_space = config.get("action_space", gym.spaces.Box(-1, 1, (2,), np.float32))
        self.observation_space = config.get(
            "observation_space", gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        )
        self.end, self.limit = config.get("end", 0.1), config.get("limit", 8)
        self.discounts = config.get("discounts", False)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place, self._time = self.np_random.normal(size=2), 0
        return self._observation(), {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        space = self.action_space
        if isinstance(space, gym.spaces.Discrete):
            push = (np.asarray(action) - space.start) / space.n - 0.4
        else:
            push = np.mean((action - space.low) / (space.high - space.low)) - 0.4
        self._place = 0.9 * self._place + push + 0.1 * self.np_random.normal(size=2)
        self._time += 1
        reward = 1.0 - float(self._place @ self._place)
        terminated = bool(self.np_random.random() < self.end)
        truncated = not terminated and self._time >= self.limit
        info = {"discount": float(0.5 + 0.4 * (self._place[0] > 0))} if self.discounts else {}
        return self._observation(), reward, terminated, truncated, info

    def _observation(self):
        if isinstance(self.observation_space, gym.spaces.Discrete):
            bin_ = int(abs(self._place[0]) * 3) % self.observation_space.n
            return self.observation_space.start + bin_
        numbers = np.array([*self._place, self._time / self.limit], np.float32)
        return numbers.reshape(self.observation_space.shape)


class MDPEnv(FiniteMDPEnv):
    """A finite MDP by env config: `mdp`, and `episodic` for real terminations."""

    def __init__(self, config: dict):
        super().__init__(config["mdp"], episodic=config.get("episodic", False))


def tiny_config(algorithm: str = "GeoffPAC", kernel: str = "torch", **training: Any):
    """5 lanes of `Walk`, networks of 8 units, 30 locksteps per iteration, learning after 10."""
    env_config, model_config = training.pop("env_config", {}), training.pop("model_config", {})
    return (
        CONFIGS[algorithm]()
        .environment(Walk, env_config=env_config)
        .training(
            **{
                "kernel": kernel,
                "num_lanes": 5,
                "replay_capacity": 5 * 40,
                "replay_batch_size": 3,
                "learning_starts": 10,
                "target_update_freq": 7,
                **training,
            }
        )
        .env_runners(num_env_runners=0, rollout_fragment_length=20)
        .rl_module(model_config={"fcnet_hiddens": [8, 8], **model_config})
        .reporting(min_sample_timesteps_per_iteration=150)
    )


@contextmanager
def built(config) -> Iterator[GeoffPAC]:
    """The algorithm of a config, stopped at the end."""
    algo = config.build_algo()
    try:
        yield algo
    finally:
        algo.stop()


def train(algo: GeoffPAC, iterations: int) -> list[dict]:
    """The results of so many iterations."""
    return [algo.train() for _ in range(iterations)]


def digests(config, iterations: int = 3) -> list[str]:
    """The weights' digest after each of the first iterations."""
    with built(config) as algo:
        return [result["weights_digest"] for result in train(algo, iterations)]


def learner_of(algo: GeoffPAC):
    """The local learner."""
    return local_learner(algo.learner_group)


def without_times(evaluation: dict) -> dict:
    """An evaluation's results but for seconds, which are never twice the same."""
    seconds = {metric.name for metric in EVALUATION_OF_PI.rows if metric.unit == "s"}
    return {key: value for key, value in evaluation.items() if key not in seconds}


def stream_of(algo: GeoffPAC, num_locksteps: int) -> list:
    """The next fragments of all lanes."""
    return algo.stream.next(iter([num_locksteps] * (1 + algo.config.sample_ahead)))


def play_round(algo: GeoffPAC, count: int, round_: int, first: int = 0) -> list:
    """The episodes of an evaluation round with the present weights."""
    weights = learner_of(algo).rl_module.get_state()
    runners = RemoteRunners(algo.eval_env_runner_group, algo.config, algo.evaluation_events)
    return play_episodes(runners, count, round_, weights, first)


def set_tables(learner, **tables: np.ndarray) -> None:
    """Writes the tables of a tabular module by the names of its networks, with their targets."""
    module = learner.rl_module
    with torch.no_grad():
        for name, table in tables.items():
            for network in [n for n in (name, f"{name}_target") if hasattr(module, n)]:
                own = getattr(module, network).table
                own.copy_(torch.as_tensor(table).reshape(own.shape))


NUM_LANES = 200
"""Of the algorithms on finite MDPs, so that every lane can be one sample."""


def mdp_config(case, *, episodic=False, lambda_1=1.0, lambda_2=1.0, algorithm="GeoffPAC", **keys):
    """The tabular algorithm on a finite MDP, with nothing clipped and nothing learned."""
    training = {
        "module": "tabular",
        "kernel": "torch",
        "dtype": "float64",
        "rho_clip": float("inf"),
        "density_ratio_clip": float("inf"),
        "grad_clip": None,
        "optimizer_type": "sgd",
        "lambda_1": lambda_1,
        "lambda_2": lambda_2,
        "interest_fn": lambda states: case.mdp.interest[states],
        "num_lanes": NUM_LANES,
        "replay_capacity": NUM_LANES,
        "replay_batch_size": 0,
        **keys,
    }
    if algorithm == "GeoffPAC":
        training.setdefault("gamma_hat", case.gamma_hat)
    return (
        CONFIGS[algorithm]()
        .environment(MDPEnv, env_config={"mdp": case.mdp, "episodic": episodic})
        .training(**training)
        .env_runners(rollout_fragment_length=200)
    )


def freeze(case, learner, **tables: np.ndarray) -> None:
    """Writes a case's tables into the module, and others by the names of their networks."""
    set_tables(learner, pi=case.logits, v=case.values, **tables)
    if learner.config.uses_density_ratio:
        set_tables(learner, c=case.density_ratio)


def deviations(estimate, limits) -> dict[str, float]:
    """How many standard errors lie between a probe's terms and their limits."""
    return {
        "first": deviation(estimate.z1, estimate.z1_stderr, limits.first),
        "second": deviation(estimate.z2, estimate.z2_stderr, limits.second),
    }
