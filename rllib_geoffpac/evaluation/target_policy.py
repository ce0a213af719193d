"""Evaluation of the target policy, as RLlib's custom evaluation function."""

from __future__ import annotations

import copy
import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import (
    COMPONENT_LEARNER,
    COMPONENT_RL_MODULE,
    DEFAULT_AGENT_ID,
    DEFAULT_MODULE_ID,
)
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    EPISODE_DURATION_SEC_MEAN,
    EPISODE_LEN_MAX,
    EPISODE_LEN_MEAN,
    EPISODE_LEN_MIN,
    EPISODE_RETURN_MAX,
    EPISODE_RETURN_MEAN,
    EPISODE_RETURN_MIN,
    EVALUATION_RESULTS,
    NUM_EPISODES,
    WEIGHTS_SEQ_NO,
)
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from ray.rllib.utils.typing import StateDict

from rllib_geoffpac.connectors.observer import PiecesState
from rllib_geoffpac.env_runners.episode_metrics import EpisodeMetrics
from rllib_geoffpac.env_runners.remote_runners import RemoteRunners
from rllib_geoffpac.env_runners.target_policy_env_runner import EPISODES_AT_ONCE, EvaluationEpisode
from rllib_geoffpac.lanes.events import ENV_FAILURES
from rllib_geoffpac.maths.value import monte_carlo_values

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm

J_PI = "j_pi"


def evaluate_target_policy(algorithm: Algorithm, group: EnvRunnerGroup) -> tuple[dict, int, int]:
    """Plays whole episodes of pi and reports J_pi and the return.

    Every visited state of every episode enters J_pi with the discounted Monte-Carlo return from
    there to the end of its episode. So `evaluation_duration` timesteps are as many whole episodes
    as are needed for them, and "auto" is as many as begin while training goes on beside it.
    """
    config = algorithm.config
    state = algorithm.learner_group.get_state(
        components=f"{COMPONENT_LEARNER}/{COMPONENT_RL_MODULE}", inference_only=True
    )[COMPONENT_LEARNER]
    # A local learner's state shares the memory of its parameters, and training beside this
    # evaluation goes on from here.
    weights = copy.deepcopy(state[COMPONENT_RL_MODULE])
    observer = algorithm.observer
    connectors = None if observer is None else copy.deepcopy(observer.get_state())
    evaluated_at = algorithm.stream.anchor.lockstep * config.num_lanes
    algorithm.weights_taken.set()
    if algorithm.evaluation_runners is None:
        algorithm.evaluation_runners = RemoteRunners(
            group,
            config,
            algorithm.evaluation_events,
            partial(algorithm.env_runner_recreated, True),
        )
    runners = algorithm.evaluation_runners
    play = partial(
        play_episodes,
        runners,
        round_=algorithm.iteration,
        weights=weights,
        connectors=connectors,
    )
    if config.evaluation_duration == "auto":
        episodes = list(play(EPISODES_AT_ONCE))
        while not algorithm.parallel_training.done():
            episodes += play(EPISODES_AT_ONCE, first=len(episodes))
    elif config.evaluation_duration_unit == "timesteps":
        episodes = _play_steps(config.evaluation_duration, play)
    else:
        episodes = play(config.evaluation_duration)
    runners.events[ENV_FAILURES] += sum(episode.failures for episode in episodes)
    # RLlib repeats the latest evaluation in every result: this tells which step it belongs to.
    results = {**summarize(episodes), **runners.events, "evaluated_at_env_steps": evaluated_at}
    steps = sum(episode.env_steps() for episode in episodes)
    logger = MetricsLogger(root=False)
    metrics = EpisodeMetrics(logger)
    metrics.steps(steps, len(episodes))
    for name, value in results.items():
        if name != NUM_EPISODES:
            metrics.log(name, value, window=1)
    returned = results[EPISODE_RETURN_MEAN]
    metrics.log(("agent_episode_return_mean", DEFAULT_AGENT_ID), returned, window=1)
    metrics.log(("module_episode_return_mean", DEFAULT_MODULE_ID), returned, window=1)
    metrics.log(WEIGHTS_SEQ_NO, state[WEIGHTS_SEQ_NO], window=1)
    logged = [logger.reduce(), *group.foreach_env_runner(lambda runner: runner.get_metrics())]
    algorithm.metrics.aggregate(logged, key=(EVALUATION_RESULTS, ENV_RUNNER_RESULTS))
    return results, steps, steps


def _play_steps(count: int, play: Any) -> list[EvaluationEpisode]:
    """The first whole episodes that have `count` steps together."""
    episodes: list[EvaluationEpisode] = []
    while True:
        episodes += play(EPISODES_AT_ONCE, first=len(episodes))
        ends = list(itertools.accumulate(episode.env_steps() for episode in episodes))
        if ends[-1] >= count:
            return episodes[: 1 + int(np.searchsorted(ends, count))]


def play_episodes(
    runners: RemoteRunners,
    count: int,
    round_: int,
    weights: StateDict,
    first: int = 0,
    connectors: PiecesState | None = None,
) -> list[EvaluationEpisode]:
    """Spreads the episodes over the runners; a lost runner's episodes are played again.

    Args:
        runners: The evaluation runners; none: the local one plays.
        count: How many episodes, which are also the rows of a batch.
        round_: The evaluation round.
        weights: Of the module. They travel with the requests: a rebuilt runner has none.
        first: Number of the first of them.
        connectors: The state of the connectors, likewise.
    """
    actors = runners.actors()
    numbers = list(range(first, first + count))
    if not actors:
        played = runners.group.local_env_runner.sample(
            episodes=numbers, round_=round_, weights=weights, rows=count, connectors=connectors
        )
        return sorted(played, key=lambda episode: episode.index)
    weights_ref = ray.put(weights)
    shares = {runner: numbers[k :: len(actors)] for k, runner in enumerate(actors)}

    def request(runner: int) -> ray.ObjectRef:
        return runners.actors()[runner].answer.remote(
            episodes=shares[runner],
            round_=round_,
            weights=weights_ref,
            rows=count,
            connectors=connectors,
        )

    pending = {runner: request(runner) for runner in shares}

    def ask(runner: int) -> ray.ObjectRef:
        return pending.pop(runner, None) or request(runner)

    played = []
    for runner, share in shares.items():
        limit = _time_limit(runners.config, len(share))
        played += runners.answer(runner, partial(ask, runner), time_limit=limit)
    return sorted(played, key=lambda episode: episode.index)


def _time_limit(config: AlgorithmConfig, episodes: int) -> float:
    """Seconds that a runner has for its episodes: RLlib's, or ours of a fragment for each."""
    given = config.evaluation_sample_timeout_s
    if given != AlgorithmConfig().evaluation_sample_timeout_s:
        return math.inf if given is None else given
    return config.env_hang_timeout_s * max(1, episodes)


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
        EPISODE_LEN_MIN: int(lengths.min()),
        EPISODE_LEN_MAX: int(lengths.max()),
        EPISODE_DURATION_SEC_MEAN: float(np.mean([episode.seconds for episode in episodes])),
        NUM_EPISODES: count,
    }
