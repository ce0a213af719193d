"""The emphatic traces F1, F2 of every lane, as a stateful learner connector."""

from __future__ import annotations

from typing import Any

import numpy as np
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.utils.annotations import override
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.typing import StateDict

from rllib_geoffpac.maths.emphatic import TraceState


class EmphaticTraces(ConnectorV2):
    """Keeps F1, F2 and what they need of the previous transition, per lane.

    The traces depend on parameters that change with every lockstep, so nothing can be computed
    when the batch passes through the pipeline: the update advances them, lockstep by lockstep
    (`updates.emphatic`), and they are the learner's to read and to checkpoint here.

    Attributes:
        state: As numpy arrays; the learner brings it up to date when it is asked for its state.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.state: TraceState | None = None

    @override(ConnectorV2)
    def __call__(self, *, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return batch

    @override(Checkpointable)
    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> StateDict:
        return {} if self.state is None else dict(self.state._asdict())

    @override(Checkpointable)
    def set_state(self, state: StateDict) -> None:
        if state:
            arrays = {name: None if v is None else np.array(v) for name, v in state.items()}
            self.state = TraceState(**arrays)
