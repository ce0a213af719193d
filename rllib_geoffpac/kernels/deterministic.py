"""One update of DDPG or TD3 in closed form, for the default networks on the CPU.

The same steps as `rllib_geoffpac.learners.deterministic_networks.TorchNetworks`, which is the
readable truth and to which this is equal up to rounding. What makes it fast: hand-written backward
passes into preallocated buffers, no autograd; parameters, gradients and Adam's moments of all
networks that learn together in one array each; and no product whose result nobody needs (the
actor's step asks the critic for the derivative by the action alone).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from rllib_geoffpac.kernels.flat_networks import FlatNetworks
from rllib_geoffpac.kernels.mlp_pass import MLPPass, TrainablePass, load_observations, with_ones
from rllib_geoffpac.kernels.optimizer import FlatAdam
from rllib_geoffpac.maths.deterministic import soft_update


@dataclass(frozen=True)
class DeterministicSettings:
    """The hyperparameters of an update; names and meaning are those of the algorithms' configs.

    Attributes:
        batch_size: Number N of transitions.
        action_layer: The layer of the critics whose input the action joins.
        learning_rates: Of "pi" and "q".
        first_state: For Discrete observations their first number; None for vectors.
    """

    batch_size: int
    action_layer: int
    learning_rates: Mapping[str, float]
    tau: float
    critic_weight_decay: float = 0.0
    grad_clip: float | None = None
    first_state: int | None = None


class ActionGradient:
    """The derivative of -mean Q(S, A) by A, after a forward pass of a critic.

    Args:
        critic: The forward pass of that critic.
        action_layer: The layer whose input the action joins; nothing below it is needed.
        num_actions: d.

    Attributes:
        by_action: [N, d]. `backward` overwrites it.
    """

    def __init__(self, critic: MLPPass, action_layer: int, num_actions: int):
        blocks, output = critic.networks[0], critic.outputs[0]
        delta = torch.full_like(output, -1 / len(output))
        self._steps_down = []
        for layer in range(len(blocks) - 1, action_layer, -1):
            width = blocks[layer - 1].shape[1]
            activations = critic.hidden[layer - 1][0, :, :width]
            below, mask = torch.zeros(2, len(output), width, dtype=output.dtype)
            self._steps_down.append((delta, blocks[layer][:width].t(), below, activations, mask))
            delta = below
        self.by_action = torch.zeros(len(output), num_actions, dtype=output.dtype)
        rows_of_action = blocks[action_layer][-1 - num_actions : -1]
        self._last_product = (delta, rows_of_action.t())

    def backward(self) -> None:
        """Computes `by_action` from the last forward pass."""
        for delta, block_transposed, below, activations, mask in self._steps_down:
            torch.mm(delta, block_transposed, out=below)
            below.mul_(torch.sign(activations, out=mask))
        torch.mm(*self._last_product, out=self.by_action)


class FastDeterministic:
    """What an update does with the networks, in place on the memory of the torch parameters.

    Args:
        policy: Parameters of pi: weight, bias of each Linear layer; a tanh follows the last one.
        critics: Parameters of each of the K critics: weight, bias of each layer.
        target_policy: Parameters of pi', like `policy`.
        target_critics: Parameters of Q', like `critics`.
        settings: The hyperparameters.
    """

    def __init__(
        self,
        policy: Sequence[nn.Parameter],
        critics: Sequence[Sequence[nn.Parameter]],
        target_policy: Sequence[nn.Parameter],
        target_critics: Sequence[Sequence[nn.Parameter]],
        settings: DeterministicSettings,
    ):
        self.settings = settings
        self.policy, self.critics = FlatNetworks([policy]), FlatNetworks(critics)
        self._sources = [self.policy.values, self.critics.values]
        targets = FlatNetworks([target_policy]), FlatNetworks(target_critics)
        self._targets = [networks.values for networks in targets]
        rates, clip = settings.learning_rates, settings.grad_clip
        self.policy_optimizer = FlatAdam(self.policy, rates["pi"], 0.0, clip)
        decay = settings.critic_weight_decay
        self.critics_optimizer = FlatAdam(self.critics, rates["q"], decay, clip)
        self._make_passes(*targets)

    def _make_passes(self, target_policy: FlatNetworks, target_critics: FlatNetworks) -> None:
        rows, dtype = self.settings.batch_size, self.policy.values.dtype
        num_inputs, num_actions = self.policy.shapes[0][0] - 1, self.policy.shapes[-1][1]
        self.rewards, self.discounts = torch.zeros(2, rows, dtype=dtype)
        states, next_states = (with_ones(rows, num_inputs, dtype) for _ in range(2))
        observations = {"obs": [states], "new_obs": [next_states]}
        layer = self.settings.action_layer

        def critic_inputs(name: str) -> torch.Tensor:
            """The states alone or, if the action enters here, with room for it."""
            if layer == 0:
                inputs = with_ones(rows, num_inputs + num_actions, dtype)
                observations[name].append(inputs)
            return observations[name][-1]

        def action_columns(network_pass: MLPPass) -> torch.Tensor:
            """Where all networks of a pass, [..., N, d], look for the action."""
            joined = network_pass.inputs[0] if layer == 0 else network_pass.hidden[layer - 1]
            return joined[..., -1 - num_actions : -1]

        def blocks(networks: FlatNetworks, values: torch.Tensor) -> list[list[torch.Tensor]]:
            return [networks.blocks(row) for row in values]

        count = len(self.critics.values)
        self._target_policy = MLPPass(blocks(target_policy, target_policy.values), [next_states])
        self._target_critics = MLPPass(
            blocks(target_critics, target_critics.values), [critic_inputs("new_obs")] * count
        )
        self._target_action_columns = action_columns(self._target_critics)
        self._target_values = [output[:, 0] for output in self._target_critics.outputs]

        of_critics = blocks(self.critics, self.critics.values)
        gradients = blocks(self.critics, self.critics_optimizer.gradient)
        self._critics = TrainablePass(of_critics, [critic_inputs("obs")] * count, gradients)
        self._taken_action_columns = action_columns(self._critics).numpy()
        self._values = [output[:, 0] for output in self._critics.outputs]

        of_policy = blocks(self.policy, self.policy.values)
        gradients = blocks(self.policy, self.policy_optimizer.gradient)
        self._policy = TrainablePass(of_policy, [states], gradients)
        self._judge = MLPPass(of_critics[:1], [critic_inputs("obs")])
        self._judged_action_columns = action_columns(self._judge)
        self._action_gradient = ActionGradient(self._judge, layer, num_actions)
        self._loads = {
            name: [inputs.numpy()[:, :num_inputs] for inputs in buffers]
            for name, buffers in observations.items()
        }

    def load(self, batch: Mapping[str, np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
        """Takes N transitions, on which all other methods work; returns rewards, discounts [N].

        Columns: "obs", "actions" (in the unit box), "rewards", "new_obs", "discount".
        """
        for name, (first, *others) in self._loads.items():
            load_observations(first, batch[name], self.settings.first_state)
            for inputs in others:
                inputs[...] = first
        self._taken_action_columns[...] = batch["actions"]
        self.rewards.numpy()[:] = batch["rewards"]
        self.discounts.numpy()[:] = batch["discount"]
        return self.rewards, self.discounts

    def target_action(self) -> torch.Tensor:
        """pi'(S') [N, d]."""
        self._target_policy.forward()
        return self._target_policy.outputs[0].tanh_()

    def target_values(self, action: torch.Tensor) -> list[torch.Tensor]:
        """Q'_k(S', action): [N, d] -> K times [N]."""
        self._target_action_columns.copy_(action)
        self._target_critics.forward()
        return self._target_values

    def learn_critics(self, target: torch.Tensor) -> list[torch.Tensor]:
        """Descends sum_k mean (Q_k(S, A) - target)^2; returns Q_k before it, K times [N]."""
        self._critics.forward()
        derivatives = self._critics.output_gradients
        for values, derivative in zip(self._values, derivatives, strict=True):
            torch.sub(values, target, out=derivative[:, 0])
        derivatives.mul_(2 / len(target))
        self._critics.backward()
        self.critics_optimizer.step()
        return self._values

    def learn_actor(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Ascends mean Q_1(S, pi(S)); returns pi(S) [N, d] and Q_1(S, pi(S)) [N] before it."""
        self._policy.forward()
        action = self._policy.outputs[0].tanh_()
        self._judged_action_columns.copy_(action)
        self._judge.forward()
        self._action_gradient.backward()
        # d tanh(x) / dx = 1 - tanh(x)^2.
        slope = 1 - action.square()
        torch.mul(self._action_gradient.by_action, slope, out=self._policy.output_gradients[0])
        self._policy.backward()
        self.policy_optimizer.step()
        return action, self._judge.outputs[0][:, 0]

    def update_targets(self) -> None:
        """theta' <- tau theta + (1 - tau) theta' for pi' and all Q'."""
        soft_update(self._targets, self._sources, self.settings.tau)
