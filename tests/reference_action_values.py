"""The update with action values once more, plainly, as `reference_learner` does with V.

It shares nothing with the learner but the definition of the random streams.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from reference_learner import ReferenceLearner

from rllib_geoffpac.lanes.seeding import action_noise


class ActionValueReference(ReferenceLearner):
    """The whole algorithm for a config with critic="action_value"."""

    def __init__(self, module, config):
        super().__init__(module, config)
        self.rewards, self.discounts, self.clipped, self.penalized = [], [], 0, 0

    def lockstep(self, transitions):
        self.rewards += [t.reward for t in transitions]
        self.discounts += [t.discount for t in transitions]
        super().lockstep(transitions)

    def within(self, number):
        """A value where it could be a return: from the worst rewards for ever to the best."""
        if not self.config.clip_action_values:
            return number
        worst, best, gamma = min(self.rewards), max(self.rewards), max(self.discounts)
        low = worst / (1 - gamma) if worst < 0 else worst
        high = best / (1 - gamma) if best > 0 else best
        self.clipped += not low <= number <= high
        return min(max(number, low), high)

    def ascended(self, said):
        return said[0] if self.config.actor_ascends == "first" else torch.minimum(*said)

    def followed(self):
        return {**self.critics, "pi": self.pi}

    # Actions -------------------------------------------------------------------------------

    @property
    def discrete(self):
        return isinstance(self.distribution.action_space, gym.spaces.Discrete)

    def noise(self, num_replayed, num_actor_replayed):
        """Numbers for this update: of all next states, then of the actor's states."""
        if self.discrete:
            return None, None
        config, lanes = self.config, self.num_lanes
        updates = config.updates_per_lockstep if self.time >= config.learning_starts else 1
        all_rows, actor_rows = lanes * (1 + num_replayed), lanes * (1 + num_actor_replayed)
        size = int(np.prod(self.distribution.action_space.shape))
        total = (all_rows + actor_rows) * size
        numbers = action_noise(config.seed, self.time, 1, updates * total)[0].astype(np.float64)
        turn = self.count - self.time * updates - 1
        own = torch.from_numpy(numbers[turn * total :][:total].reshape(-1, size))
        return own[:all_rows], own[all_rows:]

    def draw(self, states, noise, tensors):
        """a in the unit box by its quantile [N, d], or the probabilities of all actions [N, n]."""
        theta, std = (tensors[:-1], tensors[-1]) if self.has_std else (tensors, None)
        outputs = self.pi(states, theta)
        if self.discrete:
            exponentials = torch.exp(outputs)
            return exponentials / exponentials.sum(dim=1, keepdim=True)
        mean, ndtr = torch.tanh(outputs), torch.special.ndtr
        if self.config.policy_distribution == "gaussian":
            actions = mean + torch.log(1 + torch.exp(std)) * torch.special.ndtri(noise)
            return torch.clamp(actions, -1, 1)
        std = torch.log(1 + torch.exp(std)) + 1e-3
        below, above = ndtr((-1 - mean) / std), ndtr((1 - mean) / std)
        return mean + std * torch.special.ndtri(below + noise * (above - below))

    def taken(self, transitions):
        """A_t, likewise."""
        space = self.distribution.action_space
        rows = []
        for transition in transitions:
            if self.discrete:
                row = [0.0] * int(space.n)
                row[int(transition.action) - int(space.start)] = 1.0
            else:
                low, high = (np.reshape(b, -1).astype(float) for b in (space.low, space.high))
                row = 2 * (np.reshape(transition.action, -1) - low) / (high - low) - 1
            rows.append(row)
        return torch.tensor(np.array(rows), dtype=torch.float64)

    def twins(self, name, states, actions, tensors=None):
        """What the two critics say: [2, N]."""
        network = self.critics[name]
        tensors = network.tensors if tensors is None else tensors
        half, said = len(tensors) // 2, []
        for own in (tensors[:half], tensors[half:]):
            if self.discrete:
                said.append((network(states, own) * actions).sum(dim=1))
            else:
                said.append(network(states, own, actions)[:, 0])
        return torch.stack(said)

    # Critics -------------------------------------------------------------------------------

    def learn_action_values(self, batch, noise):
        config, states = self.config, [t.state for t in batch]
        actions = self.taken(batch)
        with torch.no_grad():
            # The two kinds of successors differ after a cut only, where Q_u learns nothing.
            after = [t.value_successor for t in batch]
            drawn = self.draw(after, noise, self.targets["pi"])
            lowest = self.twins("q", after, drawn, self.targets["q"]).min(dim=0).values
        pairs = list(zip(batch, lowest.tolist(), strict=True))
        q_target = [self.within(t.reward + t.discount * v) for t, v in pairs]
        if "q_u" in self.critics:
            chain = [k for k, t in enumerate(batch) if not t.cut]
            with torch.no_grad():
                later = self.twins("q_u", after, drawn, self.targets["q_u"]).min(dim=0).values
            q_u_target = []
            for k in chain:
                interest = self.interest(batch[k].chain_successor)
                worth = interest * self.within(float(lowest[k])) + float(later[k])
                q_u_target.append(config.gamma_hat * worth)
        own = None
        if config.conservatism:
            own = self.draw(states, noise, [t.detach() for t in self.pi.tensors])
        ends = [abs(v) for t, v in pairs if t.discount == 0]
        self.penalized += bool(own is not None and ends)
        said = self.twins("q", states, actions)
        self.descend("q", said, q_target, states, own, sum(ends) / len(batch))
        if "q_u" in self.critics:
            said = self.twins("q_u", states, actions)[:, chain]
            self.descend("q_u", said, q_u_target)
            self.c.descend(self.density_ratio_gradients(batch))
        if "m" in self.critics:
            self.critics["m"].descend(self.emphasis_gradients(batch))

    def descend(self, name, said, target, states=None, own=None, cost=0.0):
        network, count = self.critics[name], max(1, len(target))
        errors = said - torch.tensor(target, dtype=torch.float64)
        loss = (errors**2).sum() / count
        if own is not None:
            gap = (self.twins(name, states, own) - said).sum() / count
            loss += 2 * self.config.conservatism * cost * gap
        network.descend(torch.autograd.grad(loss, network.tensors))

    # Actor ---------------------------------------------------------------------------------

    def update(self, transitions, replayed, learn):
        count = self.config.actor_replay_batch_size if replayed else 0
        all_noise, actor_noise = self.noise(len(replayed), count)
        if learn:
            batch = [t for row in [transitions, *replayed] for t in row]
            self.learn_action_values(batch, all_noise)
        rows = [t for row in [transitions, *(replayed[:count] if learn else [])] for t in row]
        rhos, ratios = self.rho(rows), self.clipped_ratios(rows)
        weights = []
        for k, transition in enumerate(rows):
            interest = self.interest(transition.state)
            f1 = interest * ratios[k]
            if self.config.emphasis != "followon":
                f1 = self.emphases([transition])[0]
            elif k < self.num_lanes:
                f1 = self.followon(k, transition, rhos[k], ratios[k], interest)
            mixed = (1 - self.config.lambda_1) * interest * ratios[k] + self.config.lambda_1 * f1
            weights.append(mixed)
        if learn and self.count % self.config.policy_delay == 0:
            self.learn_actor(rows, actor_noise, weights, ratios, rhos)

    def learn_actor(self, rows, noise, weights, ratios, rhos):
        states = [t.state for t in rows]
        actions = self.draw(states, noise, self.pi.tensors)
        worth = torch.tensor(weights, dtype=torch.float64) * self.ascended(
            self.twins("q", states, actions)
        )
        if "q_u" in self.critics:
            ratio = torch.tensor(ratios, dtype=torch.float64)
            worth = worth + ratio * self.ascended(self.twins("q_u", states, actions))
        numbers = worth.tolist()
        mean = sum(numbers) / len(numbers)
        scale = sum(abs(number - mean) for number in numbers) / len(numbers)
        objective = worth.sum() / len(rows) / scale
        if self.config.overlap_target is not None:
            log_pi = self.log_pi(rows)
            for rho, logp in zip(rhos, log_pi, strict=True):
                objective = objective + self.eta * rho * logp / len(rows)
            missing = self.config.overlap_target - sum(rhos) / len(rhos)
            self.eta = min(10.0, max(0.0, self.eta + 0.01 * missing))
        self.pi.descend(torch.autograd.grad(-objective, self.pi.tensors))
