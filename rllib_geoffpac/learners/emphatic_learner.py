"""The learner of Geoff-PAC, ACE and Off-PAC: the paper's pseudocode over RLlib's Learner.

One lockstep: critics on a replay batch, critics on the current transitions, traces, actor; then
the transitions enter the replay ring. The target networks are synchronised every
`target_update_freq` locksteps.
"""

from __future__ import annotations

import hashlib
import logging
import time
from typing import Any

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.utils.annotations import override
from ray.rllib.utils.typing import StateDict

from rllib_geoffpac.baseline import RunningMoments
from rllib_geoffpac.checkpoints import CheckpointedPart
from rllib_geoffpac.connectors import EmphaticTraces, LaneAligner
from rllib_geoffpac.connectors.lane_aligner import CHAIN_START
from rllib_geoffpac.lanes import Fragment, replay_generator
from rllib_geoffpac.learners.fast_lockstep import KernelLockstep, why_not_fast
from rllib_geoffpac.learners.report import report
from rllib_geoffpac.learners.threads import use_one_thread
from rllib_geoffpac.learners.torch_lockstep import TorchLockstep
from rllib_geoffpac.modules import EmphaticRLModule
from rllib_geoffpac.replay import ReplayRing

logger = logging.getLogger(__name__)

COMPONENT_LEARNER_CONNECTOR = "learner_connector"
COMPONENT_PROGRESS = "progress"
COMPONENT_REPLAY = "replay"


class EmphaticLearner(CheckpointedPart, TorchLearner):
    """Consumes all lanes in lockstep, in lane order; one learner only."""

    @override(TorchLearner)
    def build(self) -> None:
        use_one_thread()
        super().build()
        config = self.config
        self.aligner: LaneAligner = self._learner_connector[LaneAligner][0]
        self.traces: EmphaticTraces = self._learner_connector[EmphaticTraces][0]
        self.moments = RunningMoments(config.baseline_decay)
        self.replay = ReplayRing(max(1, config.replay_capacity // config.num_lanes))
        self.replay_rng = replay_generator(config.seed)
        self.num_locksteps = 0
        self.lockstep = self._make_lockstep()

    def _make_lockstep(self) -> TorchLockstep | KernelLockstep:
        """Chooses the closed-form kernel or torch, as `kernel` says."""
        module, kernel = self.rl_module, self.config.kernel
        obstacle = why_not_fast(module) if kernel != "torch" else None
        if kernel == "fast" and obstacle:
            raise ValueError(
                f"`kernel` is 'fast', but the closed-form kernel can't serve: {obstacle}. "
                "Set it to 'auto' or 'torch'."
            )
        lockstep_class = TorchLockstep if kernel == "torch" or obstacle else KernelLockstep
        logger.info(
            "Learning with the %s kernel%s.",
            lockstep_class.name,
            f" (not the fast one: {obstacle})" if obstacle else "",
        )
        optimizers = dict(self.get_optimizers_for_module(DEFAULT_MODULE_ID))
        return lockstep_class(module, self.config, self.traces, optimizers, self.moments)

    @property
    def rl_module(self) -> EmphaticRLModule:
        """The one module that is learned."""
        return self.module[DEFAULT_MODULE_ID]

    @override(Learner)
    def _make_module(self):
        module = super()._make_module()
        module[DEFAULT_MODULE_ID].make_target_networks()
        return module

    @override(TorchLearner)
    def configure_optimizers_for_module(self, module_id, config=None) -> None:
        # Separate optimizers, unlike the authors' single one: there, the critics' steps decay
        # the second moment of the actor's gradient and make its steps 1.7 times larger.
        module = self.rl_module
        groups = {"pi": module.policy_parameters(), "v": list(module.v.parameters())}
        if module.c is not None:
            groups["c"] = list(module.c.parameters())
        optimizer_class = {"rmsprop": torch.optim.RMSprop, "sgd": torch.optim.SGD}[
            config.optimizer_type
        ]
        for name, parameters in groups.items():
            lr = config.learning_rate(name)
            self.register_optimizer(
                module_id=module_id,
                optimizer_name=name,
                optimizer=optimizer_class(parameters, lr=lr),
                params=parameters,
                lr_or_lr_schedule=lr,
            )

    @override(TorchLearner)
    def _update(self, batch: dict[str, Any], **kwargs: Any) -> tuple:
        began = time.perf_counter()
        # F2 decays by gamma_hat rho, so that it holds denormal numbers, which cost a multiple of
        # normal ones (1.1 to 1.3 of the whole lockstep); a flag of the thread, so set it here.
        torch.set_flush_denormal(True)
        columns = {name: np.asarray(c) for name, c in batch[DEFAULT_MODULE_ID].items()}
        snapshot = {k: v.clone() for k, v in self.rl_module.state_dict().items()}
        rows = []
        for t in range(len(columns[CHAIN_START])):
            self._learn_lockstep({name: column[t] for name, column in columns.items()})
            rows.append(dict(self.lockstep.latest))
        metrics = report(self, rows)
        losses = [value for name, value in metrics.items() if name.endswith("_loss")]
        metrics["diverged"] = float(not (np.isfinite(losses).all() and self._is_finite()))
        if metrics["diverged"]:
            # What is kept (and checkpointed) are the last parameters that were all finite.
            self.rl_module.load_state_dict(snapshot)
        metrics["learn_seconds"] = time.perf_counter() - began
        for name, value in metrics.items():
            self.metrics.log_value((DEFAULT_MODULE_ID, name), value, window=1)
        return {}, {DEFAULT_MODULE_ID: metrics["value_loss"]}, {}

    def _learn_lockstep(self, row: dict[str, np.ndarray]) -> None:
        config = self.config
        learn = self.num_locksteps >= config.learning_starts
        replayed = None
        if learn and config.replay_batch_size and self.replay.size:
            replayed = self.replay.sample(self.replay_rng, config.replay_batch_size)
        self.lockstep.step(row, replayed, learn)
        if config.replay_batch_size:
            self.replay.add({n: c[None] for n, c in row.items() if n != CHAIN_START})
        self.num_locksteps += 1
        if learn and self.num_locksteps % config.target_update_freq == 0:
            self.lockstep.sync_targets()

    def policy_gradient_terms(self, fragments: list[Fragment]) -> tuple[np.ndarray, np.ndarray]:
        """Z1 and Z2 by the code that learns, learning nothing.

        Returns:
            [T, L, P] each; [T, 1, P], means over the lanes, with the closed-form kernel.
        """
        columns = self.aligner.align(sorted(fragments, key=lambda f: f.lanes[0]))
        first, second = [], []
        for t in range(len(columns[CHAIN_START])):
            z1, z2 = self.lockstep.terms({name: column[t] for name, column in columns.items()})
            first.append(z1.cpu().numpy())
            second.append(np.zeros_like(first[-1]) if z2 is None else z2.cpu().numpy())
        return np.stack(first), np.stack(second)

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
        raise RuntimeError("EmphaticLearner has no single loss; see TorchLockstep.")

    @override(Learner)
    def get_state(self, components=None, *, not_components=None, **kwargs: Any) -> StateDict:
        self.lockstep.store_state()
        state = super().get_state(components, not_components=not_components, **kwargs)

        def wanted(component: str) -> bool:
            return self._check_component(component, components, not_components)

        if wanted(COMPONENT_LEARNER_CONNECTOR):
            state[COMPONENT_LEARNER_CONNECTOR] = self._learner_connector.get_state()
        if wanted(COMPONENT_PROGRESS):
            state[COMPONENT_PROGRESS] = {
                "num_locksteps": self.num_locksteps,
                "moments": self.moments.get_state(),
                "replay_rng": self.replay_rng.bit_generator.state,
            }
        if self.config.checkpoint_replay and wanted(COMPONENT_REPLAY):
            state[COMPONENT_REPLAY] = self.replay.get_state()
        return state

    @override(Learner)
    def set_state(self, state: StateDict) -> None:
        super().set_state(state)
        if COMPONENT_LEARNER_CONNECTOR in state:
            self._learner_connector.set_state(state[COMPONENT_LEARNER_CONNECTOR])
        if COMPONENT_PROGRESS in state:
            progress = state[COMPONENT_PROGRESS]
            self.num_locksteps = progress["num_locksteps"]
            self.moments.set_state(progress["moments"])
            self.replay_rng.bit_generator.state = progress["replay_rng"]
        if COMPONENT_REPLAY in state:
            self.replay.set_state(state[COMPONENT_REPLAY])
        self.lockstep.load_state()
