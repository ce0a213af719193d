"""The learner of DDPG and TD3 over RLlib's Learner.

One lockstep: the transitions enter the replay ring, then there is one update for each of them,
from single transitions drawn from the ring.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.utils.annotations import override
from ray.rllib.utils.typing import StateDict

from rllib_geoffpac.connectors.lane_aligner import DISCOUNT
from rllib_geoffpac.learners.deterministic_networks import KernelNetworks, TorchNetworks
from rllib_geoffpac.learners.deterministic_update import DDPGUpdate, TD3Update
from rllib_geoffpac.learners.kernel_choice import takes_fast_kernel
from rllib_geoffpac.learners.lane_learner import LaneLearner

_REPLAYED = (Columns.OBS, Columns.ACTIONS, Columns.REWARDS, Columns.NEXT_OBS, DISCOUNT)
# Looking at all parameters costs half an update: with fragments of one lockstep it must be rare.
_UPDATES_BETWEEN_CHECKS = 100


class DDPGLearner(LaneLearner):
    """As many updates as transitions, once `learning_starts` of them are there."""

    update_class = DDPGUpdate

    @override(LaneLearner)
    def build(self) -> None:
        super().build()
        optimizers = dict(self.get_optimizers_for_module(DEFAULT_MODULE_ID))
        module, config = self.rl_module, self.config
        fast = takes_fast_kernel(config.kernel, module, config.fast_module_class)
        networks = (KernelNetworks if fast else TorchNetworks)(module, config, optimizers)
        self.updates = self.update_class(networks, config)
        self._keep_parameters()

    @override(TorchLearner)
    def configure_optimizers_for_module(self, module_id, config=None) -> None:
        module = self.rl_module
        decays = {"pi": 0.0, "q": config.critic_weight_decay}
        for name, decay in decays.items():
            parameters, lr = list(getattr(module, name).parameters()), config.learning_rate(name)
            self.register_optimizer(
                module_id=module_id,
                optimizer_name=name,
                # Fused: less than half the time of torch's other Adams.
                optimizer=torch.optim.Adam(parameters, lr=lr, weight_decay=decay, fused=True),
                params=parameters,
                lr_or_lr_schedule=lr,
            )

    @override(TorchLearner)
    def _update(self, batch: dict[str, Any], **kwargs: Any) -> tuple:
        before = self.updates.count
        # Adam's moments of a unit that is never active decay into denormal numbers, which cost a
        # multiple of normal ones; a flag of the thread, so set it here.
        torch.set_flush_denormal(True)
        columns = {name: np.asarray(batch[DEFAULT_MODULE_ID][name]) for name in _REPLAYED}
        columns[Columns.ACTIONS] = self.rl_module.distribution.to_unit(columns[Columns.ACTIONS])
        for t in range(len(columns[Columns.REWARDS])):
            self._learn_lockstep({name: column[t : t + 1] for name, column in columns.items()})
        metrics = self.updates.metrics()
        loss = metrics.get("critic_loss", 0.0)
        self.diverged = not self._check_parameters(loss)
        metrics["diverged"] = float(self.diverged)
        for name, value in metrics.items():
            self.metrics.log_value((DEFAULT_MODULE_ID, name), value, window=1)
        self.metrics.log_value(
            (DEFAULT_MODULE_ID, "num_updates"), self.updates.count - before, reduce="lifetime_sum"
        )
        return {}, {DEFAULT_MODULE_ID: loss}, {}

    def _learn_lockstep(self, row: dict[str, np.ndarray]) -> None:
        config = self.config
        self.replay.add(row)
        if self.num_locksteps >= config.warm_up_locksteps:
            for _ in range(config.num_lanes):
                replayed = self.replay.sample_transitions(self.rng, config.replay_batch_size)
                self.updates.step(replayed, self.rng)
        self.num_locksteps += 1

    def _check_parameters(self, critic_loss: float) -> bool:
        """Whether all is finite, as far as the loss tells and, now and then, all parameters.

        If not, what is kept (and checkpointed) are the last parameters known to be finite.
        """
        finite = math.isfinite(critic_loss)
        if finite and self.updates.count - self._kept_at < _UPDATES_BETWEEN_CHECKS:
            return True
        finite = finite and self._is_finite()
        if finite:
            self._keep_parameters()
        else:
            self.rl_module.load_state_dict(self._kept)
        return finite

    def _keep_parameters(self) -> None:
        self._kept = {name: p.clone() for name, p in self.rl_module.state_dict().items()}
        self._kept_at = self.updates.count

    def policy_weights(self) -> list[np.ndarray]:
        """pi's parameters, for env runners that explore around it."""
        return [p.detach().cpu().numpy() for p in self.rl_module.pi.parameters()]

    @override(LaneLearner)
    def _get_progress(self) -> dict[str, Any]:
        return super()._get_progress() | {"num_updates": self.updates.count}

    @override(LaneLearner)
    def _set_progress(self, progress: dict[str, Any]) -> None:
        super()._set_progress(progress)
        self.updates.count = progress["num_updates"]

    @override(LaneLearner)
    def get_state(self, components=None, *, not_components=None, **kwargs: Any) -> StateDict:
        self.updates.networks.store_state()
        return super().get_state(components, not_components=not_components, **kwargs)

    @override(LaneLearner)
    def set_state(self, state: StateDict) -> None:
        # Stored first: what is not part of `state` stays as it is.
        self.updates.networks.store_state()
        super().set_state(state)
        self.updates.networks.load_state()
        self._keep_parameters()


class TD3Learner(DDPGLearner):
    """The same with TD3's update."""

    update_class = TD3Update
