"""Checks that need neither Ray nor torch nor gymnasium: they answer within a second."""

import glob
import importlib.util
import math
import os
import socket
from pathlib import Path
from typing import Any

from rllib_cli import out_files, storage
from rllib_cli.errors import UserError
from rllib_cli.experiment import names, parse, result_keys, search_space
from rllib_cli.experiment.parse import Experiment
from rllib_geoffpac.validation import did_you_mean


def check_experiments(experiments: list[Experiment]) -> None:
    """Raises UserError for the first mistake that is visible without RLlib."""
    for experiment in experiments:
        if experiment.algorithm is None:
            check_algorithm(experiment.run)
        check_config(experiment.config, experiment.run)
        check_stop(experiment)
        check_run_settings(experiment)
        check_storage(experiment)


def check_algorithm(run: str) -> None:
    """The algorithm's name must be one of RLlib's or of this package's."""
    if run not in names.ALGORITHMS:
        raise UserError(
            f"Unknown algorithm {run!r}.{did_you_mean(run, names.ALGORITHMS)} "
            f"Available: {', '.join(names.ALGORITHMS)}."
        )


def check_config(config: dict[str, Any], run: str) -> None:
    """Old-stack names, search spaces, and settings that only the old stack had."""
    for where, settings in (
        ("config", config),
        ("config.evaluation_config", config.get("evaluation_config")),
    ):
        for key in settings or {}:
            if key in names.OLD_CONFIG_KEYS:
                raise UserError(
                    f"{where}: {key!r} belongs to RLlib's old API stack; "
                    f"write {names.OLD_CONFIG_KEYS[key]}."
                )
            if key in search_space.SPELLINGS:
                raise UserError(f"{where}: {key!r} must stand below the key that it varies.")
    framework = config.get("framework", "torch")
    if framework != "torch":
        raise UserError(
            f"config: framework is {framework!r}, but RLlib's new API stack has only 'torch'. "
            "Leave the key out."
        )
    for key in ("enable_rl_module_and_learner", "enable_env_runner_and_connector_v2"):
        if config.get(key, True) is not True:
            raise UserError(
                f"config: {key} is {config[key]!r}; this command runs the new API stack only. "
                "Leave the key out."
            )
    search_space.check(config)
    env = config.get("env")
    from_data = config.get("input_") not in (None, "sampler")
    if env is None and run not in names.OFFLINE_ALGORITHMS and not from_data:
        raise UserError(
            f"{run} needs an environment: give 'env' in the experiment or --env on the command "
            "line, for instance --env CartPole-v1; or a data set to learn from with --data."
        )
    given_as_code = callable(env)  # in a Python experiment
    if env is not None and not (
        isinstance(env, str) or given_as_code or search_space.is_search_space(env)
    ):
        raise UserError(
            f"env must be text: a gymnasium id such as HalfCheetah-v5, or package.module:name; "
            f"got {env!r} ({type(env).__name__})."
        )
    seed = config.get("seed")
    if seed is not None and not search_space.is_search_space(seed):
        _require(isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0,
                 "config: seed", seed, "an integer >= 0")  # fmt: skip


def check_data(config: dict[str, Any]) -> None:
    """The data set of ``input_`` is there; elsewhere, that shows when it is read."""
    given: Any = config.get("input_")
    if config.get("input_filesystem"):
        return
    for path in given if isinstance(given, list) else [given]:
        if parse.is_data_path(path) and not storage.is_uri(path) and not os.path.exists(path):
            raise UserError(
                f"There is no data set at {path!r} (--data, 'input_'): give a folder of parquet "
                "files, as 'rllib record --out' writes it, or minari:DATASET-ID."
            )


def check_stop(experiment: Experiment) -> None:
    """Every stop key will be reported, and its value is a finite number that it can reach."""
    for key, value in experiment.stop.items():
        result_keys.check_result_key(key, "stop", experiment)
        _require(_is_finite_number(value), f"stop: {key}", value, "a finite number")
        if key in result_keys.STEADY_KEYS:
            _require(value >= 0, f"stop: {key}", value, "a number >= 0")


def check_run_settings(experiment: Experiment) -> None:
    """``num_samples``, ``checkpoint_config``, ``tune_config`` and ``failure_config``."""
    _require(_is_count(experiment.num_samples), "num_samples", experiment.num_samples,
             "an integer >= 1")  # fmt: skip
    for title, settings, known in (
        ("checkpoint_config", experiment.checkpoint_config, names.CHECKPOINT_KEYS),
        ("tune_config", experiment.tune_config, names.TUNE_KEYS),
        ("failure_config", experiment.failure_config, names.FAILURE_KEYS),
    ):
        for key in settings:
            if key not in known:
                raise UserError(
                    f"{title}: unknown key {key!r}.{did_you_mean(key, known)} "
                    f"It has the keys {', '.join(known)}."
                )
    _check_checkpoint_config(experiment)
    tune_config = experiment.tune_config
    if "metric" in tune_config:
        _require(isinstance(tune_config["metric"], str), "tune_config: metric",
                 tune_config["metric"], "the name of a result key")  # fmt: skip
        result_keys.check_result_key(tune_config["metric"], "tune_config: metric", experiment)
    mode = tune_config.get("mode", "max")
    _require(mode in ("max", "min"), "tune_config: mode", mode, "'max' or 'min'")
    if tune_config.get("max_concurrent_trials") is not None:
        value = tune_config["max_concurrent_trials"]
        _require(_is_count(value), "tune_config: max_concurrent_trials", value, "an integer >= 1")
    if tune_config.get("time_budget_s") is not None:
        value = tune_config["time_budget_s"]
        _require(_is_finite_number(value) and value > 0, "tune_config: time_budget_s", value,
                 "a number of seconds > 0")  # fmt: skip
    scheduler = tune_config.get("scheduler")
    kind = scheduler.get("type") if isinstance(scheduler, dict) else scheduler
    if scheduler is not None and kind not in names.SCHEDULERS:
        raise UserError(
            f"tune_config: unknown scheduler {scheduler!r}."
            f"{did_you_mean(str(kind), names.SCHEDULERS)} "
            f"Write one of {', '.join(names.SCHEDULERS)}, or with arguments "
            "'scheduler: {type: asha, max_t: 100}'."
        )
    if isinstance(scheduler, dict) and isinstance(scheduler.get("time_attr"), str):
        # Else Tune says in the middle of the run that no result has it.
        where = "tune_config: scheduler: time_attr"
        result_keys.check_result_key(scheduler["time_attr"], where, experiment)
    _check_search(experiment)
    failures = experiment.failure_config.get("max_failures", 0)
    _require(isinstance(failures, int) and not isinstance(failures, bool) and failures >= -1,
             "failure_config: max_failures", failures,
             "an integer >= 0, or -1 for no limit")  # fmt: skip


def _check_search(experiment: Experiment) -> None:
    given, kind = experiment.tune_config.get("search_alg"), experiment.search_algorithm
    if given is None:
        return
    if kind not in names.SEARCH_ALGORITHMS:
        raise UserError(
            f"tune_config: unknown search_alg {given!r}."
            f"{did_you_mean(str(kind), names.SEARCH_ALGORITHMS)} "
            f"Write one of {', '.join(names.SEARCH_ALGORITHMS)}, or with arguments "
            "'search_alg: {type: optuna, seed: 1}'. Without the key values are drawn at random."
        )
    spaces = [space for _, space in search_space.find(experiment.config)]
    if not spaces:
        raise UserError(
            f"tune_config: search_alg {kind} has nothing to search: give a setting a search space, "
            "for instance lr: {loguniform: [1e-4, 1e-2]}."
        )
    if any("grid_search" in space for space in spaces):
        raise UserError(
            f"tune_config: search_alg {kind} chooses values itself and knows no grid_search; "
            "write choice instead."
        )


def _check_checkpoint_config(experiment: Experiment) -> None:
    settings = experiment.checkpoint_config
    frequency = settings.get("checkpoint_frequency", 0)
    _require(
        frequency == 0 or _is_count(frequency),
        "checkpoint_config: checkpoint_frequency (--checkpoint-freq)",
        frequency,
        "a number of iterations >= 0 (0: none on the way)",
    )
    if settings.get("num_to_keep") is not None:
        _require(_is_count(settings["num_to_keep"]),
                 "checkpoint_config: num_to_keep (--keep-checkpoints-num)",
                 settings["num_to_keep"], "an integer >= 1")  # fmt: skip
    at_end = settings.get("checkpoint_at_end", True)
    _require(isinstance(at_end, bool), "checkpoint_config: checkpoint_at_end", at_end,
             "true or false")  # fmt: skip
    order = settings.get("checkpoint_score_order", "max")
    _require(order in ("max", "min"), "checkpoint_config: checkpoint_score_order", order,
             "'max' or 'min'")  # fmt: skip
    if settings.get("checkpoint_score_attribute") is not None:
        attribute = settings["checkpoint_score_attribute"]
        _require(isinstance(attribute, str), "checkpoint_config: checkpoint_score_attribute",
                 attribute, "the name of a result key")  # fmt: skip
        result_keys.check_result_key(
            attribute, "checkpoint_config: checkpoint_score_attribute", experiment
        )


def check_storage(experiment: Experiment) -> None:
    """The results folder can be created; nothing is left behind by trying."""
    folder = experiment.folder
    if storage.is_uri(folder):
        storage.check(folder)
        return
    if why := out_files.obstacle_to_folder(Path(folder)):
        raise UserError(
            f"The storage path {folder!r} cannot be used: {why}. "
            "Choose another one with --storage-path."
        )


def check_resources(num_cpus: float | None, num_gpus: float | None, address: str | None) -> None:
    """``--ray-num-cpus`` and ``--ray-num-gpus`` describe a Ray that can be started here."""
    if address is not None:
        if num_cpus is not None or num_gpus is not None:
            raise UserError(
                "--ray-num-cpus and --ray-num-gpus describe a Ray that is started here; with "
                "--ray-address the cluster has its own. Leave them out."
            )
        return
    if num_cpus is not None and num_cpus < 1:
        raise UserError(f"--ray-num-cpus is {num_cpus}; it must be at least 1.")
    if num_gpus is not None and not 0 <= num_gpus <= available_gpus():
        raise UserError(
            f"--ray-num-gpus asks for {num_gpus} GPUs, but this machine has {available_gpus()}. "
            "Ask for fewer, or use --ray-address to run on a cluster."
        )


def oversubscription(num_cpus: float | None) -> str:
    """What to tell a user who gives Ray more CPUs than there are; empty if they don't."""
    cores = available_cpus()
    if num_cpus is None or num_cpus <= cores:
        return ""
    return (
        f"--ray-num-cpus {num_cpus}: this machine has {cores} cores, so its processes share them "
        "and each runs slower."
    )


def check_address(address: str | None) -> None:
    """Somebody listens at ``--ray-address``; Ray itself would try for minutes."""
    if address is None or address in ("auto", "local"):
        return
    host, colon, port = address.partition("://")[2].rpartition(":")
    if "://" not in address:
        host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(
            f"--ray-address {address!r} must be 'auto', host:port (for instance 10.0.0.1:6379) or "
            "ray://host:port."
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5):
            pass
    except OSError as error:
        raise UserError(
            f"--ray-address {address!r}: nobody answers there ({error.strerror or error}). "
            "Start a cluster with 'ray start --head', or leave the option out."
        ) from None


def check_wandb(project: str | None) -> None:
    """``--wandb-project`` needs the wandb package."""
    if project is not None and importlib.util.find_spec("wandb") is None:
        raise UserError(
            "--wandb-project needs the wandb package, which is not installed. "
            "Run 'pip install wandb' and 'wandb login', or leave the option out."
        )


def available_cpus() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_gpus() -> int:
    """NVIDIA GPUs that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    present = len(glob.glob("/dev/nvidia[0-9]*"))
    if visible is None:
        return present
    return min(present, len([v for v in visible.split(",") if v.strip() not in ("", "-1")]))


def _require(condition: bool, key: str, value: Any, allowed: str) -> None:
    if not condition:
        raise UserError(f"{key} is {value!r} ({type(value).__name__}); it must be {allowed}.")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_finite_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
