"""What the settings that all algorithms share may be, and whether they can serve an environment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rllib_geoffpac.compat import SETTING_ATTRIBUTES
from rllib_geoffpac.updates.choice import overridden
from rllib_geoffpac.validation import is_choice, is_count, is_folder, is_number

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

Check = tuple[str, Any, bool, str]
"""Key, value, whether it is possible, what is allowed."""

_AMOUNTS = (
    "num_cpus_for_main_process",
    "num_cpus_per_env_runner",
    "num_gpus_per_env_runner",
    "num_gpus_per_learner",
)


def shared_checks(config: AlgorithmConfig) -> list[Check]:
    """The checks of the settings that all algorithms share."""
    parts = (_api_stack, _sampling, _data, _learning, _evaluation, _resources)
    checks = with_values(config, [check for part in parts for check in part(config)])
    return [*checks, *_connectors(config)]


def with_values(config: AlgorithmConfig, checks: Iterable[tuple[str, bool, str]]) -> list[Check]:
    """(key, possible, allowed) with the config's values."""
    return [(key, getattr(config, key), possible, allowed) for key, possible, allowed in checks]


def possible_lanes(config: AlgorithmConfig) -> int:
    """`num_lanes`, by which other keys are judged; 1 where it is impossible itself."""
    return config.num_lanes if is_count(config.num_lanes, 1)[0] else 1


def _sampling(config: AlgorithmConfig) -> list[tuple[str, bool, str]]:
    return [
        (
            "seed",
            config.seed is None or is_count(config.seed, 0)[0],
            "a whole number >= 0, or None for another one in every run",
        ),
        ("num_lanes", *is_count(config.num_lanes, 1)),
        ("behavior", *config.check_behavior()),
        (
            "rollout_fragment_length",
            is_count(config.rollout_fragment_length, 1)[0],
            "a whole number of locksteps >= 1",
        ),
        (
            "min_sample_timesteps_per_iteration",
            is_count(config.min_sample_timesteps_per_iteration, 1)[0],
            "a whole number of env steps >= 1, the length of an iteration",
        ),
        ("sample_ahead", *is_count(config.sample_ahead, 0)),
        (
            "experience_cache",
            is_folder(config.experience_cache),
            "None or the path of a folder, which may not exist yet",
        ),
        (
            "experience_cache_max_gb",
            is_number(config.experience_cache_max_gb, 0, above=True, infinite=True),
            "a number above 0",
        ),
        ("max_env_failures_in_a_row", *is_count(config.max_env_failures_in_a_row, 1)),
        (
            "env_hang_timeout_s",
            is_number(config.env_hang_timeout_s, 0, above=True, infinite=True),
            "a number of seconds above 0",
        ),
        (
            "env_runner_lost_timeout_s",
            is_number(config.env_runner_lost_timeout_s, 0, infinite=True),
            "a number of seconds >= 0",
        ),
    ]


def _data(config: AlgorithmConfig) -> list[tuple[str, bool, str]]:
    given = config.input_
    paths = [*given] if isinstance(given, list | tuple) else [given]
    return [
        (
            "input_",
            given is None or (bool(paths) and all(map(_is_text, paths))),
            "'sampler' (simulate), a folder, file or URI of parquet files, a list of those, or "
            "'minari:DATASET-ID'",
        ),
        (
            "output",
            config.output is None or _is_text(config.output),
            "a folder or URI for RLlib's episodes, or None",
        ),
    ]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _api_stack(config: AlgorithmConfig) -> list[tuple[str, bool, str]]:
    keys = ("enable_rl_module_and_learner", "enable_env_runner_and_connector_v2")
    why = "True: these algorithms exist on RLlib's new API stack only"
    checks = [(key, getattr(config, key) is True, why) for key in keys]
    return [*checks, ("framework_str", config.framework_str == "torch", "'torch'")]


def _learning(config: AlgorithmConfig) -> list[tuple[str, bool, str]]:
    return [
        ("gamma", is_number(config.gamma, 0, 1), "a number from 0 to 1"),
        ("lr", is_number(config.lr, 0, above=True), "a number above 0"),
        (
            "grad_clip",
            config.grad_clip is None or is_number(config.grad_clip, 0, above=True),
            "a number above 0, or None for no clipping",
        ),
        ("grad_clip_by", *is_choice(config.grad_clip_by, "global_norm", "norm", "value")),
        _learner_class(config),
        _kernel(config),
    ]


def _learner_class(config: AlgorithmConfig) -> tuple[str, bool, str]:
    default, given = config.get_default_learner_class(), config.learner_class
    possible = isinstance(given, type) and issubclass(given, default)
    allowed = f"a subclass of {default.__module__}.{default.__name__}"
    replaced = overridden(given, ("compute_losses", "compute_loss_for_module")) if possible else ""
    if replaced:
        allowed += (
            f" without a loss, and {replaced}: every network learns by a rule of its own. "
            "Override `postprocess_gradients_for_module` or `compute_gradients` instead"
        )
    return "learner_class", possible and not replaced, allowed


def _kernel(config: AlgorithmConfig) -> tuple[str, bool, str]:
    possible, allowed = is_choice(config.kernel, "auto", "torch", "fast")
    if possible and config.kernel == "fast" and config.num_gpus_per_learner:
        return "kernel", False, "'auto' or 'torch' on a GPU (`num_gpus_per_learner`)"
    return "kernel", possible, allowed


def _connectors(config: AlgorithmConfig) -> list[Check]:
    values = {
        key: getattr(config, SETTING_ATTRIBUTES[key])
        for key in ("env_to_module_connector", "module_to_env_connector", "learner_connector")
    }
    allowed = "None or a function that makes connector pieces, as RLlib documents it"
    return [(key, v, v is None or callable(v), allowed) for key, v in values.items()]


def _evaluation(config: AlgorithmConfig) -> list[tuple[str, bool, str]]:
    return [
        (
            "evaluation_interval",
            config.evaluation_interval is None or is_count(config.evaluation_interval, 0)[0],
            "a whole number of iterations >= 0, or None; 0 and None: no evaluation",
        ),
        ("evaluation_num_env_runners", *is_count(config.evaluation_num_env_runners, 0)),
        (
            "evaluation_horizon",
            config.evaluation_horizon is None or is_count(config.evaluation_horizon, 1)[0],
            "a whole number of steps >= 1, or None",
        ),
        (
            "evaluation_duration_unit",
            *is_choice(config.evaluation_duration_unit, "episodes", "timesteps"),
        ),
        (
            "evaluation_duration",
            config.evaluation_duration == "auto" or is_count(config.evaluation_duration, 1)[0],
            "a whole number of episodes or timesteps >= 1, or 'auto' beside training",
        ),
    ]


def _resources(config: AlgorithmConfig) -> list[tuple[str, bool, str]]:
    checks = [(key, is_number(getattr(config, key), 0), "a number >= 0") for key in _AMOUNTS]
    checks.append(
        (
            "num_learners",
            config.num_learners in (0, 1),
            "0 or 1: learning is sequential; scale env runners (num_env_runners) for slow "
            "simulators or trials (num_samples, grid_search) instead",
        )
    )
    if config.in_evaluation:
        return checks
    lanes, per_runner = possible_lanes(config), config.num_envs_per_env_runner
    runners = config.num_env_runners if is_count(config.num_env_runners, 0)[0] else 0
    share = f"{per_runner} envs on each of {max(1, runners)} env runners"
    return [
        *checks,
        (
            "num_env_runners",
            is_count(config.num_env_runners, 0)[0] and runners <= lanes,
            f"at most `num_lanes`={config.num_lanes}, so that each has a lane",
        ),
        (
            "num_envs_per_env_runner",
            per_runner in (1, None) or per_runner * max(1, runners) == lanes,
            f"left out: `num_lanes`={config.num_lanes} says how many environments there "
            f"are, which {share} contradict",
        ),
    ]
