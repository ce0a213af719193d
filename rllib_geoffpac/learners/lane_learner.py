"""What a learner of lanes is apart from its update: one module, a backend, replay, exact state."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import tree
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import DEFAULT_OPTIMIZER, LR_KEY, Learner
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics import ALL_MODULES
from ray.rllib.utils.typing import StateDict

from rllib_geoffpac.checkpoints import CheckpointedPart
from rllib_geoffpac.compat import torch_lr_schedulers
from rllib_geoffpac.lanes.replay_ring import ReplayRing
from rllib_geoffpac.lanes.seeding import replay_generator
from rllib_geoffpac.learners.rates import LearningRates
from rllib_geoffpac.learners.threads import use_one_thread
from rllib_geoffpac.maths.schedules import is_schedule
from rllib_geoffpac.updates.backend import Backend, Chunk, Memory, Report, Update
from rllib_geoffpac.updates.choice import GRADIENT_HOOKS, make_backend, overridden
from rllib_geoffpac.updates.descent import Descent
from rllib_geoffpac.updates.optimizers import make_optimizer, optimizers_by_function

COMPONENT_LEARNER_CONNECTOR = "learner_connector"
COMPONENT_PROGRESS = "progress"
COMPONENT_REPLAY = "replay"
# Looking at all parameters costs half an update of DDPG: with fragments of one lockstep it must be
# rare.
_STEPS_BETWEEN_CHECKS = 100


class LaneLearner(CheckpointedPart, TorchLearner):
    """Consumes all lanes in lockstep, in lane order; one learner only.

    Attributes:
        chunk_size: Steps of the update that the backend gets at once, at most. It changes nothing.
        diverged: Whether a loss or a parameter is not finite. The parameters are then the last
            ones known to be finite, and nothing more should be learned.
    """

    chunk_size: int
    backend: Backend
    _at_work = False

    @override(TorchLearner)
    def build(self) -> None:
        use_one_thread()
        self.rates = LearningRates()
        super().build()
        config = self.config
        self.replay = ReplayRing(max(1, config.replay_capacity // config.num_lanes))
        self.rng = replay_generator(config.seed)
        self.num_locksteps = 0
        self.diverged = False
        self._optimizers = optimizers_by_function(
            self._current_module,
            list(config.weight_decays),
            dict(self.get_optimizers_for_module(DEFAULT_MODULE_ID)),
        )
        self.backend = make_backend(
            config.kernel,
            self._make_update(),
            self._current_module,
            self._optimizers,
            config.grad_clip,
            self._fresh_memory(),
            chunk_size=self.chunk_size,
            learner_class=type(self),
            descent=self._make_descent(),
        )
        self._keep()

    def _make_descent(self) -> Descent:
        classes = torch_lr_schedulers(self.config, DEFAULT_MODULE_ID)
        if classes:
            # RLlib's way keeps those of the last optimizer alone.
            self._lr_scheduler_classes = None
            self.rates.schedule_by_torch(classes)
        return Descent(
            grad_clip_by=self.config.grad_clip_by,
            logs_norms=self.config.log_gradients,
            hooks=self if overridden(type(self), GRADIENT_HOOKS) else None,
            after_update=self.rates.step if classes else None,
        )

    @override(Learner)
    def register_optimizer(
        self,
        *,
        module_id: str = ALL_MODULES,
        optimizer_name: str = DEFAULT_OPTIMIZER,
        optimizer: torch.optim.Optimizer,
        params: Sequence[Any],
        lr_or_lr_schedule: Any = None,
    ) -> None:
        super().register_optimizer(
            module_id=module_id,
            optimizer_name=optimizer_name,
            optimizer=optimizer,
            params=params,
            lr_or_lr_schedule=lr_or_lr_schedule,
        )
        self.rates.register(optimizer_name, optimizer, lr_or_lr_schedule)

    def numbers_at(self, locksteps: np.ndarray) -> dict[str, np.ndarray]:
        """The numbers of an update at each of some locksteps, scheduled learning rates included."""
        rates = self.rates.columns(locksteps * self.config.num_lanes, self._optimizers)
        return self.config.numbers_at(locksteps) | rates

    @override(TorchLearner)
    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        # RLlib would move scheduled rates here, at the end of a fragment.
        for name, rate in self.rates.latest().items():
            self.metrics.log_value((DEFAULT_MODULE_ID, f"{name}_{LR_KEY}"), rate, reduce="item")

    @abstractmethod
    def _make_update(self) -> Update:
        """The algorithm's update."""

    @abstractmethod
    def _fresh_memory(self) -> Memory:
        """The update's memory before the first lockstep, as numpy arrays."""

    @abstractmethod
    def chunks(self, columns: dict[str, np.ndarray]) -> Iterator[tuple[Chunk, bool]]:
        """Cuts time-major columns [T, L, ...] into chunks; whether each is learned from.

        It draws what is replayed and advances `num_locksteps` on the way.
        """

    @abstractmethod
    def _summarize(self, reports: list[Report]) -> dict[str, float]:
        """The metrics of one call, from what its chunks reported."""

    @property
    @override(Learner)
    def module(self) -> Any:
        """All modules, up to date; who changes them changes what is learned."""
        if hasattr(self, "backend") and not self._at_work:
            self.backend.hand_over()
        return self._module

    @property
    def rl_module(self) -> Any:
        """The one module that is learned, likewise."""
        return self.module[DEFAULT_MODULE_ID]

    @property
    def _current_module(self) -> Any:
        """The module for its structure; its numbers may be behind those of the backend."""
        return self._module[DEFAULT_MODULE_ID]

    @override(Learner)
    def update(self, *args: Any, **kwargs: Any) -> Any:
        self._at_work = True  # RLlib asks for the module's names in between.
        try:
            return super().update(*args, **kwargs)
        finally:
            self._at_work = False

    @override(Learner)
    def _make_module(self) -> Any:
        module = super()._make_module()
        self.config.module_protocol().check(module[DEFAULT_MODULE_ID])
        module[DEFAULT_MODULE_ID].make_target_networks()
        return module

    @override(TorchLearner)
    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        # Separate optimizers, unlike the authors' single one: there, the critics' steps decay
        # the second moment of the actor's gradient and make its steps 1.7 times larger.
        module = self._current_module
        for name, decay in config.weight_decays.items():
            parameters, given = module.parameters_of(name), config.learning_rate(name)
            lr = given[0][1] if is_schedule(given) else given
            self.register_optimizer(
                module_id=module_id,
                optimizer_name=name,
                optimizer=make_optimizer(config.optimizer_type, parameters, lr, decay),
                params=parameters,
                lr_or_lr_schedule=given,
            )

    @override(TorchLearner)
    def _update(self, batch: dict[str, Any], **kwargs: Any) -> tuple:
        columns = {name: np.asarray(c) for name, c in batch[DEFAULT_MODULE_ID].items()}
        # RLlib reports it as the steps of the module, and would take the rows [T, lanes] for them.
        batch[DEFAULT_MODULE_ID].count = columns[Columns.REWARDS].size
        # Chunk after chunk is sent off before the first answer is asked for: a backend may work
        # on one while the next is being prepared.
        reports = [self.backend.run(chunk, learn) for chunk, learn in self.chunks(columns)]
        metrics = self._summarize(reports)
        losses = [value for name, value in metrics.items() if name.endswith("_loss")]
        self._check(bool(np.isfinite(losses).all()))
        metrics["diverged"] = float(self.diverged)
        for name, value in metrics.items():
            self.metrics.log_value((DEFAULT_MODULE_ID, name), value, window=1)
        return {}, {DEFAULT_MODULE_ID: losses[0] if losses else 0.0}, {}

    def _check(self, finite: bool) -> None:
        """Notices a divergence, by the losses and, now and then, by all parameters."""
        if finite and self._steps() - self._kept_at < _STEPS_BETWEEN_CHECKS:
            return
        if finite and self.backend.is_finite():
            self._keep()
        else:
            self.diverged = True
            self.backend.roll_back(self._kept)

    def _keep(self) -> None:
        self._kept, self._kept_at = self.backend.snapshot(), self._steps()

    def _steps(self) -> int:
        """How many steps the update has made."""
        return self.num_locksteps

    def weights_digest(self) -> str:
        """The first 12 hex digits of a sha256 over all parameters, the target copies included."""
        digest = hashlib.sha256()
        for name, parameter in sorted(self.backend.named_parameters().items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(parameter).tobytes())
        return digest.hexdigest()[:12]

    @property
    def weights_version(self) -> int:
        """How many updates made the present weights, as RLlib counts them."""
        return self._weights_seq_no

    @override(Learner)
    def compute_loss_for_module(self, **kwargs: Any) -> Any:
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
        configured = {n: o.state_dict()["param_groups"] for n, o in self._named_optimizers.items()}
        super()._set_optimizer_state(state)
        for name, saved in state.items():
            exact = tree.map_structure(torch.tensor, saved["state"]["state"])
            # Rates and other options are the config's, which may have changed since (PBT).
            groups = saved["state"]["param_groups"] if self.rates.follow_torch else configured[name]
            optimizer = self._named_optimizers[name]
            optimizer.load_state_dict({"state": exact, "param_groups": groups})

    def _get_progress(self) -> dict[str, Any]:
        """Everything that exact resume needs beside weights, optimizers and the replay ring."""
        # As text: msgpack, in which RLlib can write checkpoints, has no integers of 128 bits.
        generator = json.dumps(self.rng.bit_generator.state)
        progress = {"num_locksteps": self.num_locksteps, "rng": generator}
        return progress | ({"rates": self.rates.get_state()} if self.rates.follow_torch else {})

    def _set_progress(self, progress: dict[str, Any]) -> None:
        self.num_locksteps = progress["num_locksteps"]
        self.rng.bit_generator.state = json.loads(progress["rng"])
        self.rates.set_state(progress.get("rates", {}))

    @override(Learner)
    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> StateDict:
        self.backend.store()
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(COMPONENT_LEARNER_CONNECTOR, components, not_components):
            state[COMPONENT_LEARNER_CONNECTOR] = self._learner_connector.get_state()
        if self._check_component(COMPONENT_PROGRESS, components, not_components):
            state[COMPONENT_PROGRESS] = self._get_progress()
        with_replay = self._check_component(COMPONENT_REPLAY, components, not_components)
        if self.config.checkpoint_replay and with_replay:
            state[COMPONENT_REPLAY] = self.replay.get_state()
        return state

    @override(Learner)
    def set_state(self, state: StateDict) -> None:
        # Handed over first: what is not part of `state` stays as it is.
        self.backend.hand_over()
        super().set_state(state)
        if COMPONENT_LEARNER_CONNECTOR in state:
            self._learner_connector.set_state(state[COMPONENT_LEARNER_CONNECTOR])
        if COMPONENT_PROGRESS in state:
            self._set_progress(state[COMPONENT_PROGRESS])
        if COMPONENT_REPLAY in state:
            self.replay.set_state(state[COMPONENT_REPLAY])
        self.diverged = False
        self._keep()
        self.backend.hand_over()  # RLlib may restore the module after this, by itself.


def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().copy()
