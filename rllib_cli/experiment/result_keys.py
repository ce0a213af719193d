"""Which keys a training result will contain, so that a stop key or metric can be checked.

A stop key that no result contains would let a trial run for ever.
"""

from typing import Any

from rllib_cli.errors import UserError
from rllib_cli.experiment import names
from rllib_geoffpac.validation import did_you_mean

TOP_LEVEL = (
    "training_iteration",
    "num_env_steps_sampled_lifetime",
    "time_total_s",
    "time_this_iter_s",
    "time_since_restore",
    "iterations_since_restore",
    "timestamp",
    "num_training_step_calls_per_iteration",
)
ENV_RUNNERS = (
    "episode_return_mean",
    "episode_return_min",
    "episode_return_max",
    "episode_len_mean",
    "episode_len_min",
    "episode_len_max",
    "episode_duration_sec_mean",
    "num_episodes",
    "num_episodes_lifetime",
    "num_env_steps_sampled",
    "num_env_steps_sampled_lifetime",
)
# Keys with one entry per agent or module below them.
ENV_RUNNERS_PER_ID = (
    "num_agent_steps_sampled",
    "num_agent_steps_sampled_lifetime",
    "num_module_steps_sampled",
    "num_module_steps_sampled_lifetime",
    "agent_episode_return_mean",
    "module_episode_return_mean",
)
# What only this package's algorithms report: J_pi, the paper's metric, is measured in evaluation.
GEOFFPAC_TOP_LEVEL = ("env_steps_per_s",)
GEOFFPAC_ENV_RUNNERS = (
    "simulation_seconds",
    "env_failures",
    "lanes_resimulated",
    "lanes_not_reproducible",
    "env_runners_lost",
    "env_runners_hung",
)
GEOFFPAC_EVALUATION = ("j_pi", "j_pi_stderr", "episode_return_stderr")
# Subtrees whose entries depend on the algorithm.
OPEN_HEADS = ("timers", "perf", "fault_tolerance", "env_runner_group")
MODULES = ("default_policy", "__all_modules__")


def check_result_key(key: str, where: str, run: str, config: dict[str, Any]) -> None:
    """Raises UserError if no result of this experiment will contain ``key``.

    Args:
        key: A flat result key such as ``env_runners/episode_return_mean``.
        where: What to call its place in the message, for instance ``stop``.
        run: Name of the algorithm.
        config: The experiment's config (evaluation and callbacks decide what is reported).
    """
    if key in names.OLD_METRICS:
        raise UserError(
            f"{where}: {key!r} is no result key of RLlib's new API stack; "
            f"write {names.OLD_METRICS[key]!r}."
        )
    head, _, tail = key.partition("/")
    if head == "evaluation":
        if not config.get("evaluation_interval"):
            raise UserError(
                f"{where}: {key!r} is only reported with evaluation switched on; "
                "set evaluation_interval: 1 in config."
            )
        section, _, tail = tail.partition("/")
        if section == "env_runners" and _in_env_runners(tail, config, evaluation=True, run=run):
            return
    elif head == "env_runners":
        if _in_env_runners(tail, config, evaluation=False, run=run):
            return
    # A callback may log where it likes.
    elif key in TOP_LEVEL or (tail and (head in OPEN_HEADS or config.get("callbacks"))):
        return
    elif head == "learners":
        module, _, rest = tail.partition("/")
        if rest and (module in MODULES or config.get("policies")):
            return
    elif key in GEOFFPAC_TOP_LEVEL and run in names.GEOFFPAC_ALGORITHMS:
        return
    known = known_keys(run, bool(config.get("evaluation_interval")))
    raise UserError(
        f"{where}: no result of {run} will contain {key!r}.{did_you_mean(key, known)} "
        f"Known are {', '.join(known[:3])}, {', '.join(known[len(TOP_LEVEL) :][:2])} ... "
        "and learners/default_policy/<metric>."
    )


def _in_env_runners(tail: str, config: dict[str, Any], evaluation: bool, run: str) -> bool:
    if tail in ENV_RUNNERS or (config.get("callbacks") and tail):
        return True
    own = (*GEOFFPAC_ENV_RUNNERS, *(GEOFFPAC_EVALUATION if evaluation else ()))
    if tail in own:
        return run in names.GEOFFPAC_ALGORITHMS
    first, _, rest = tail.partition("/")
    return first in ENV_RUNNERS_PER_ID and bool(rest)


def known_keys(run: str, evaluation: bool) -> list[str]:
    """The result keys that can be named in advance, most useful first."""
    keys = [*TOP_LEVEL, *(f"env_runners/{key}" for key in ENV_RUNNERS)]
    if evaluation:
        if run in names.GEOFFPAC_ALGORITHMS:
            keys += [f"evaluation/env_runners/{key}" for key in GEOFFPAC_EVALUATION]
        keys += [f"evaluation/env_runners/{key}" for key in ENV_RUNNERS]
    return keys


def default_metric(run: str, config: dict[str, Any]) -> str:
    """What 'best' means when the user does not say."""
    if config.get("evaluation_interval"):
        if run in names.GEOFFPAC_ALGORITHMS:
            return "evaluation/env_runners/j_pi"
        return "evaluation/env_runners/episode_return_mean"
    return "env_runners/episode_return_mean"
