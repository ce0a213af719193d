"""Checks that need RLlib and gymnasium, all before any Ray process starts (imports RLlib)."""

import dataclasses
import inspect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rllib_cli import plugins
from rllib_cli.errors import UserError, exception_summary
from rllib_cli.experiment import checks, learner_metrics, names, result_keys, search_space
from rllib_cli.experiment.algorithms import algorithm_class, check_env
from rllib_cli.experiment.parse import Experiment
from rllib_cli.experiment.settings import Settings
from rllib_geoffpac.compat import tune_random_state
from rllib_geoffpac.envs.make_env import create_env
from rllib_geoffpac.validation import did_you_mean

if TYPE_CHECKING:
    from ray.rllib.algorithms import Algorithm


@dataclass(frozen=True)
class Trial:
    """One resolved trial.

    Attributes:
        params: What distinguishes it: path in the config -> value.
        config: Its complete settings as written by the user.
        resources: ``{"CPU": 1, "GPU": 0}`` summed over all its processes.
    """

    params: dict[str, Any]
    config: dict[str, Any]
    resources: dict[str, float]


def check_experiment(experiment: Experiment) -> list[Trial]:
    """Checks keys, values, environment and scheduler, and resolves the trials.

    Raises:
        UserError: For the first mistake found.
    """
    algorithm = experiment.algorithm or algorithm_class(experiment.run)
    settings = Settings(algorithm.get_default_config(), experiment.run)
    settings.check(experiment.config)
    scheduler = experiment.tune_config.get("scheduler")
    if isinstance(scheduler, dict):
        mutated = scheduler.get("hyperparam_mutations") or {}
        settings.check_keys(mutated, "tune_config: scheduler: hyperparam_mutations")
    _check_learner_metrics(experiment, algorithm)
    make_scheduler(experiment.tune_config)
    make_searcher(experiment)
    settings.for_rllib(experiment.config)
    trials = resolve_trials(experiment)
    made = {}
    for name, (env, env_config) in _environments(trials).items():
        if isinstance(env, str):
            check_env(env)
        made[name] = _make_env(env, env_config)
    checked: dict[str, dict[str, float]] = {}
    resolved = []
    for params, config in trials:
        # The seed changes neither validity nor resources: check every grid point once.
        key = repr({k: v for k, v in config.items() if k != "seed"})
        if key not in checked:
            env = made.get(_env_name(config))
            checked[key] = _validated_resources(algorithm, settings.for_rllib(config), params, env)
        resolved.append(Trial(params, config, checked[key]))
    for env in made.values():
        env.close()
    return resolved


def _check_learner_metrics(experiment: Experiment, algorithm: "type[Algorithm]") -> None:
    """Stop keys and metrics of RLlib's own learners; ours are in the table of metrics."""
    if result_keys.reports_more(experiment) or plugins.metrics_of(experiment.run) is not None:
        return
    chosen = {
        "tune_config: metric": experiment.tune_config.get("metric"),
        "checkpoint_config: checkpoint_score_attribute": experiment.checkpoint_config.get(
            "checkpoint_score_attribute"
        ),
    }
    keys = [*(("stop", key) for key in experiment.stop), *chosen.items()]
    for where, key in keys:
        if key is not None:
            learner_metrics.check(key, where, algorithm)


def config_of(experiment: Experiment, trial: Trial) -> Any:
    """The ``AlgorithmConfig`` of a checked trial."""
    algorithm = experiment.algorithm or algorithm_class(experiment.run)
    default = algorithm.get_default_config()
    return default.update_from_dict(Settings(default, experiment.run).for_rllib(trial.config))


def references(experiment: Experiment) -> list[str]:
    """The code that an experiment names as ``package.module:name``."""
    algorithm = experiment.algorithm or algorithm_class(experiment.run)
    settings = Settings(algorithm.get_default_config(), experiment.run)
    return settings.references(experiment.config)


def make_scheduler(tune_config: dict[str, Any]) -> Any | None:
    """Builds the scheduler of ``tune_config``; None for Tune's default."""
    from ray.tune import schedulers

    scheduler = tune_config.get("scheduler")
    if scheduler is None:
        return None
    settings = dict(scheduler) if isinstance(scheduler, dict) else {"type": scheduler}
    kind = getattr(schedulers, names.SCHEDULERS[settings.pop("type")])
    return _make(kind, "scheduler", search_space.to_tune(settings))


def make_searcher(experiment: Experiment) -> Any | None:
    """Builds the search algorithm of ``tune_config``; None if values are drawn at random.

    Unless told otherwise it gets the experiment's seed.
    """
    from ray.tune import search

    if experiment.search_algorithm is None:
        return None
    given = experiment.tune_config["search_alg"]
    settings = dict(given) if isinstance(given, dict) else {}
    settings.pop("type", None)
    kind = search.SEARCH_ALG_IMPORT[experiment.search_algorithm]()
    if "seed" in inspect.signature(kind).parameters:
        settings.setdefault("seed", search_seed(experiment))
    return _make(kind, "search_alg", settings)


def _make(kind: Any, title: str, settings: dict[str, Any]) -> Any:
    """Calls a class of Tune's with a user's arguments."""
    known = set(inspect.signature(kind).parameters) - {"metric", "mode", "space"}
    for key in settings:
        if key not in known:
            raise UserError(
                f"tune_config: the {title} {kind.__name__} has no argument {key!r}."
                f"{did_you_mean(key, known)} It takes {', '.join(sorted(known)) or 'none'}; "
                "metric and mode stand in tune_config itself."
            )
    try:
        return kind(**settings)
    except Exception as error:
        raise UserError(
            f"tune_config: the {title} {kind.__name__} refuses {settings}: "
            f"{exception_summary(error)}"
        ) from None


def resolve_trials(experiment: Experiment) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Draws the trials in the order, and with the random numbers, in which Tune will.

    What a search algorithm will choose is not known before: then they are examples.

    Returns:
        ``(params, config)`` of each trial, ``params`` being what the search space chose.
    """
    from ray.tune.search.variant_generator import generate_variants

    config, num_samples = experiment.drawn()
    spec = {"config": search_space.to_tune(config)}
    random_state = tune_random_state(search_seed(experiment))
    trials = []
    for _ in range(num_samples):
        for resolved, variant in generate_variants(spec, random_state=random_state):
            params = {".".join(map(str, path[1:])): value for path, value in resolved.items()}
            trials.append((params, variant["config"]))
    return trials


def search_seed(experiment: Experiment) -> int:
    """Seed of the random search, so that a dry run shows what a run will do."""
    seed = experiment.config.get("seed")
    return seed if isinstance(seed, int) else 0


def _environments(trials: list[tuple[dict, dict]]) -> dict[str, tuple[Any, dict]]:
    """The distinct environments of the trials, each with its env_config."""
    return {
        _env_name(config): (config["env"], config.get("env_config") or {})
        for _, config in trials
        if config.get("env") is not None
    }


def _env_name(config: dict[str, Any]) -> str:
    return repr((config.get("env"), config.get("env_config") or {}))


def _make_env(env: Any, env_config: dict[str, Any]) -> Any:
    if not isinstance(env_config, dict):
        raise UserError(f"config: env_config must be a mapping, got {env_config!r}.")
    try:
        return create_env(env, env_config)
    except Exception as error:
        given = f" with env_config {env_config}" if env_config else ""
        raise UserError(
            f"The environment {env!r} cannot be created{given}: "
            f"{type(error).__name__}: {exception_summary(error)}"
        ) from None


def _validated_resources(
    algorithm: "type[Algorithm]", settings: dict[str, Any], params: dict[str, Any], env: Any | None
) -> dict[str, float]:
    """Lets the algorithm judge its settings and say what they need."""
    at = " (in the trial with " + ", ".join(f"{k}={v}" for k, v in params.items()) + ")"
    try:
        request = algorithm.default_resource_request(settings)
        algorithm_config = algorithm.get_default_config()
        # RLlib's own algorithms have no such check: they complain when the trial has begun.
        if env is not None and hasattr(algorithm_config, "check_env"):
            algorithm_config.update_from_dict(settings).check_env(env)
    except Exception as error:
        raise UserError(
            f"{algorithm.__name__} refuses the config{at if params else ''}: {_reason(error)}"
        ) from None
    return _sum_bundles(request)


def _reason(error: Exception) -> str:
    """RLlib's message without its advice to switch all validation off."""
    text = str(error).partition("To suppress all validation errors")[0]
    return exception_summary(Exception(text) if text.strip() else error)


def _sum_bundles(request: Any) -> dict[str, float]:
    total = {"CPU": 0.0, "GPU": 0.0}
    for bundle in request.bundles:
        for kind, amount in bundle.items():
            total[kind] = total.get(kind, 0.0) + amount
    return total


def fit_env_runners(
    experiment: Experiment, trials: list[Trial], cpus: float
) -> tuple[Experiment, str]:
    """Lowers an algorithm's *default* number of env runners to what a small machine can hold.

    PPO, for instance, has two by default and would need three CPUs. A number that the user wrote
    is never changed: it is checked by :func:`check_trial_resources`.

    Returns:
        The experiment, and a note for the user (empty if nothing was changed).
    """
    if "num_env_runners" in experiment.config:
        return experiment, ""
    algorithm = experiment.algorithm or algorithm_class(experiment.run)
    standard = algorithm.get_default_config().num_env_runners
    needed = max(trial.resources["CPU"] for trial in trials)
    per_runner = experiment.config.get("num_cpus_per_env_runner", 1) or 1
    if needed <= cpus or search_space.is_search_space(per_runner):
        return experiment, ""
    fitting = standard - math.ceil((needed - cpus) / per_runner)
    if fitting < 0:
        return experiment, ""
    config = {**experiment.config, "num_env_runners": fitting}
    note = (
        f"{experiment.run} has {standard} env runners by default and would need {needed:g} CPUs; "
        f"with {cpus:g} it gets num_env_runners: {fitting}."
    )
    return dataclasses.replace(experiment, config=config), note


def check_trial_resources(
    trials: list[Trial], available: dict[str, float] | None = None, *, of_cluster: bool = False
) -> None:
    """A trial that asks for more than there is would wait for ever.

    Args:
        trials: The resolved trials.
        available: CPUs, GPUs and custom resources that Ray will have; None for this machine.
        of_cluster: Whether a running cluster (``--ray-address``) has them, not a Ray of this
            command's.
    """
    if available is None:
        available = {"CPU": checks.available_cpus(), "GPU": checks.available_gpus()}
    for trial in trials:
        for kind, needed in trial.resources.items():
            there = available.get(kind, 0)
            if needed > there:
                raise UserError(_too_few(kind, needed, there, of_cluster))


def _too_few(kind: str, needed: float, there: float, of_cluster: bool) -> str:
    """What is missing, and what helps: on this machine, or in a cluster that runs already."""
    what, who = f"{kind}s", "the cluster" if of_cluster else "this machine"
    share = f"let processes share the cores (--ray-num-cpus {math.ceil(needed)}), "
    if of_cluster:
        share = "let env runners share CPUs (num_cpus_per_env_runner: 0.5), "
    if kind == "CPU":
        what = "CPUs (main process, env runners, evaluation env runners, learners)"
        advice = f"Lower num_env_runners, evaluation_num_env_runners or num_learners, {share}"
    elif kind == "GPU":
        advice = "Lower num_gpus_per_learner or num_gpus_per_env_runner, "
    else:
        what = f"of the custom resource {kind!r}"
        advice = "Correct its name or lower the amount (custom_resources_per_env_runner, ...), "
    elsewhere = "or add nodes to it" if of_cluster else "or use a cluster with --ray-address"
    return f"A trial needs {needed:g} {what}, but {who} has {there:g}. {advice}{elsewhere}."
