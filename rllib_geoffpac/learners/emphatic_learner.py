"""The learner of Geoff-PAC, ACE and Off-PAC: the paper's pseudocode over RLlib's Learner.

One lockstep: critics on a replay batch, critics on the current transitions, traces, actor; then
the transitions enter the replay ring. The target networks are synchronised every
`target_update_freq` locksteps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.utils.annotations import override
from ray.rllib.utils.typing import StateDict

from rllib_geoffpac.connectors import EmphaticTraces, LaneAligner
from rllib_geoffpac.connectors.lane_aligner import CHAIN_START
from rllib_geoffpac.lanes.fragments import Fragment
from rllib_geoffpac.learners.fast_lockstep import KernelLockstep
from rllib_geoffpac.learners.kernel_choice import takes_fast_kernel
from rllib_geoffpac.learners.lane_learner import LaneLearner
from rllib_geoffpac.learners.report import report
from rllib_geoffpac.learners.torch_lockstep import TorchLockstep
from rllib_geoffpac.maths.moments import RunningMoments
from rllib_geoffpac.modules import EmphaticRLModule

COMPONENT_LEARNER_CONNECTOR = "learner_connector"


class EmphaticLearner(LaneLearner):
    """Critics, traces and actor, lockstep by lockstep."""

    rl_module: EmphaticRLModule

    @override(TorchLearner)
    def build(self) -> None:
        super().build()
        self.aligner: LaneAligner = self._learner_connector[LaneAligner][0]
        self.traces: EmphaticTraces = self._learner_connector[EmphaticTraces][0]
        self.moments = RunningMoments(self.config.baseline_decay)
        self.lockstep = self._make_lockstep()

    def _make_lockstep(self) -> TorchLockstep | KernelLockstep:
        module = self.rl_module
        fast = takes_fast_kernel(self.config.kernel, module, self.config.fast_module_class)
        lockstep_class = KernelLockstep if fast else TorchLockstep
        optimizers = dict(self.get_optimizers_for_module(DEFAULT_MODULE_ID))
        return lockstep_class(module, self.config, self.traces, optimizers, self.moments)

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
        self.diverged = not (np.isfinite(losses).all() and self._is_finite())
        if self.diverged:
            # What is kept (and checkpointed) are the last parameters that were all finite.
            self.rl_module.load_state_dict(snapshot)
        metrics["diverged"] = float(self.diverged)
        for name, value in metrics.items():
            self.metrics.log_value((DEFAULT_MODULE_ID, name), value, window=1)
        return {}, {DEFAULT_MODULE_ID: metrics["value_loss"]}, {}

    def _learn_lockstep(self, row: dict[str, np.ndarray]) -> None:
        config = self.config
        learn = self.num_locksteps >= config.learning_starts
        replayed = None
        if learn and config.replay_batch_size and self.replay.size:
            replayed = self.replay.sample(self.rng, config.replay_batch_size)
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

    @override(LaneLearner)
    def _get_progress(self) -> dict[str, Any]:
        return {**super()._get_progress(), "moments": self.moments.get_state()}

    @override(LaneLearner)
    def _set_progress(self, progress: dict[str, Any]) -> None:
        super()._set_progress(progress)
        self.moments.set_state(progress["moments"])

    @override(LaneLearner)
    def get_state(self, components=None, *, not_components=None, **kwargs: Any) -> StateDict:
        self.lockstep.store_state()
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(COMPONENT_LEARNER_CONNECTOR, components, not_components):
            state[COMPONENT_LEARNER_CONNECTOR] = self._learner_connector.get_state()
        return state

    @override(LaneLearner)
    def set_state(self, state: StateDict) -> None:
        super().set_state(state)
        if COMPONENT_LEARNER_CONNECTOR in state:
            self._learner_connector.set_state(state[COMPONENT_LEARNER_CONNECTOR])
        self.lockstep.load_state()
