"""The buffers of a lockstep, and everything in it that doesn't depend on the traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rllib_geoffpac.kernels.critics import CriticPass, TransitionColumns
from rllib_geoffpac.kernels.mlp_pass import MLPPass, ScorePass, load_observations, with_ones
from rllib_geoffpac.kernels.policy_heads import make_head

if TYPE_CHECKING:
    from rllib_geoffpac.kernels.lockstep import FastLockstep


class Workspace:
    """Buffers for L current transitions (the first rows) and B replayed ones (the rows after).

    Attributes:
        columns: Of all L + B transitions.
        lane_columns: Of the L current ones.
        replayed_critics, current_critics: V on S_t, C on S_{t+1} and their gradients.
        lane_critics: V and C on S_t of the lanes; `lane_value` and `lane_c_output` (before the
            softplus) are its outputs [L].
        head: The policy's log-densities and scores.
        score_pass: From scores by outputs to Z1 and I; its weights are `score_weights` [2, L].
    """

    def __init__(self, lockstep: FastLockstep, num_replayed: int):
        self.lanes, self.first_state = lockstep.settings.num_lanes, lockstep.settings.first_state
        self.num_replayed = num_replayed
        rows = self.lanes + num_replayed
        policy, critics, targets = lockstep.policy, lockstep.critics, lockstep.targets
        dtype, num_inputs = policy.values.dtype, policy.shapes[0][0] - 1
        self.observations = with_ones(rows, num_inputs, dtype)
        self.next_observations = with_ones(rows, num_inputs, dtype)
        self._inputs = [a.numpy()[:, :-1] for a in (self.observations, self.next_observations)]
        self.columns = TransitionColumns(np.zeros((8, rows), policy.values.numpy().dtype))
        current, replayed = slice(self.lanes), slice(self.lanes, rows)
        self._loads = [
            (current, self.columns.rows(current)),
            (replayed, self.columns.rows(replayed)),
        ]
        self.lane_columns = self._loads[0][1]

        # pi and C' look at S_t, V' at S_{t+1}.
        policy_blocks = policy.blocks(policy.values[0])
        frozen = [policy_blocks, *(targets.blocks(row) for row in targets.values)]
        inputs = [self.observations, self.next_observations, self.observations]
        self._frozen = MLPPass(frozen, inputs[: len(frozen)])
        self._target_outputs = [output[:, 0].numpy() for output in self._frozen.outputs[1:]]
        self._target_density_ratio = np.zeros(rows, policy.values.numpy().dtype)

        blocks = [critics.blocks(row) for row in critics.values]
        gradients = [critics.blocks(row) for row in lockstep.critics_optimizer.gradient]
        self.current_critics, self.replayed_critics = (
            CriticPass(
                blocks,
                gradients,
                (self.observations[part], self.next_observations[part]),
                columns,
                lockstep.settings.sn_loss_coeff,
            )
            for part, columns in self._loads
        )
        lane_inputs = self.observations[current]
        self.lane_critics = MLPPass(blocks, [lane_inputs] * len(blocks))
        outputs = [output[:, 0].numpy() for output in self.lane_critics.outputs]
        self.lane_value, self.lane_c_output = outputs[0], outputs[-1]
        self._make_score_buffers(lockstep, policy_blocks, lane_inputs)

    def _make_score_buffers(self, lockstep, policy_blocks, lane_inputs) -> None:
        policy, lanes, intrinsic = lockstep.policy, self.lanes, lockstep.intrinsic
        tail = policy.tail(policy.values[0]) if policy.tail_size else None
        outputs = self._frozen.outputs[0]
        self.head = make_head(lockstep.distribution, outputs, tail, lanes)
        activations = [lane_inputs, *(hidden[0, :lanes] for hidden in self._frozen.hidden)]
        by_lane = None if intrinsic is None else policy.blocks(intrinsic)
        self.score_pass = ScorePass(policy_blocks, activations, policy.blocks(lockstep.z1), by_lane)
        self.weighted_score_by_outputs = self.score_pass.output_gradients.numpy()
        dtype = self.weighted_score_by_outputs.dtype
        self.score_weights = np.zeros((1 if intrinsic is None else 2, lanes), dtype)
        self.score_by_outputs = np.zeros((lanes, outputs.shape[1]), dtype)
        self.score_by_std_parameter = np.zeros((lanes, policy.tail_size), dtype)
        self.z1_tail = policy.tail(lockstep.z1).numpy()
        self.intrinsic_tail = None if intrinsic is None else policy.tail(intrinsic).numpy()

    def load(self, row: Mapping[str, Any], replayed: Mapping[str, Any] | None) -> None:
        """Copies the transitions in, with the conversion to the kernel's dtype and units."""
        for batch, (part, columns) in zip((row, replayed), self._loads, strict=True):
            if batch is None:
                return
            columns.rewards[:] = batch["rewards"]
            columns.discount[:] = batch["discount"]
            columns.behavior_logp[:] = batch["action_logp"]
            columns.valid[:] = batch["valid"]
            self.head.load_actions(batch["actions"], part)
            for inputs, name in zip(self._inputs, ("obs", "new_obs"), strict=True):
                load_observations(inputs[part], batch[name], self.first_state)

    def evaluate(self, gamma_hat: float, max_log_rho: float) -> None:
        """What doesn't change within a lockstep: rho and the targets of V and C."""
        columns = self.columns
        self._frozen.forward()
        self.head.log_prob(columns.log_rho)
        np.subtract(columns.log_rho, columns.behavior_logp, out=columns.log_rho)
        np.exp(np.minimum(columns.log_rho, max_log_rho, out=columns.rho), out=columns.rho)
        np.multiply(columns.discount, self._target_outputs[0], out=columns.td_target)
        np.add(columns.td_target, columns.rewards, out=columns.td_target)
        if len(self._target_outputs) == 2:
            ratio = np.logaddexp(0, self._target_outputs[1], out=self._target_density_ratio)
            np.multiply(ratio, columns.rho, out=columns.cop_target)
            np.multiply(columns.cop_target, gamma_hat, out=columns.cop_target)
            np.add(columns.cop_target, 1 - gamma_hat, out=columns.cop_target)
