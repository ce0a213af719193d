"""One lockstep of Geoff-PAC, ACE and Off-PAC in closed form, for the default networks on the CPU.

The same steps in the same order as `rllib_geoffpac.learners.torch_lockstep`, which is the readable
truth and to which this is equal up to rounding. What makes it fast: hand-written backward passes
into preallocated buffers, no autograd; V and C side by side in one array; and networks that don't
change within a lockstep (pi, V', C') evaluated once, on replayed and current transitions together.
Matrices are torch's (at these sizes its element-wise calls take a third of numpy's time, see
benchmarks/kernel_alternatives.py), vectors of one number per transition are numpy's (whose calls
cost less); both share memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from rllib_geoffpac.kernels.flat_networks import FlatNetworks
from rllib_geoffpac.kernels.optimizer import FlatOptimizer
from rllib_geoffpac.kernels.workspace import Workspace
from rllib_geoffpac.maths.distributions import PolicyDistribution
from rllib_geoffpac.maths.emphatic import TraceState, restart
from rllib_geoffpac.maths.moments import RunningMoments
from rllib_geoffpac.maths.value import MAX_LOG_RHO


@dataclass(frozen=True)
class LockstepSettings:
    """The hyperparameters of a lockstep; names and meaning are those of the algorithms' configs.

    Attributes:
        gamma_hat: Of F2, Z2 and the C loss.
        uses_second_trace: Whether there is F2 and Z2.
        learning_rates: Of "pi", "v" and "c".
        optimizer: "rmsprop" or "sgd".
        interest_fn: Observations [L, ...] to interests [L]; None is 1 everywhere.
        first_state: For Discrete observations their first number; None for vectors.
    """

    num_lanes: int
    gamma_hat: float
    lambda_1: float
    lambda_2: float
    rho_clip: float
    density_ratio_clip: float
    sn_loss_coeff: float
    uses_second_trace: bool
    learning_rates: Mapping[str, float]
    grad_clip: float | None = None
    value_baseline: str | None = None
    overlap_coeff: float = 0.0
    optimizer: str = "rmsprop"
    interest_fn: Callable[[np.ndarray], np.ndarray] | None = None
    first_state: int | None = None


class FastLockstep:
    """Everything that one lockstep does, in place on the memory of the torch parameters.

    Args:
        policy: Parameters of pi: weight, bias of each Linear layer, then the std parameter if any.
        critics: Parameters of V and, with a density ratio, of C: weight, bias of each layer.
        targets: Parameters of the target copies, like `critics`.
        distribution: The target policy's distribution.
        settings: The hyperparameters.
        moments: Running moments of V; this object updates them.
    """

    def __init__(
        self,
        policy: Sequence[nn.Parameter],
        critics: Sequence[Sequence[nn.Parameter]],
        targets: Sequence[Sequence[nn.Parameter]],
        distribution: PolicyDistribution,
        settings: LockstepSettings,
        moments: RunningMoments,
    ):
        self.settings, self.distribution, self.moments = settings, distribution, moments
        self.policy = FlatNetworks([policy])
        self.critics, self.targets = FlatNetworks(critics), FlatNetworks(targets)
        self.has_density_ratio = len(critics) == 2
        rates, clip, kind = settings.learning_rates, settings.grad_clip, settings.optimizer
        self._critic_names = ["v", "c"][: len(critics)]
        # The optimizer descends and Z is an ascent direction: a negative rate.
        self.policy_optimizer = FlatOptimizer(self.policy, [-rates["pi"]], clip, kind)
        critic_rates = [rates[name] for name in self._critic_names]
        self.critics_optimizer = FlatOptimizer(self.critics, critic_rates, clip, kind)
        self._make_traces()
        self._workspaces: dict[int, Workspace] = {}
        # min(log rho, log clip) before exp is the clip of rho after it.
        self._max_log_rho = min(math.log(settings.rho_clip), MAX_LOG_RHO)

    def _make_traces(self) -> None:
        lanes, values = self.settings.num_lanes, self.policy.values
        dtype = values.numpy().dtype
        self.f1, self.m1, self.rho, self.discount = np.zeros((4, lanes), dtype)
        self.density_ratio, self.clipped_density_ratio = np.ones((2, lanes), dtype)
        np.minimum(1, self.settings.density_ratio_clip, out=self.clipped_density_ratio)
        self.delta, self.value_weight, self.interest = np.ones((3, lanes), dtype)
        self._ones = np.ones(lanes, dtype)
        self._was_cut = np.zeros(lanes, bool)
        self.z1, self.z2 = values.new_zeros(2, self.policy.size)
        self.f2 = self.intrinsic = None
        if self.settings.uses_second_trace:
            self._f2_and_intrinsic = values.new_zeros(2 * lanes, self.policy.size)
            self.f2, self.intrinsic = self._f2_and_intrinsic.split(lanes)
            self._f2_decay = values.new_zeros(lanes, 1)
            self._m2_weights = values.new_zeros(2 * lanes)

    def step(self, row: Mapping[str, Any], replayed: Mapping[str, Any] | None, learn: bool) -> None:
        """One lockstep: `row` is [L, ...], the replay batch [N, ...]; only traces if not learn.

        Columns: "obs", "actions", "rewards", "new_obs", "action_logp" (mu's log-density),
        "discount", "valid" and, of `row` alone, "chain_start"; numpy arrays.

        The squared gradients of idle units decay into denormal numbers and stay there, which makes
        a lockstep a fifth slower: the calling thread should `torch.set_flush_denormal(True)`.
        """
        work = self._workspace(0 if replayed is None else len(replayed["rewards"]))
        # A run that diverges is the learner's to notice, as on the torch path, not numpy's.
        with np.errstate(all="ignore"):
            work.load(row, replayed)
            work.evaluate(self.settings.gamma_hat, self._max_log_rho)
            if learn:
                self._learn_critics(work)
            self._evaluate_states(work, row)
            self._advance_traces(work, row["chain_start"])
            self._differentiate_policy(work)
            if learn:
                torch.add(self.z1, self.z2, out=self.policy_optimizer.gradient[0])
                self.policy_optimizer.step()
        self._latest_work, self._has_learned = work, learn

    def _learn_critics(self, work: Workspace) -> None:
        if work.num_replayed:
            work.replayed_critics.compute_gradients()
            self.critics_optimizer.step()
        work.current_critics.compute_gradients()
        self.critics_optimizer.step()

    def _advance_traces(self, work: Workspace, chain_start: np.ndarray) -> None:
        columns = work.lane_columns
        self._restart_lanes(chain_start)
        self._advance_first_trace()
        if self.f2 is not None:
            self._advance_second_trace()
        # Until here both were those of the transition into S_t.
        self.rho[:] = columns.rho
        self.discount[:] = columns.discount
        # A cut transition leads nowhere in the chain: the lane's next one starts afresh.
        np.equal(columns.valid, 0, out=self._was_cut)

    def _workspace(self, num_replayed: int) -> Workspace:
        if num_replayed not in self._workspaces:
            self._workspaces[num_replayed] = Workspace(self, num_replayed)
        return self._workspaces[num_replayed]

    def _evaluate_states(self, work: Workspace, row: Mapping[str, Any]) -> None:
        """V, C, delta and i of the lanes, with the critics that have just learned."""
        settings, value = self.settings, work.lane_value
        work.lane_critics.forward()
        np.subtract(work.lane_columns.td_target, value, out=self.delta)
        if self.has_density_ratio:
            np.logaddexp(0, work.lane_c_output, out=self.density_ratio)
            np.minimum(
                self.density_ratio, settings.density_ratio_clip, out=self.clipped_density_ratio
            )
        if settings.interest_fn is not None:
            observations = np.asarray(row["obs"])
            if observations.dtype.kind == "f":
                observations = observations.astype(self.interest.dtype, copy=False)
            self.interest[:] = np.reshape(settings.interest_fn(observations), -1)

        # b and std(V) are those of the locksteps before this one.
        force = settings.overlap_coeff * self.moments.std if settings.overlap_coeff else 0.0
        if self.has_density_ratio:
            if settings.value_baseline == "ema":
                force -= self.moments.mean
            np.add(value, force, out=self.value_weight)
        else:
            self.value_weight.fill(force)
        lanes = len(value)
        self.moments.update(
            float(np.dot(value, self._ones)) / lanes, float(np.dot(value, value)) / lanes
        )

    def _advance_first_trace(self) -> None:
        """F1_t = gamma_t rho_{t-1} F1_{t-1} + i C; M1_t = (1 - lambda_1) i C + lambda_1 F1_t."""
        lambda_1 = self.settings.lambda_1
        interest_in_state = self.interest * self.clipped_density_ratio
        np.multiply(self.f1, self.discount, out=self.f1)
        np.multiply(self.f1, self.rho, out=self.f1)
        np.add(self.f1, interest_in_state, out=self.f1)
        np.multiply(self.f1, lambda_1, out=self.m1)
        np.add(self.m1, np.multiply(interest_in_state, 1 - lambda_1), out=self.m1)

    def _advance_second_trace(self) -> None:
        """F2_t = gamma_hat rho_{t-1} F2_{t-1} + I_t; Z2 = mean of gamma_hat i (V - b) M2_t.

        M2_t = lambda_2 F2_t + (1 - lambda_2) I_t is not formed: Z2 is one product with both.
        """
        settings = self.settings
        np.multiply(self.rho, settings.gamma_hat, out=self._f2_decay.numpy()[:, 0])
        torch.addcmul(self.intrinsic, self.f2, self._f2_decay, out=self.f2)
        for_f2, for_intrinsic = self._m2_weights.numpy().reshape(2, -1)
        np.multiply(self.interest, self.value_weight, out=for_f2)
        scale = settings.gamma_hat / settings.num_lanes
        np.multiply(for_f2, scale * (1 - settings.lambda_2), out=for_intrinsic)
        np.multiply(for_f2, scale * settings.lambda_2, out=for_f2)
        torch.mv(self._f2_and_intrinsic.t(), self._m2_weights, out=self.z2)

    def _differentiate_policy(self, work: Workspace) -> None:
        """Z1 = mean of rho_t M1_t delta_t grad log pi, and I_{t+1} = C rho_t grad log pi."""
        work.head.score(work.score_by_outputs, work.score_by_std_parameter)
        weights = work.score_weights
        np.multiply(self.rho, self.m1, out=weights[0])
        np.multiply(weights[0], self.delta, out=weights[0])
        np.divide(weights[0], len(self.rho), out=weights[0])
        if self.f2 is not None:
            np.multiply(self.rho, self.clipped_density_ratio, out=weights[1])
        np.multiply(weights[:, :, None], work.score_by_outputs, out=work.weighted_score_by_outputs)
        work.score_pass.backward()
        if self.policy.tail_size:
            np.dot(weights[0], work.score_by_std_parameter, out=work.z1_tail)
            if self.f2 is not None:
                np.multiply(
                    weights[1][:, None], work.score_by_std_parameter, out=work.intrinsic_tail
                )

    def _restart_lanes(self, chain_start: np.ndarray) -> None:
        """Restarts the traces of lanes whose chain starts here or was cut before."""
        mask = np.logical_or(self._was_cut, chain_start)
        if not mask.any():
            return
        self._was_cut[:] = False
        for array in (self.f1, self.rho, self.discount):
            array[mask] = 0
        if self.f2 is not None:
            self.f2.numpy()[mask] = 0
            self.intrinsic.numpy()[mask] = 0

    def sync_targets(self) -> None:
        """Copies V and C into the target networks."""
        self.targets.values.copy_(self.critics.values)

    @property
    def latest(self) -> dict[str, Any]:
        """Of the latest lockstep: [L] columns and, if it learned, the losses on its transitions."""
        work = self._latest_work
        columns = work.lane_columns
        return {
            "rho": np.exp(np.minimum(columns.log_rho, MAX_LOG_RHO)),
            "clipped_rho": columns.rho.copy(),
            "density_ratio": self.density_ratio.copy(),
            "f1": self.f1.copy(),
            "m1": self.m1.copy(),
            **(work.current_critics.losses() if self._has_learned else {}),
        }

    @property
    def vectors(self) -> dict[str, torch.Tensor | None]:
        """Of the latest lockstep: F2 [L, P], and Z1 and Z2 [1, P], means over the lanes already.

        In the kernel's order of parameters, for norms; `trace_state` has torch's order.
        """
        second = self.f2 is not None
        return {"f2": self.f2, "z1": self.z1[None], "z2": self.z2[None] if second else None}

    def trace_state(self) -> TraceState:
        """A copy of the traces as `emphatic.advance` has them, parameters in torch's order."""
        second = self.f2 is not None
        state = TraceState(
            f1=torch.tensor(self.f1),
            f2=self.policy.to_torch_order(self.f2) if second else None,
            rho=torch.tensor(self.rho),
            discount=torch.tensor(self.discount),
            intrinsic=self.policy.to_torch_order(self.intrinsic) if second else None,
        )
        return restart(state, torch.from_numpy(self._was_cut))

    def set_trace_state(self, state: TraceState) -> None:
        """Takes over what `trace_state` or `emphatic.advance` returned."""
        self._was_cut[:] = False
        for name in ("f1", "rho", "discount"):
            getattr(self, name)[:] = getattr(state, name)
        if self.f2 is not None:
            self.f2.copy_(self.policy.from_torch_order(torch.as_tensor(state.f2)))
            self.intrinsic.copy_(self.policy.from_torch_order(torch.as_tensor(state.intrinsic)))

    def load_optimizers(self, optimizers: Mapping[str, torch.optim.Optimizer]) -> None:
        """Takes over the states of the torch optimizers "pi", "v" and "c"."""
        self.policy_optimizer.load([optimizers["pi"]])
        self.critics_optimizer.load([optimizers[name] for name in self._critic_names])

    def store_optimizers(self, optimizers: Mapping[str, torch.optim.Optimizer]) -> None:
        """Brings the states of the torch optimizers "pi", "v" and "c" up to date."""
        self.policy_optimizer.store([optimizers["pi"]])
        self.critics_optimizer.store([optimizers[name] for name in self._critic_names])
