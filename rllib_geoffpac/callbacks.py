"""RLlib callbacks that tuned examples name as ``rllib_geoffpac.callbacks:Name`` (imports RLlib)."""

from typing import Any

import torch
from ray.rllib.callbacks.callbacks import RLlibCallback

_STATE_A, _ACTION_OUTER = 0, 0


class TwoCirclePolicy(RLlibCallback):
    """Reports ``two_circle/pi_outer``, the paper's pi(A -> B): the way to the outer circle."""

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **kwargs: Any) -> None:
        """Adds the probability to the result."""
        result["two_circle"] = {"pi_outer": algorithm.on_learner(_outer_probability)}


def _outer_probability(learner: Any) -> float:
    module = learner.module["default_policy"]
    with torch.no_grad():
        logits = module.pi(torch.tensor([_STATE_A]))
    return float(torch.softmax(logits, dim=-1)[0, _ACTION_OUTER])
