"""Metrics of what is sampled: with the target policy in evaluation, with mu in training."""

from __future__ import annotations

from rllib_geoffpac.metrics.row import ALGORITHMS, ENV_RUNNERS, EVALUATION, Metric, Section

_EPISODE = "once an episode has ended"
_LIVE = "where environments are simulated"
_PIECES = "with RLlib's connectors"
_PARTS = (("agent", "agent"), ("module", "policy"))
"""RLlib's names of what acts, and what it calls the only one."""


def _of_episodes(duration: str, when: str = "") -> list[Metric]:
    """RLlib's metrics of episodes beside their mean return; `duration`: what takes that long."""
    return [
        Metric("episode_return_min", "reward", "the lowest return", when, rllib=True),
        Metric("episode_return_max", "reward", "the highest return", when, rllib=True),
        Metric("episode_len_mean", "env steps", "length of the episodes", when, rllib=True),
        Metric("episode_len_min", "env steps", "the shortest", when, rllib=True),
        Metric("episode_len_max", "env steps", "the longest", when, rllib=True),
        Metric("episode_duration_sec_mean", "s", duration, when, rllib=True),
        *(
            Metric(
                f"{part}_episode_return_mean/default_{name}",
                "reward",
                f"`episode_return_mean`, of the one {part}",
                when,
                rllib=True,
            )
            for part, name in _PARTS
        ),
    ]


def _steps(since: str) -> list[Metric]:
    """RLlib's counts of steps by agent and by module, lately and in the run."""
    return [
        Metric(f"num_{part}_steps_sampled{suffix}/default_{name}", "env steps", meaning, rllib=True)
        for suffix, meaning in (("", since), ("_lifetime", "in this run"))
        for part, name in _PARTS
    ]


def _times(when: str = "") -> list[Metric]:
    """RLlib's times of an env runner and of the connectors before its module."""
    return [
        Metric("sample", "s", "of one call of an env runner, smoothed", rllib=True),
        Metric("env_step_timer", "s", "of an environment's step, smoothed", when, rllib=True),
        Metric("env_reset_timer", "s", "of its reset, likewise", when, rllib=True),
        Metric(
            "env_to_module_connector/<part...>",
            "s",
            "times of the pieces of `env_to_module_connector`, smoothed",
            _PIECES,
            rllib=True,
        ),
        Metric(
            "env_to_module_sum_episodes_length_<in or out>",
            "env steps",
            "of the episodes that it is called with, RLlib's mean",
            _PIECES,
            rllib=True,
        ),
    ]


EVALUATION_OF_PI = Section(
    "Evaluation of the target policy",
    EVALUATION,
    ALGORITHMS,
    (
        Metric(
            "j_pi",
            "reward",
            "J_pi, the paper's metric: the mean, over all states that pi visits, of the "
            "discounted return from there to the end of the episode",
            headline="J_pi",
            label=r"$J_\pi$ (target policy)",
        ),
        Metric("j_pi_stderr", "reward", "its standard error over episodes"),
        Metric(
            "episode_return_mean",
            "reward",
            "undiscounted return of pi, mean over the episodes",
            rllib=True,
            headline="eval return",
            label="episode return (evaluation)",
        ),
        Metric("episode_return_stderr", "reward", "its standard error over episodes"),
        *_of_episodes("from its start to its end; all are played side by side"),
        *_steps("in this evaluation"),
        Metric(
            "weights_seq_no",
            "",
            "RLlib's number of the version of the weights that were evaluated",
            rllib=True,
        ),
        Metric("num_env_steps_sampled", "env steps", "in this evaluation", rllib=True),
        Metric("num_env_steps_sampled_lifetime", "env steps", "in all of them", rllib=True),
        Metric("num_episodes", "episodes", "played in this evaluation", rllib=True),
        Metric("num_episodes_lifetime", "episodes", "played in all of them", rllib=True),
        *_times(),
        Metric(
            "rlmodule_inference_timer",
            "s",
            "of drawing the actions of all episodes for one step, smoothed",
            rllib=True,
        ),
        Metric(
            "module_to_env_connector/<part...>", "s", "times of its pieces", _PIECES, rllib=True
        ),
        Metric(
            "evaluated_at_env_steps",
            "env steps",
            "the training step of this evaluation (RLlib repeats the latest in every result)",
        ),
        Metric("env_failures", "times", "environments that raised; the episode was repeated"),
        Metric("env_runners_lost", "times", "evaluation env runners lost and rebuilt"),
        Metric("env_runners_hung", "times", "those that did not answer in time"),
    ),
)

SAMPLING = Section(
    "Sampling with the behaviour policy",
    ENV_RUNNERS,
    ALGORITHMS,
    (
        Metric(
            "episode_return_mean",
            "reward",
            "undiscounted return of mu, mean over its latest episodes",
            _EPISODE,
            rllib=True,
            headline="return",
            label="episode return (training)",
        ),
        *_of_episodes("of simulating it", _EPISODE),
        *_steps("in this iteration"),
        Metric(
            "weights_seq_no",
            "",
            "RLlib's number of the version of the weights that mu follows; 0: it is fixed",
            rllib=True,
        ),
        Metric("num_episodes", "episodes", "that ended in this iteration", rllib=True),
        Metric("num_episodes_lifetime", "episodes", "that ended in this run", rllib=True),
        Metric("num_env_steps_sampled", "env steps", "in this iteration", rllib=True),
        Metric("num_env_steps_sampled_lifetime", "env steps", "in this run", rllib=True),
        Metric(
            "num_env_steps_sampled_lifetime_throughput/<since>",
            "env steps / s",
            "RLlib's measure of speed, since the last result or restore",
            rllib=True,
        ),
        *_times(_LIVE),
        Metric(
            "simulation_seconds",
            "s",
            "spent by the slowest env runner on simulating or reading",
        ),
        Metric("env_failures", "times", "environments that raised"),
        Metric("lanes_resimulated", "times", "lanes brought back by re-simulation"),
        Metric(
            "lanes_not_reproducible",
            "times",
            "lanes that could not be brought back: the same seed gave other observations",
        ),
        Metric(
            "recorded_chunks_damaged",
            "times",
            "damaged parts of a recorded stream (`experience_cache`), simulated again",
        ),
        Metric("env_runners_lost", "times", "env runners lost and rebuilt"),
        Metric("env_runners_hung", "times", "those that did not answer in time"),
    ),
)
