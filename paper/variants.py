"""Names of settings: how a run departs from the paper."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any

PAPER = "paper"
ROBUST = "robust"
_EMPHATIC = {
    "value_baseline": None,
    "overlap_coeff": 0.0,
    "policy_distribution": "gaussian",
    "num_lanes": 10,
    "lr": 1e-3,
    "gamma": 0.99,
}
PAPER_SETTINGS: dict[str, dict[str, Any]] = {
    "GeoffPAC": {"gamma_hat": 0.2, "lambda_1": 0.7, "lambda_2": 0.6, **_EMPHATIC},
    "ACE": {"lambda_1": 0.0, **_EMPHATIC},
    "OffPAC": _EMPHATIC,
}
"""The settings that the experiments state, at the paper's values, in the order of the names.

A setting that is not here stands in a variant's name wherever an experiment gives it. DDPG and TD3
were run with one set of settings only, which counts as the paper's.
"""
# `robust()` learns several times per lockstep in shorter runs; its overlap target falls in no more.
_FEW_STEPS, _FALL = 200_000, 700_000


def _robust_settings(budget: int) -> dict[str, Any]:
    """What `robust()` changes for a run of so many steps, but for the lambdas."""
    updates = math.ceil(_FEW_STEPS / budget)
    return {
        "critic": "action_value",
        "clip_action_values": True,
        "actor_ascends": "lower",
        "learning_gamma": 0.98,
        "actor_replay_batch_size": 10,
        "conservatism": 0.2,
        "overlap_target": [[0, 0.3], [budget - min(0.7 * budget, _FALL), 0.3], [budget, 0.15]],
        "policy_average": 2.0,
        "policy_distribution": "truncated_gaussian",
        "truncation": "bootstrap",
        "optimizer_type": "adam",
        "lr": [[0, 1e-3], [budget / 2, 3e-4], [budget, 1e-5]],
        "tau": 0.005,
        "grad_clip": None,
        **({"updates_per_lockstep": updates} if updates > 1 else {}),
    }


ROBUST_SETTINGS: dict[str, Callable[[int], dict[str, Any]]] = {
    "GeoffPAC": lambda budget: {"lambda_1": 0.0, "lambda_2": 1.0, **_robust_settings(budget)},
    "ACE": lambda budget: {"lambda_2": 1.0, **_robust_settings(budget)},
}
"""Algorithm -> what `robust()` of its config changes for a run of so many steps."""
# The authors' settings of the two-circle MDP (FiniteMDP.two_circle), which is learned with tables.
_TWO_CIRCLE = {
    "module": "tabular",
    "optimizer_type": "sgd",
    "grad_clip": None,
    "replay_batch_size": 0,
    "learning_starts": 0,
    "target_update_freq": 1,
    "actor_lr": 0.01,
    "value_lr": 0.1,
    "density_ratio_lr": 0.1,
}
_OF_TASK = {"TwoCircle-v0": _TWO_CIRCLE}
# What tells the run, how it is watched, or with which resources it runs: none changes the weights.
_NEUTRAL = (
    "env",
    "seed",
    "callbacks",
    "evaluation_*",
    "experience_cache*",
    "checkpoint_replay",
    "kernel",
    "rollout_fragment_length",
    "sample_ahead",
    "min_*_per_iteration",
    "num_env_runners",
    "num_*_per_*",
    "*_timeout_s",
)


def variant_name(algo: str, params: dict[str, Any], budget: int) -> str:
    """How a run departs from the paper, such as ``value_baseline=ema, overlap_coeff=2``.

    Args:
        algo: The algorithm's name.
        params: Its settings, flat with dots; those that are missing are the paper's.
        budget: Its env steps; schedules are named by shares of them.
    """
    if algo not in PAPER_SETTINGS:
        return PAPER
    paper = PAPER_SETTINGS[algo] | _OF_TASK.get(params.get("env", ""), {})
    stated = [key for key in paper if key in params]
    others = sorted(
        key
        for key in params
        if key not in paper and not any(fnmatch(key, pattern) for pattern in _NEUTRAL)
    )
    missing = object()
    departures = [
        _part(key, in_shares(params[key], budget))
        for key in stated + others
        if params[key] != paper.get(key, missing)
    ]
    return ", ".join(departures) or PAPER


def variant_settings(algo: str, variant: str) -> dict[str, Any]:
    """The inverse of :func:`variant_name`: the stated settings of a run, numbers as floats."""
    return PAPER_SETTINGS.get(algo, {}) | dict(map(setting, parts(variant)))


def parts(variant: str) -> list[str]:
    """The single departures of a variant."""
    return [] if variant == PAPER else variant.split(", ")


def setting(part: str) -> tuple[str, Any]:
    """Key and value of a single departure."""
    key, _, text = part.rpartition("=")
    if text == "None":
        return key, None
    try:
        return key, float(text)
    except ValueError:
        return key or "policy_distribution", text


def without(variant: str, part: str) -> str:
    """The variant with one departure taken away."""
    return ", ".join(other for other in parts(variant) if other != part) or PAPER


def in_shares(value: Any, budget: int) -> Any:
    """A schedule ``[[step, value], ...]`` in shares of a run's steps; all else as it is."""
    if not isinstance(value, list) or not all(isinstance(x, list) and len(x) == 2 for x in value):
        return value
    shares = [(round(step / budget, 6), height) for step, height in value]
    return [[int(share) if share == int(share) else share, height] for share, height in shares]


def robust_variant(algo: str, budget: int) -> str | None:
    """The variant that ``robust(budget)`` of the algorithm's config is, if it has one."""
    make = ROBUST_SETTINGS.get(algo)
    return None if make is None else variant_name(algo, make(budget), budget)


def shown(algo: str, variant: str, budget: int) -> str:
    """A variant's name for readers: ``robust`` for `robust()`'s settings.

    A run that differs less from these than from the paper is named by that, such as
    ``robust, without value_baseline``. Curves are kept under the full names, which stay true when
    `robust()` changes.
    """
    robust = robust_variant(algo, budget)
    if robust is None:
        return variant
    if variant == robust:
        return ROBUST
    own = parts(variant)
    added = [part for part in own if part not in parts(robust)]
    keys = {setting(part)[0] for part in own}
    gone = [key for key, _ in map(setting, parts(robust)) if key not in keys]
    name = [ROBUST, *added, *(f"without {key}" for key in gone)]
    return ", ".join(name) if len(name) < len(own) else variant


def _part(key: str, value: Any) -> str:
    if key == "policy_distribution":
        return str(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{key}={value:g}"
    text = value if isinstance(value, str | None) else json.dumps(value, separators=(",", ":"))
    return f"{key}={text}"
