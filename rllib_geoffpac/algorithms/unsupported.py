"""Settings of RLlib that these algorithms can't honour: who sets one is told so, and what to do.

Silence would be worse: the run would go on without what was asked for.
"""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_AGENT_ID, DEFAULT_MODULE_ID

from rllib_geoffpac.algorithms.rllib_settings import REFUSED
from rllib_geoffpac.compat import SETTING_ATTRIBUTES

WITHOUT_EFFECT = {key: why for keys in REFUSED.values() for key, why in keys.items()}
"""By key: why another value than RLlib's default has no effect, or what to use instead."""

_OTHER_NAMES = {"dataset_num_iters_per_offline_eval_runner": "dataset_num_iters_per_eval_runner"}


def attribute_of(key: str) -> str:
    """The attribute of an AlgorithmConfig that holds what its methods call `key`."""
    if key.startswith("on_"):
        return f"callbacks_{key}"
    return SETTING_ATTRIBUTES.get(key, _OTHER_NAMES.get(key, key))


def settings_without_effect(config: AlgorithmConfig) -> list[tuple[str, Any, bool, str]]:
    """(key, value, possible, allowed) for each of them."""
    if config.in_evaluation:  # RLlib sets some of them itself
        return []
    standard, checks = AlgorithmConfig(), []
    for key, instead in WITHOUT_EFFECT.items():
        if key == "policies":  # RLlib rewrites them, and says itself whether there are several
            continue
        if key == "batch_mode" and getattr(config, "output", None) is not None:
            continue  # whole episodes are written, which RLlib wants to be said so
        attribute = attribute_of(key)
        default, value = getattr(standard, attribute), getattr(config, attribute)
        same = value is default or value == default or _says_what_is_so(key, value)
        allowed = f"{default!r}, its default, because another value has no effect: {instead}"
        checks.append((key, value, same, allowed))
    return checks


def _says_what_is_so(key: str, value: Any) -> bool:
    """Whether a setting of several agents asks for what one agent and one module are."""
    if key == "policies_to_train":
        return isinstance(value, list | tuple | set) and set(value) == {DEFAULT_MODULE_ID}
    if key == "policy_mapping_fn" and callable(value):
        try:
            return bool(value(DEFAULT_AGENT_ID, None) == DEFAULT_MODULE_ID)
        except Exception:  # the user's own code, which may want an episode
            return False
    return False
