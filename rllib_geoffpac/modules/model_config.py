"""Which keys of `model_config` a module takes, and what they may be."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import Any

from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.models.utils import get_activation_fn, get_initializer_fn

from rllib_geoffpac.validation import is_count, unknown_key_message

_DEFAULTS = dataclasses.asdict(DefaultModelConfig())

_RECURRENT = (
    "there are no recurrent networks here: what is learned from are single transitions, replayed "
    "out of their order, and the traces of an episode weigh gradients of pi at one observation. "
    "Let the module see the past with RLlib's connector FrameStacking"
)
_NOT_HONOURED = {
    "use_lstm": _RECURRENT,
    "max_seq_len": _RECURRENT,
    "lstm_": _RECURRENT,
    "fusionnet_": "a module has one stream of observations, and nothing to fuse",
    "vf_share_layers": "pi and every learned function have networks and optimizers of their own",
    "log_std_clip_param": "a standard deviation is a softplus, which can't overflow",
    "free_log_std": "the width of this policy depends on the state; choose another "
    "`policy_distribution`",
    "head_fcnet_": "the networks of this algorithm have no heads apart: use fcnet_hiddens",
    "fcnet_use_layernorm": "the networks of this algorithm are not normalised",
}
"""By key, or by how a key of RLlib's begins: why a value is not honoured."""


def check_model_config(
    model_config: dict[str, Any], used: Collection[str], has_global_std: bool = True
) -> None:
    """Raises ValueError for a key that would have no effect, and for impossible values.

    Args:
        model_config: As the module gets it. RLlib's `DefaultModelConfig` brings many keys: those
            that are left at their defaults are no one's wish.
        used: The keys that the module reads.
        has_global_std: Whether the policy's width is a parameter of its own.
    """
    # What these ask for is what is done here.
    already = {("vf_share_layers", False), ("free_log_std", has_global_std)}
    by_hand = not _DEFAULTS.keys() <= model_config.keys()
    for key, value in model_config.items():
        if key in used or (key in ("vf_share_layers", "free_log_std") and (key, value) in already):
            continue
        if key not in _DEFAULTS:
            raise ValueError(unknown_key_message(key, used, "`model_config`"))
        if value != _DEFAULTS[key] or (key == "vf_share_layers" and by_hand):
            why = next(why for start, why in _NOT_HONOURED.items() if key.startswith(start))
            raise ValueError(f"`model_config` has {key} {value!r}, but {why}.")
    for key in set(used) & model_config.keys():
        _check_value(key, model_config[key])


def _check_value(key: str, value: Any) -> None:
    if key.endswith("_activation"):
        allowed = "'relu', 'tanh', 'silu', 'elu', 'linear', or the name of a class of torch.nn"
        _check_known(key, value, get_activation_fn, allowed)
    elif key.endswith("_initializer"):
        allowed = (
            "None, a function, or the name of one of torch.nn.init that works in place, such as "
            "'xavier_uniform_'"
        )
        _check_known(key, value, get_initializer_fn, allowed)
    elif key.endswith("_hiddens"):
        possible = isinstance(value, list | tuple) and all(is_count(n, 1)[0] for n in value)
        if not possible:
            raise ValueError(
                f"`model_config` has {key} {value!r}; allowed is a list of whole numbers >= 1, "
                "such as [64, 64]."
            )
    elif key == "conv_filters" and not _are_filters(value):
        raise ValueError(
            f"`model_config` has conv_filters {value!r}; allowed is a list of [filters, kernel, "
            "stride] or [filters, kernel, stride, 'same' or 'valid'], such as [[16, 4, 2], "
            "[32, [4, 4], 2]]."
        )


def _check_known(key: str, value: Any, find: Callable[..., Any], allowed: str) -> None:
    """Asks RLlib's own look-up whether it knows a name."""
    try:
        find(value, framework="torch")
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"`model_config` has {key} {value!r}; allowed is {allowed}.") from None


def _are_filters(value: Any) -> bool:
    def is_size(size: Any) -> bool:
        sizes = size if isinstance(size, list | tuple) else [size]
        return len(sizes) in (1, 2) and all(is_count(n, 1)[0] for n in sizes)

    def is_filter(layer: Any) -> bool:
        return (
            isinstance(layer, list | tuple)
            and len(layer) in (3, 4)
            and is_count(layer[0], 1)[0]
            and is_size(layer[1])
            and is_size(layer[2])
            and (len(layer) == 3 or layer[3] in ("same", "valid"))
        )

    return value is None or (isinstance(value, list | tuple) and all(map(is_filter, value)))
