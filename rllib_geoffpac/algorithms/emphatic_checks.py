"""Which values of the emphatic actor-critics' settings are possible, each for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rllib_geoffpac.algorithms.config_checks import possible_lanes
from rllib_geoffpac.maths.distributions import KINDS
from rllib_geoffpac.updates.learned import LEARNED, VALUE_FUNCTIONS
from rllib_geoffpac.updates.optimizers import OPTIMIZER_TYPES
from rllib_geoffpac.validation import is_choice, is_count, is_number

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig


def value_checks(config: AlgorithmConfig) -> list[tuple[str, bool, str]]:
    """(key, possible, allowed) of every setting that depends on no other."""
    unit = "a number from 0 to 1"
    positive, non_negative = "a number above 0", "a number >= 0"
    checks = [
        ("gamma_hat", is_number(config.gamma_hat, 0, 1, below=True), "a number in [0, 1)"),
        ("lambda_1", is_number(config.lambda_1, 0, 1), unit),
        ("lambda_2", is_number(config.lambda_2, 0, 1), unit),
        ("view", *is_choice(config.view, "backward", "forward")),
        ("emphasis", *is_choice(config.emphasis, "followon", "truncated", "learned")),
        ("trace_length", *is_count(config.trace_length, 1)),
        ("vtrace_length", *is_count(config.vtrace_length, 1)),
        ("value_estimator", *is_choice(config.value_estimator, *VALUE_FUNCTIONS)),
        ("tdrc_regularization", is_number(config.tdrc_regularization, 0), non_negative),
        ("truncation", *is_choice(config.truncation, "terminate", "bootstrap")),
        ("rho_clip", is_number(config.rho_clip, 0, above=True, infinite=True), positive),
        (
            "density_ratio_clip",
            is_number(config.density_ratio_clip, 0, above=True, infinite=True),
            positive,
        ),
        ("sn_loss_coeff", is_number(config.sn_loss_coeff, 0), non_negative),
        ("critic", *is_choice(config.critic, "state_value", "action_value")),
        ("target_update_freq", *is_count(config.target_update_freq, 1)),
        (
            "tau",
            config.tau is None or is_number(config.tau, 0, 1, above=True),
            "a number above 0, at most 1, or None for copies every `target_update_freq`",
        ),
        ("policy_delay", *is_count(config.policy_delay, 1)),
        ("clip_action_values", isinstance(config.clip_action_values, bool), "true or false"),
        ("actor_ascends", *is_choice(config.actor_ascends, "first", "lower")),
        ("conservatism", is_number(config.conservatism, 0), non_negative),
        (
            "learning_gamma",
            config.learning_gamma is None or is_number(config.learning_gamma, 0, 1),
            "a number from 0 to 1, or None for `gamma`",
        ),
        (
            "policy_average",
            config.policy_average is None or is_number(config.policy_average, 0, above=True),
            "a number above 0, such as 7, or None",
        ),
        ("value_baseline", *is_choice(config.value_baseline, None, "ema")),
        (
            "baseline_decay",
            is_number(config.baseline_decay, 0, 1, below=True),
            "a number in [0, 1)",
        ),
        ("overlap_coeff", is_number(config.overlap_coeff, 0), non_negative),
        (
            "overlap_gamma_hat",
            is_number(config.overlap_gamma_hat, 0, 1, above=True, below=True),
            "a number between 0 and 1",
        ),
        (
            "policy_distribution",
            *is_choice(config.policy_distribution, *KINDS),
        ),
        ("dtype", *is_choice(config.dtype, "float32", "float64")),
        ("optimizer_type", *is_choice(config.optimizer_type, *OPTIMIZER_TYPES)),
        ("replay_capacity", *is_count(config.replay_capacity, possible_lanes(config))),
        ("replay_batch_size", *is_count(config.replay_batch_size, 0)),
        ("updates_per_lockstep", *is_count(config.updates_per_lockstep, 1)),
        ("learning_starts", *is_count(config.learning_starts, 0)),
    ]
    for key in ("actor_lr", *(function.learning_rate for function in LEARNED.values())):
        value = getattr(config, key)
        ok = value is None or is_number(value, 0, above=True)
        checks.append((key, ok, "a number above 0, or None for `lr`"))
    return checks
