"""Evaluation of the target policy, as RLlib's custom evaluation function."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np
import ray
from ray.rllib.core import COMPONENT_LEARNER, COMPONENT_RL_MODULE
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
from ray.rllib.utils.typing import StateDict

from rllib_geoffpac.env_runners.remote_runners import RemoteRunners
from rllib_geoffpac.env_runners.target_policy_env_runner import EvaluationEpisode
from rllib_geoffpac.lanes.events import ENV_FAILURES
from rllib_geoffpac.maths.value import monte_carlo_values

J_PI = "j_pi"


def evaluate_target_policy(algorithm: Any, group: EnvRunnerGroup) -> tuple[dict, int, int]:
    """Plays exactly `evaluation_duration` episodes of pi and reports J_pi and the return.

    Every visited state of every episode enters J_pi with the discounted Monte-Carlo return from
    there to the end of its episode.
    """
    config = algorithm.config
    weights = algorithm.learner_group.get_state(
        components=f"{COMPONENT_LEARNER}/{COMPONENT_RL_MODULE}", inference_only=True
    )[COMPONENT_LEARNER][COMPONENT_RL_MODULE]
    # A local learner's state shares the memory of its parameters, and training beside this
    # evaluation goes on from here.
    weights = copy.deepcopy(weights)
    evaluated_at = algorithm.stream.anchor.lockstep * config.num_lanes
    algorithm.weights_taken.set()
    if algorithm.evaluation_runners is None:
        algorithm.evaluation_runners = RemoteRunners(group, config, algorithm.evaluation_events)
    runners = algorithm.evaluation_runners
    episodes = play_episodes(runners, config.evaluation_duration, algorithm.iteration, weights)
    runners.events[ENV_FAILURES] += sum(episode.failures for episode in episodes)
    results = summarize(episodes) | runners.events
    # RLlib repeats the latest evaluation in every result: this tells which step it belongs to.
    results["evaluated_at_env_steps"] = evaluated_at
    logger = MetricsLogger(root=False)
    for name, value in results.items():
        logger.log_value(name, value, window=1)
    algorithm.metrics.aggregate([logger.reduce()], key=(EVALUATION_RESULTS, ENV_RUNNER_RESULTS))
    steps = sum(episode.env_steps() for episode in episodes)
    return results, steps, steps


def play_episodes(
    runners: RemoteRunners, count: int, round_: int, weights: StateDict
) -> list[EvaluationEpisode]:
    """Spreads the episodes over the runners; a lost runner's episodes are played again.

    The weights travel with the requests: a rebuilt runner has none.
    """
    actors = runners.actors()
    if not actors:
        local = runners.group.local_env_runner
        played = local.sample(episodes=list(range(count)), round_=round_, weights=weights)
        return sorted(played, key=lambda episode: episode.index)
    weights_ref = ray.put(weights)
    shares = {runner: list(range(count))[k :: len(actors)] for k, runner in enumerate(actors)}

    def request(runner: int) -> ray.ObjectRef:
        return runners.actors()[runner].answer.remote(
            episodes=shares[runner], round_=round_, weights=weights_ref
        )

    pending = {runner: request(runner) for runner in shares}

    def ask(runner: int) -> ray.ObjectRef:
        return pending.pop(runner, None) or request(runner)

    played = []
    for runner, share in shares.items():
        # The time limit of a fragment is that of an episode here.
        limit = runners.config.env_hang_timeout_s * max(1, len(share))
        played += runners.answer(runner, partial(ask, runner), time_limit=limit)
    return sorted(played, key=lambda episode: episode.index)


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
