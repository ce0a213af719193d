"""Whether a learner takes a closed-form kernel or torch, and the columns that kernels read."""

from __future__ import annotations

import logging
from typing import Any

from ray.rllib.core.columns import Columns

from rllib_geoffpac.connectors.lane_aligner import CHAIN_START, DISCOUNT, VALID

logger = logging.getLogger(__name__)

# The kernels know nothing of RLlib: they name their columns themselves.
_KERNEL_COLUMNS = {
    Columns.OBS: "obs",
    Columns.ACTIONS: "actions",
    Columns.REWARDS: "rewards",
    Columns.NEXT_OBS: "new_obs",
    Columns.ACTION_LOGP: "action_logp",
    DISCOUNT: "discount",
    VALID: "valid",
    CHAIN_START: "chain_start",
}
assert all(name == own for name, own in _KERNEL_COLUMNS.items())


def why_not_fast(kernel: str, module: Any, served: type) -> str | None:
    """Returns why the closed-form kernel can't serve a module, None if it can.

    Args:
        kernel: The config key: "auto", "torch" or "fast".
        module: The module that is learned.
        served: The class of the default networks, the only one that the kernel serves.

    Raises:
        ValueError: If the kernel is asked for and can't serve.
    """
    if type(module) is not served:
        obstacle = f"it serves the default MLPs only, and the module is a {type(module).__name__}"
    elif (device := next(module.pi.parameters()).device).type != "cpu":
        obstacle = f"it runs on the CPU only, and the module is on {device}"
    else:
        return None
    if kernel == "fast":
        raise ValueError(
            f"`kernel` is 'fast', but the closed-form kernel can't serve: {obstacle}. "
            "Set it to 'auto' or 'torch'."
        )
    return obstacle


def takes_fast_kernel(kernel: str, module: Any, served: type) -> bool:
    """Chooses the closed-form kernel or torch, and logs the choice; see `why_not_fast`."""
    if kernel == "torch":
        logger.info("Learning with the torch kernel.")
        return False
    obstacle = why_not_fast(kernel, module, served)
    if obstacle:
        logger.info("Learning with the torch kernel (not the fast one: %s).", obstacle)
    else:
        logger.info("Learning with the fast kernel.")
    return obstacle is None
