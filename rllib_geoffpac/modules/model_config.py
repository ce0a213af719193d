"""Which keys of `model_config` a module takes, and what they may be."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.models.utils import get_activation_fn

from rllib_geoffpac.validation import is_count, unknown_key_message


def check_model_config(model_config: dict[str, Any], used: Collection[str]) -> None:
    """Raises ValueError for a key that would have no effect, and for impossible layer sizes.

    Args:
        model_config: As the module gets it. RLlib's `DefaultModelConfig` brings many keys: those
            that are left at their defaults are no one's wish.
        used: The keys that the module reads.
    """
    defaults = dataclasses.asdict(DefaultModelConfig())
    for key, value in model_config.items():
        if key in used or (key in defaults and value == defaults[key]):
            continue
        raise ValueError(unknown_key_message(key, used, "`model_config`"))
    if "fcnet_activation" in used:
        _check_activation(model_config.get("fcnet_activation"))
    hiddens = model_config.get("fcnet_hiddens", [])
    possible = isinstance(hiddens, list | tuple) and all(is_count(n, 1)[0] for n in hiddens)
    if "fcnet_hiddens" in used and not possible:
        raise ValueError(
            f"`model_config` has fcnet_hiddens {hiddens!r}; allowed is a list of whole numbers "
            ">= 1, such as [64, 64]."
        )


def _check_activation(activation: Any) -> None:
    try:
        get_activation_fn(activation, framework="torch")
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f"`model_config` has fcnet_activation {activation!r}; allowed is 'relu', 'tanh', "
            "'silu', 'elu', 'linear', or the name of a class of torch.nn."
        ) from None
