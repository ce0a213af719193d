"""From the env runners' fragments to time-major columns [T, lanes] in lane order."""

from __future__ import annotations

from typing import Any

import numpy as np
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.utils.annotations import override

from rllib_geoffpac.lanes.fragments import Fragment
from rllib_geoffpac.updates.transitions import CHAIN_OBS

DISCOUNT = "discount"
"""[T, lanes] gamma_{t+1}, the discount of the transition."""
VALID = "valid"
"""[T, lanes] 0 for a transition cut by truncation="bootstrap", else 1: whether C learns from it."""
CHAIN_START = "chain_start"
"""[T, lanes] true where the lane (re)starts, so that its traces restart before the transition."""


class LaneAligner(ConnectorV2):
    """Joins the fragments of all env runners and settles what a transition means.

    The fragments hold what happened, whatever the hyperparameters; here `gamma` and `truncation`
    come in: the discount of every transition and the state that it leads to.

    Args:
        gamma: Discount of the transitions for which the environment supplies none.
        truncation: "terminate" or "bootstrap".
        chain_successors: Whether to tell where a lane really went on after a time limit, too.
    """

    def __init__(
        self,
        *args: Any,
        gamma: float,
        truncation: str,
        chain_successors: bool = False,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self.gamma, self.truncation = gamma, truncation
        self.chain_successors = chain_successors

    @override(ConnectorV2)
    def __call__(
        self, *, episodes: list[Fragment], batch: dict[str, Any], **kwargs: Any
    ) -> dict[str, Any]:
        fragments = sorted(episodes, key=lambda fragment: fragment.lanes[0])
        batch[DEFAULT_MODULE_ID] = self.align(fragments)
        return batch

    def align(self, fragments: list[Fragment]) -> dict[str, np.ndarray]:
        """Returns the columns of the fragments, given in lane order."""
        parts = [self._resolve(fragment) for fragment in fragments]
        return {name: np.concatenate([p[name] for p in parts], axis=1) for name in parts[0]}

    def _resolve(self, fragment: Fragment) -> dict[str, np.ndarray]:
        bootstrap = self.truncation == "bootstrap"
        discount = np.where(
            np.isnan(fragment.discounts), np.float32(self.gamma), fragment.discounts
        )
        discount[fragment.terminated] = 0
        next_observations = fragment.observations[1:].copy()
        t, lane = fragment.final_index.T
        cut = fragment.truncated[t, lane]
        # A row that was not truncated is here because the environment failed after it: its
        # successor is where the environment failed, not where the lane went on.
        next_observations[t[~cut], lane[~cut]] = fragment.final_observations[~cut]
        successors = {CHAIN_OBS: next_observations.copy()} if self.chain_successors else {}
        if bootstrap:
            next_observations[t[cut], lane[cut]] = fragment.final_observations[cut]
        if not bootstrap:
            discount[fragment.truncated] = 0
        valid = ~fragment.truncated if bootstrap else np.ones_like(fragment.truncated)
        return {
            Columns.OBS: fragment.observations[:-1],
            Columns.ACTIONS: fragment.actions,
            Columns.REWARDS: fragment.rewards,
            Columns.NEXT_OBS: next_observations,
            Columns.ACTION_LOGP: fragment.behavior_logp,
            DISCOUNT: discount,
            VALID: valid.astype(np.float32),
            CHAIN_START: fragment.chain_start,
            **successors,
        }
