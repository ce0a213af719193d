"""The emphatic traces F1, F2 of every lane, as a stateful learner connector."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.utils.annotations import override
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.typing import StateDict

from rllib_geoffpac.maths import emphatic
from rllib_geoffpac.maths.emphatic import Emphasis, TraceState


class EmphaticTraces(ConnectorV2):
    """Owns F1, F2 and what they need of the previous transition, per lane.

    The traces depend on parameters that change with every lockstep, so nothing can be computed
    when the batch passes through the pipeline: the learner drives this connector, one lockstep at
    a time, with `restart` and `advance`.

    Args:
        gamma_hat: gamma_hat of F2.
        lambda_1: Bias-variance trade-off of M1.
        lambda_2: Bias-variance trade-off of M2.
    """

    def __init__(
        self, *args: Any, gamma_hat: float, lambda_1: float, lambda_2: float, **kwargs: Any
    ):
        super().__init__(*args, **kwargs)
        self.gamma_hat, self.lambda_1, self.lambda_2 = gamma_hat, lambda_1, lambda_2
        self.state: TraceState | None = None

    @override(ConnectorV2)
    def __call__(self, *, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return batch

    def start(self, like: Any, num_parameters: int | None) -> None:
        """Starts all lanes afresh; see `emphatic.fresh_traces`."""
        self.state = emphatic.fresh_traces(like, num_parameters)

    def restart(self, mask: Any) -> None:
        """Restarts the lanes where mask [L] is true."""
        self.state = emphatic.restart(self.state, mask)

    def advance(self, **columns: Any) -> Emphasis:
        """Advances all lanes by one transition; see `emphatic.advance`."""
        self.state, emphasis = emphatic.advance(
            self.state,
            gamma_hat=self.gamma_hat,
            lambda_1=self.lambda_1,
            lambda_2=self.lambda_2,
            **columns,
        )
        return emphasis

    @override(Checkpointable)
    def get_state(self, components=None, *, not_components=None, **kwargs: Any) -> StateDict:
        return {} if self.state is None else {n: _copy(v) for n, v in self.state._asdict().items()}

    @override(Checkpointable)
    def set_state(self, state: StateDict) -> None:
        if state and self.state is not None:
            self.state = TraceState(**{n: _like(self.state.f1, v) for n, v in state.items()})


def _copy(values: Any) -> np.ndarray | None:
    if values is None:
        return None
    return values.detach().cpu().numpy().copy() if torch.is_tensor(values) else values.copy()


def _like(example: Any, values: np.ndarray | None) -> Any:
    if values is None:
        return None
    if torch.is_tensor(example):
        # A copy: what came to a remote learner through Ray is read-only.
        return torch.tensor(values, dtype=example.dtype, device=example.device)
    return np.array(values, example.dtype)
