"""Which views, emphases, forces and replayed rows of the emphatic actor-critics go together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rllib_geoffpac.maths.schedules import largest
from rllib_geoffpac.validation import is_count, is_number

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig


def combination_checks(config: AlgorithmConfig) -> list[tuple[str, bool, str]]:
    """(key, possible, allowed) of the settings that depend on one another."""
    return [
        _lambda_2(config),
        _actor_replay(config),
        _overlap_target(config),
        (
            "value_estimator",
            config.value_estimator != "etd" or not _needs_f1(config),
            f"another than 'etd', for which replayed transitions have no trace F1; or {_WAYS_OUT}",
        ),
        (
            "value_estimator",
            config.value_estimator == "td" or not _has_q(config),
            "'td' with critic='action_value', which has no V to estimate",
        ),
        (
            "conservatism",
            not _above_0(config.conservatism) or _has_q(config),
            "0 with critic='state_value', which has no values of actions to press down",
        ),
        (
            "overlap_coeff",
            config.overlap_coeff == 0 or not _weighted(config),
            "0 with view='forward', emphasis='truncated', actor replay or action values, which "
            "have no F2 for this force to go through; `overlap_target` holds the policy to the "
            "data there",
        ),
        (
            "value_baseline",
            config.value_baseline is None or (config.view == "backward" and not _has_q(config)),
            "None with view='forward', where U is the baseline already, and with action values, "
            "which need none",
        ),
    ]


def _weighted(config: AlgorithmConfig) -> bool:
    without = (config.view == "forward", config.emphasis == "truncated", _has_q(config))
    return any(without) or config.actor_replay_batch_size != 0


def _has_q(config: AlgorithmConfig) -> bool:
    return config.critic == "action_value"


def _above_0(value: Any) -> bool:
    """Whether a number, or any that a schedule reaches, is above 0."""
    return is_number(largest(value), 0, above=True)


def _lambda_2(config: AlgorithmConfig) -> tuple[str, bool, str]:
    needs_one = _has_q(config) and _above_0(config.gamma_hat)
    return (
        "lambda_2",
        not needs_one or config.lambda_2 == 1,
        "1 with critic='action_value': the mixture with 1 - lambda_2 would need a third critic, of "
        "E[i(S') V(S')|s, a]; set lambda_2 to 1, or critic to 'state_value'",
    )


def _actor_replay(config: AlgorithmConfig) -> tuple[str, bool, str]:
    key, count = "actor_replay_batch_size", config.actor_replay_batch_size
    possible, allowed = is_count(count, 0)
    if not possible or count == 0:
        return key, possible, allowed
    most = config.replay_batch_size
    if is_count(most, 0)[0] and count > most:
        return key, False, f"at most `replay_batch_size`={most}, of which they are a part"
    traced = config.view == "backward" and config.emphasis != "truncated" and not _has_q(config)
    if _above_0(config.gamma_hat) and traced:
        why = "0: a replayed transition has no trace F2; set view='forward' or emphasis='truncated'"
        return key, False, why
    if _needs_f1(config):
        return key, False, f"0: a replayed transition has no trace F1; {_WAYS_OUT}"
    return key, True, allowed


_WAYS_OUT = "set emphasis='learned' or 'truncated', or lambda_1=0"


def _needs_f1(config: AlgorithmConfig) -> bool:
    return config.emphasis == "followon" and _above_0(config.lambda_1)


def _overlap_target(config: AlgorithmConfig) -> tuple[str, bool, str]:
    key, target = "overlap_target", config.overlap_target
    possible = target is None or is_number(target, 0, 1, above=True)
    if possible and target is not None and config.rho_clip == float("inf"):
        return key, False, "None with rho_clip=inf: without a clip the overlap is always 1"
    return key, possible, "a number above 0 and at most 1, or None"
