"""What a learner of lanes is apart from its maths: one module, a replay ring, exact state."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
import tree
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.utils.annotations import override
from ray.rllib.utils.typing import StateDict

from rllib_geoffpac.checkpoints import CheckpointedPart
from rllib_geoffpac.lanes.replay_ring import ReplayRing
from rllib_geoffpac.lanes.seeding import replay_generator
from rllib_geoffpac.learners.threads import use_one_thread

COMPONENT_PROGRESS = "progress"
COMPONENT_REPLAY = "replay"


class LaneLearner(CheckpointedPart, TorchLearner):
    """Consumes all lanes in lockstep, in lane order; one learner only.

    Attributes:
        diverged: Whether the latest update left something that is not finite. What is kept then
            are the last finite parameters.
    """

    diverged = False

    @override(TorchLearner)
    def build(self) -> None:
        use_one_thread()
        super().build()
        config = self.config
        self.replay = ReplayRing(max(1, config.replay_capacity // config.num_lanes))
        self.rng = replay_generator(config.seed)
        self.num_locksteps = 0

    @property
    def rl_module(self) -> Any:
        """The one module that is learned."""
        return self.module[DEFAULT_MODULE_ID]

    @override(Learner)
    def _make_module(self):
        module = super()._make_module()
        module[DEFAULT_MODULE_ID].make_target_networks()
        return module

    def weights_digest(self) -> str:
        """The first 12 hex digits of a sha256 over all parameters, the target copies included."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.rl_module.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:12]

    def _is_finite(self) -> bool:
        return all(bool(torch.isfinite(p).all()) for p in self.rl_module.parameters())

    @override(Learner)
    def compute_loss_for_module(self, *, module_id, config, batch, fwd_out):
        raise RuntimeError(f"{type(self).__name__} has no single loss; see its `_update`.")

    # Like the module's, the optimizers' state is rounded to float32 by RLlib on both ways.

    @override(TorchLearner)
    def _get_optimizer_state(self) -> StateDict:
        state = super()._get_optimizer_state()
        for name, saved in state.items():
            exact = self._named_optimizers[name].state_dict()["state"]
            saved["state"]["state"] = tree.map_structure(_to_numpy, exact)
        return state

    @override(TorchLearner)
    def _set_optimizer_state(self, state: StateDict) -> None:
        super()._set_optimizer_state(state)
        for name, saved in state.items():
            exact = tree.map_structure(torch.tensor, saved["state"]["state"])
            self._named_optimizers[name].load_state_dict({**saved["state"], "state": exact})

    def _get_progress(self) -> dict[str, Any]:
        """Everything that exact resume needs beside weights, optimizers and the replay ring."""
        return {"num_locksteps": self.num_locksteps, "rng": self.rng.bit_generator.state}

    def _set_progress(self, progress: dict[str, Any]) -> None:
        self.num_locksteps = progress["num_locksteps"]
        self.rng.bit_generator.state = progress["rng"]

    @override(Learner)
    def get_state(self, components=None, *, not_components=None, **kwargs: Any) -> StateDict:
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(COMPONENT_PROGRESS, components, not_components):
            state[COMPONENT_PROGRESS] = self._get_progress()
        with_replay = self._check_component(COMPONENT_REPLAY, components, not_components)
        if self.config.checkpoint_replay and with_replay:
            state[COMPONENT_REPLAY] = self.replay.get_state()
        return state

    @override(Learner)
    def set_state(self, state: StateDict) -> None:
        super().set_state(state)
        if COMPONENT_PROGRESS in state:
            self._set_progress(state[COMPONENT_PROGRESS])
        if COMPONENT_REPLAY in state:
            self.replay.set_state(state[COMPONENT_REPLAY])


def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().copy()
