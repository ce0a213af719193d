"""Which keys a training result will contain, so that a stop key or metric can be checked.

A stop key that no result contains would let a trial run for ever.
"""

import difflib
from collections.abc import Iterable, Sequence

from rllib_cli import plugins
from rllib_cli.errors import UserError
from rllib_cli.experiment import names
from rllib_cli.experiment.parse import Experiment
from rllib_geoffpac.metrics import ENV_RUNNERS, EVALUATION, LEARNER, METRICS, Metric, headlines
from rllib_geoffpac.validation import did_you_mean

STEPS = "num_env_steps_sampled_lifetime"
# Offline algorithms sample nothing: they count what they train on.
STEPS_OFFLINE = "learners/__all_modules__/num_env_steps_trained_lifetime"
STEADY_KEYS = (STEPS, "training_iteration", "time_total_s", STEPS_OFFLINE)
"""Keys that only grow, so that they tell the time left."""
EVALUATED_AT = f"{EVALUATION}/evaluated_at_env_steps"

# What RLlib's own env runners report beside the metrics that every algorithm has.
_MORE_OF_ENV_RUNNERS = (
    "episode_len_min",
    "episode_len_max",
    "episode_duration_sec_mean",
    "num_agent_steps_sampled/<agent>",
    "num_agent_steps_sampled_lifetime/<agent>",
    "num_module_steps_sampled/<module>",
    "num_module_steps_sampled_lifetime/<module>",
    "agent_episode_return_mean/<agent>",
    "module_episode_return_mean/<module>",
)
# Settings with which a user brings code that may report what it likes.
_OWN_CODE = (
    "callbacks",
    "callbacks_class",
    "learner_class",
    "env_runner_cls",
    "custom_evaluation_function",
)


def metrics_of(experiment: Experiment) -> Sequence[Metric]:
    """The metrics that an experiment's results may contain, evaluation or not."""
    known = plugins.metrics_of(experiment.run, experiment.algorithm)
    if known is not None:
        return known
    module = "<module>" if experiment.config.get("policies") else "default_policy"
    learner = Metric("<metric...>", "", "", place=f"learners/{module}")
    return (*RLLIB_METRICS, learner)


def _of_rllib() -> tuple[Metric, ...]:
    """What all of RLlib's algorithms report; evaluation env runners report what others do."""
    shared = [metric for metric in METRICS if metric.rllib]
    of_env_runners = [metric.name for metric in shared if metric.place == ENV_RUNNERS]
    known = {metric.key for metric in shared}
    more = [
        Metric(name, "", "", place=place)
        for place in (ENV_RUNNERS, EVALUATION)
        for name in (*of_env_runners, *_MORE_OF_ENV_RUNNERS)
        if f"{place}/{name}" not in known
    ]
    return (*shared, *more)


RLLIB_METRICS = _of_rllib()


def check_result_key(key: str, where: str, experiment: Experiment) -> None:
    """Raises UserError if no result of this experiment will contain the number ``key``.

    Args:
        key: A flat result key such as ``env_runners/episode_return_mean``.
        where: What to call its place in the message, for instance ``stop``.
        experiment: Its algorithm and config (evaluation and callbacks) decide what is reported.
    """
    if key in names.OLD_METRICS:
        raise UserError(
            f"{where}: {key!r} is no result key of RLlib's new API stack; "
            f"write {names.OLD_METRICS[key]!r}."
        )
    evaluates = bool(experiment.config.get("evaluation_interval"))
    if key.startswith("evaluation/") and not evaluates:
        raise UserError(
            f"{where}: {key!r} is only reported with evaluation switched on; "
            "set evaluation_interval: 1 in config."
        )
    metrics = metrics_of(experiment)
    if experiment.run in names.OFFLINE_ALGORITHMS:
        # They play no environment but for evaluation.
        metrics = [metric for metric in metrics if metric.place != ENV_RUNNERS]
    found = next((metric for metric in metrics if metric.matches(key)), None)
    if found is None and not ("/" in key and reports_more(experiment)):
        known = [metric.key for metric in metrics if metric.is_number and not metric.is_open]
        examples = sorted(known, key=lambda name: name.count("/"))[:4]
        raise UserError(
            f"{where}: no result of {experiment.run} will contain {key!r}."
            f"{did_you_mean_key(key, known)} "
            f"Known are {', '.join(examples)} ... and {LEARNER}/<metric>."
        )
    if found is not None and not found.is_number:
        raise UserError(f"{where}: {key!r} is no number, but {found.unit}; take another key.")


def reports_more(experiment: Experiment) -> bool:
    """Whether there is code of the user's own in the experiment."""
    config = experiment.config
    named = any(config.get(key) for key in _OWN_CODE)
    return (
        named
        or any(key.startswith(("callbacks_on_", "on_")) for key in config)
        or experiment.run not in names.ALGORITHMS
    )


def did_you_mean_key(key: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for a result key, also for the right name at a wrong place."""
    by_name: dict[str, str] = {}
    for candidate in sorted(known, key=len):
        by_name.setdefault(_name(candidate), candidate)
    if _name(key) in by_name:
        return f" Did you mean {by_name[_name(key)]!r}?"
    hint = did_you_mean(key, known)
    close = difflib.get_close_matches(_name(key), by_name, n=1)
    return hint or (f" Did you mean {by_name[close[0]]!r}?" if close else "")


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def default_metric(experiment: Experiment) -> str:
    """What 'best' means when the user does not say: the first headline that will be reported."""
    evaluates = experiment.config.get("evaluation_interval")
    return next(
        metric.key
        for metric in headlines(metrics_of(experiment))
        if evaluates or not metric.needs_evaluation
    )
