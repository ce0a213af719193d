"""Networks of action values Q(S, a), for actions as vectors (`PolicyDistribution.encode`)."""

from __future__ import annotations

from typing import cast

import torch
from torch import nn


class ActionValue(nn.Module):
    """Q(S, a), of an action in the unit box or of one action of several.

    Args:
        features: Makes the network's inputs of observations.
        network: For a Box, of features and action side by side to one number. For Discrete, of
            the features to one number per action, weighted by the vector: Q is linear in it, so
            that Q(S, pi(.|S)) is the sum over all actions.
        joins_action: Whether it is the first kind.
    """

    def __init__(self, features: nn.Module, network: nn.Module, joins_action: bool):
        super().__init__()
        self.features, self.network, self.joins_action = features, network, joins_action

    def forward(self, observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """[N, ...], [N, action_size] -> [N, 1]."""
        features = self.features(observations)
        if self.joins_action:
            return self.network(torch.cat([features, actions], dim=-1))
        return (self.network(features) * actions).sum(dim=-1, keepdim=True)


class ActionValues(nn.ModuleList):
    """Critics of the same function, each with parameters of its own."""

    def forward(self, observations: torch.Tensor, actions: torch.Tensor) -> list[torch.Tensor]:
        """Q_k(S, a) of all of them: [N, ...], [N, action_size] -> K times [N, 1]."""
        return [cast(ActionValue, critic)(observations, actions) for critic in self]
