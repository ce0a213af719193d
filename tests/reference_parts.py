"""What the plain implementation is made of: a network with its optimizer, and a transition."""

from __future__ import annotations

import math

import numpy as np
import torch


class Network:
    """Parameters of an MLP (weight, bias, weight, bias ...), with its own optimizer."""

    def __init__(self, tensors, lr, config, first_state=None):
        self.tensors = [t.detach().clone().requires_grad_() for t in tensors]
        self.squares = [torch.zeros_like(t) for t in tensors]
        self.means, self.steps = [torch.zeros_like(t) for t in tensors], 0
        self.lr, self.config, self.first_state = lr, config, first_state
        self.tanh = config.model_config.get("fcnet_activation") == "tanh"

    def __call__(self, states, tensors=None, actions=None):
        """Outputs [N, k] for N states, vectors or the numbers of discrete states.

        With `actions` [N, d] for what sees them beside the state.
        """
        tensors = self.tensors if tensors is None else tensors
        if self.first_state is None:
            x = torch.tensor(np.array(states), dtype=torch.float64)
        else:
            x = torch.zeros(len(states), tensors[0].shape[1], dtype=torch.float64)
            for row, state in enumerate(states):
                x[row, int(state) - self.first_state] = 1.0
        if actions is not None:
            x = torch.cat([x, actions], dim=1)
        last = len(tensors) // 2 - 1
        for layer in range(last + 1):
            weight, bias = tensors[2 * layer], tensors[2 * layer + 1]
            x = x @ weight.T + bias
            if layer < last and self.tanh:
                x = (torch.exp(2 * x) - 1) / (torch.exp(2 * x) + 1)
            elif layer < last:
                x = torch.where(x > 0, x, torch.zeros_like(x))
        return x

    def copies(self):
        return [t.detach().clone() for t in self.tensors]

    def descend(self, gradients, decay=0.0):
        """Clips the whole gradient by its norm and takes one step down."""
        norm = math.sqrt(sum(float((g * g).sum()) for g in gradients))
        clip = self.config.grad_clip
        # torch's rule: the small number keeps the division safe.
        scale = 1.0 if clip is None else min(1.0, clip / (norm + 1e-6))
        self.steps += 1
        moments = zip(self.squares, self.means, strict=True)
        for tensor, (square, mean), gradient in zip(self.tensors, moments, gradients, strict=True):
            step = scale * gradient + decay * tensor.detach()
            if self.config.optimizer_type == "adam":
                mean.copy_(0.9 * mean + 0.1 * step)
                square.copy_(0.999 * square + 0.001 * step * step)
                unbiased = (square / (1 - 0.999**self.steps)).sqrt()
                step = mean / (1 - 0.9**self.steps) / (unbiased + 1e-8)
            if self.config.optimizer_type == "rmsprop":
                square.copy_(0.99 * square + 0.01 * step * step)
                step = step / (square.sqrt() + 1e-8)
            with torch.no_grad():
                tensor.sub_(self.lr * step)


class Transition:
    """One transition of one lane, with everything that a hyperparameter decides about it."""

    def __init__(self, fragment, t, lane, config):
        self.state = fragment.observations[t, lane]
        self.action = fragment.actions[t, lane]
        self.reward = float(fragment.rewards[t, lane])
        self.behavior_logp = float(fragment.behavior_logp[t, lane])
        self.starts_chain = bool(fragment.chain_start[t, lane])
        self.chain_successor = fragment.observations[t + 1, lane]
        self.value_successor = self.chain_successor
        supplied = float(fragment.discounts[t, lane])
        self.discount = float(np.float32(config.gamma)) if math.isnan(supplied) else supplied
        self.cut = False
        self.previous = None  # the lane's transition before this one
        if fragment.terminated[t, lane]:
            self.discount = 0.0
        elif fragment.truncated[t, lane]:
            if config.truncation == "terminate":
                self.discount = 0.0
            else:
                self.cut = True
                index = [tuple(pair) for pair in fragment.final_index.tolist()].index((t, lane))
                self.value_successor = fragment.final_observations[index]

    @property
    def connected(self):
        """Whether the transition before leads to this one's state."""
        return self.previous is not None and not (self.starts_chain or self.previous.cut)
