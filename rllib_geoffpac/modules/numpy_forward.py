"""The policy's forward pass without torch, whose calls cost more than such small networks do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ray.rllib.core.rl_module.rl_module import RLModule
from torch import nn

from rllib_geoffpac.compat import WAYS_TO_ACT, has_forward_hooks
from rllib_geoffpac.modules.actor_critic import EmphaticRLModule
from rllib_geoffpac.modules.deterministic_actor_critic import DeterministicActorCriticRLModule
from rllib_geoffpac.modules.plain import UnknownLayer, apply, layers_of

Forward = Callable[[np.ndarray], np.ndarray]


def numpy_policy(module: RLModule) -> Forward | None:
    """pi's outputs [N, k] for observations [N, ...], or None if only torch can tell them.

    That is so for a module that acts in a way of its own, or whose network has no plain form.
    """
    for base in (EmphaticRLModule, DeterministicActorCriticRLModule):
        if isinstance(module, base):
            inherits = (getattr(type(module), n) is getattr(base, n) for n in WAYS_TO_ACT)
            if not all(inherits):
                return None
            features = getattr(module, "features", nn.Identity())
            return numpy_forward(nn.Sequential(features, module.acting_policy))
    return None


def numpy_forward(network: nn.Module) -> Forward | None:
    """The same function as the network with its present parameters, up to rounding.

    A row's outputs depend on the number of rows in the last bits, but never on the other rows.

    Returns:
        A function on arrays; None if the network has no plain form, has hooks, or is not on the
        CPU.
    """
    on_cpu = all(parameter.device.type == "cpu" for parameter in network.parameters())
    if not on_cpu or any(map(has_forward_hooks, network.modules())):
        return None
    try:
        layers = layers_of(network)
    except UnknownLayer:
        return None
    parameters = [parameter.detach().numpy().copy() for parameter in network.parameters()]
    return lambda inputs: apply(layers, parameters, inputs)
