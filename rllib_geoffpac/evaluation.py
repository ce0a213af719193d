"""Evaluation of the target policy, as RLlib's custom evaluation function."""

from __future__ import annotations

from typing import Any

import numpy as np
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    EPISODE_LEN_MEAN,
    EPISODE_RETURN_MAX,
    EPISODE_RETURN_MEAN,
    EPISODE_RETURN_MIN,
    EVALUATION_RESULTS,
    NUM_EPISODES,
)
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rllib_geoffpac.env_runners.target_policy_env_runner import EvaluationEpisode
from rllib_geoffpac.value import monte_carlo_values

J_PI = "j_pi"


def evaluate_target_policy(algorithm: Any, group: EnvRunnerGroup) -> tuple[dict, int, int]:
    """Plays exactly `evaluation_duration` episodes of pi and reports J_pi and the return.

    Every visited state of every episode enters J_pi with the discounted Monte-Carlo return from
    there to the end of its episode.
    """
    algorithm.weights_taken.set()
    config = algorithm.config
    episodes = play_episodes(group, config.evaluation_duration, algorithm.iteration)
    results = summarize(episodes)
    # RLlib repeats the latest evaluation in every result: this tells which step it belongs to.
    results["evaluated_at_env_steps"] = algorithm.stream.anchor.lockstep * config.num_lanes
    logger = MetricsLogger(root=False)
    for name, value in results.items():
        logger.log_value(name, value, window=1)
    algorithm.metrics.aggregate([logger.reduce()], key=(EVALUATION_RESULTS, ENV_RUNNER_RESULTS))
    steps = sum(episode.env_steps() for episode in episodes)
    return results, steps, steps


def play_episodes(group: EnvRunnerGroup, count: int, round_: int) -> list[EvaluationEpisode]:
    """Spreads the episodes over the healthy runners; a lost runner's episodes are played again."""
    if not group.num_remote_env_runners():
        return group.local_env_runner.sample(episodes=list(range(count)), round_=round_)
    done: dict[int, EvaluationEpisode] = {}
    while len(done) < count:
        runners = group.healthy_env_runner_ids() or group.probe_unhealthy_env_runners()
        if not runners:
            raise RuntimeError("All evaluation env runners are lost and none came back.")
        left = [index for index in range(count) if index not in done]
        for played in group.foreach_env_runner(
            "sample",
            kwargs=[
                {"episodes": left[k :: len(runners)], "round_": round_} for k in range(len(runners))
            ],
            remote_worker_ids=runners,
            local_env_runner=False,
        ):
            done.update({episode.index: episode for episode in played})
    return [done[index] for index in sorted(done)]


def summarize(episodes: list[EvaluationEpisode]) -> dict[str, float]:
    """J_pi and the undiscounted returns with their standard errors over the episodes."""
    values = [monte_carlo_values(e.rewards, e.discounts) for e in episodes]
    returns = np.array([episode.episode_return for episode in episodes])
    lengths = np.array([len(v) for v in values])
    sums = np.array([v.sum() for v in values])
    j_pi = sums.sum() / lengths.sum()
    count = len(episodes)
    # Ratio estimator: the episodes are the independent samples, not their states.
    residuals = (sums - j_pi * lengths) / lengths.mean()
    return {
        J_PI: float(j_pi),
        "j_pi_stderr": float(residuals.std(ddof=1) / np.sqrt(count)) if count > 1 else 0.0,
        EPISODE_RETURN_MEAN: float(returns.mean()),
        "episode_return_stderr": float(returns.std(ddof=1) / np.sqrt(count)) if count > 1 else 0.0,
        EPISODE_RETURN_MIN: float(returns.min()),
        EPISODE_RETURN_MAX: float(returns.max()),
        EPISODE_LEN_MEAN: float(lengths.mean()),
        NUM_EPISODES: count,
    }
