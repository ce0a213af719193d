"""Geoff-PAC, ACE and Off-PAC once more, plainly: one lane, one sample, one formula at a time.

It shares nothing with the learner but the definition of the replay's random stream. It starts
from the fragments of the env runners, so what a termination, a time limit or the environment's
discount means is decided here again. Gradients are autograd's, everything else is written out.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from reference_parts import Network, Transition

from rllib_geoffpac.lanes.seeding import replay_generator


class ReferenceLearner:
    """The whole algorithm for a config; begins with the parameters of the learner's module."""

    def __init__(self, module, config):
        self.config, self.distribution = config, module.distribution
        start = getattr(module.pi[0], "start", None)
        std = [] if module.std_parameter is None else [module.std_parameter]
        rates = {
            "v": config.value_lr,
            "c": config.density_ratio_lr,
            "u": config.counterfactual_value_lr,
            "m": config.emphasis_lr,
            "h": config.correction_lr,
            "q": config.action_value_lr,
            "q_u": config.counterfactual_action_value_lr,
        }
        self.has_std = bool(std)
        theta = [*module.pi.parameters(), *std]
        self.pi = Network(theta, config.actor_lr or config.lr, config, start)
        q = config.critic == "action_value"
        used = {"v": not q, "q": q, "c": config.gamma_hat > 0, "q_u": q and config.gamma_hat > 0}
        used["u"] = not q and config.gamma_hat > 0 and config.view == "forward"
        used |= {"m": config.emphasis == "learned", "h": config.value_estimator == "tdrc"}
        self.critics = {
            name: Network(
                list(getattr(module, name).parameters()), rate or config.lr, config, start
            )
            for name, rate in rates.items()
            if used[name]
        }
        self.v, self.c = self.critics.get("v"), self.critics.get("c")
        self.sync_targets()
        self.averages, self.num_averaged = self.pi.copies(), 0
        self.eta = 0.0  # multiplier of the overlap target
        self.num_lanes = config.num_lanes
        self.size = sum(t.numel() for t in self.pi.tensors)
        self.previous = [None] * self.num_lanes  # per lane: what is left of transition t - 1
        self.ring, self.ring_next = [], 0
        self.latest = []  # the transitions of the lockstep before
        looks_back = config.trace_length if config.emphasis == "truncated" else 0
        if config.value_estimator == "vtrace":
            looks_back = max(looks_back, config.vtrace_length - 1)
        self.looks_back = looks_back
        self.rng = replay_generator(config.seed)
        self.time = 0
        self.weight = self.first = self.second = 0.0  # running moments of V
        self.gamma_hat = config.gamma_hat if config.gamma_hat > 0 else config.overlap_gamma_hat

    def sync_targets(self):
        self.targets = {name: network.copies() for name, network in self.followed().items()}

    def followed(self):
        """What has a target copy."""
        return self.critics

    def average(self):
        """Of all of theta's iterates, the n-th weighted about as n^(p-1)."""
        power = self.config.policy_average
        if power is not None:
            share = power / (self.num_averaged + power)
            for mean, tensor in zip(self.averages, self.pi.tensors, strict=True):
                mean *= 1 - share
                mean += share * tensor.detach()
            self.num_averaged += 1

    def move_targets(self):
        """After an update: a copy now and then, or a part of the way each time."""
        if self.config.tau is None:
            if self.count % self.config.target_update_freq == 0:
                self.sync_targets()
            return
        for name, network in self.followed().items():
            for copied, tensor in zip(self.targets[name], network.tensors, strict=True):
                copied += self.config.tau * (tensor.detach() - copied)

    # pi ------------------------------------------------------------------------------------

    def log_pi(self, transitions):
        """[N]"""
        tensors = self.pi.tensors[:-1] if self.has_std else self.pi.tensors
        outputs = self.pi([t.state for t in transitions], tensors)
        space = self.distribution.action_space
        if self.config.policy_distribution == "beta":
            return self.log_beta(outputs, transitions)
        if not self.has_std:
            actions = [int(t.action) - int(space.start) for t in transitions]
            exponentials = torch.exp(outputs - outputs.max())
            chosen = torch.stack([exponentials[row, a] for row, a in enumerate(actions)])
            return torch.log(chosen / exponentials.sum(dim=1))
        truncated = self.config.policy_distribution == "truncated_gaussian"
        actions = np.array([t.action for t in transitions], np.float64)
        actions = torch.from_numpy(actions.reshape(len(transitions), -1))
        low, high = space.low.reshape(-1), space.high.reshape(-1)
        total = 0.0
        for d in range(actions.shape[1]):
            half = (float(high[d]) - float(low[d])) / 2
            unit = (actions[:, d] - (float(high[d]) + float(low[d])) / 2) / half
            mean = torch.tanh(outputs[:, d])
            std = torch.log1p(torch.exp(self.pi.tensors[-1][d])) + (1e-3 if truncated else 0.0)
            density = torch.exp(-(((unit - mean) / std) ** 2) / 2) / (std * math.sqrt(2 * math.pi))
            if truncated:
                mass = torch.special.ndtr((1 - mean) / std) - torch.special.ndtr((-1 - mean) / std)
                density = density / mass
            total = total + torch.log(density / half)
        return total

    def log_beta(self, outputs, transitions):
        """The Beta density on the box, one dimension after the other."""
        low, high = (np.reshape(b, -1) for b in (self.distribution.action_space.low,
                                                 self.distribution.action_space.high))  # fmt: skip
        total, count = 0.0, len(low)
        for d in range(count):
            width = float(high[d]) - float(low[d])
            taken = [(float(np.reshape(t.action, -1)[d]) - float(low[d])) / width
                     for t in transitions]  # fmt: skip
            x = torch.tensor(taken, dtype=torch.float64)
            alpha = 1 + torch.log1p(torch.exp(outputs[:, d]))
            beta = 1 + torch.log1p(torch.exp(outputs[:, count + d]))
            constant = torch.lgamma(alpha + beta) - torch.lgamma(alpha) - torch.lgamma(beta)
            total = total + constant + (alpha - 1) * x.log() + (beta - 1) * (1 - x).log()
            total = total - math.log(width)
        return total

    def rho(self, transitions):
        """rho_t, clipped."""
        with torch.no_grad():
            log_pi = self.log_pi(transitions).tolist()
        ratios = [math.exp(p - t.behavior_logp) for p, t in zip(log_pi, transitions, strict=True)]
        return [min(ratio, self.config.rho_clip) for ratio in ratios]

    def scores(self, transitions):
        """grad log pi(A|S) of each transition, one backward pass after the other."""
        scores = []
        for log_pi in self.log_pi(transitions):
            gradients = torch.autograd.grad(log_pi, self.pi.tensors, retain_graph=True)
            scores.append(torch.cat([g.reshape(-1) for g in gradients]))
        return scores

    # V and C -------------------------------------------------------------------------------

    def values(self, transitions):
        return self.v([t.state for t in transitions])[:, 0]

    def density_ratios(self, states, tensors=None):
        return self.positive("c", states, tensors)

    def deltas(self, transitions):
        with torch.no_grad():
            following = self.v([t.value_successor for t in transitions], self.targets["v"])[:, 0]
        targets = [
            t.reward + t.discount * v for t, v in zip(transitions, following.tolist(), strict=True)
        ]
        return torch.tensor(targets, dtype=torch.float64) - self.values(transitions)

    def learn_critics(self, batch):
        if self.config.value_estimator == "tdrc":
            self.learn_by_tdrc(batch)
        elif self.config.value_estimator == "vtrace":
            self.learn_by_vtrace(batch)
        else:
            weights = torch.tensor(self.value_weights(batch), dtype=torch.float64)
            loss = (weights * self.deltas(batch) ** 2).sum() / 2 / len(batch)
            self.v.descend(torch.autograd.grad(loss, self.v.tensors))
        if self.c is not None:
            self.c.descend(self.density_ratio_gradients(batch))
        if "u" in self.critics:
            self.critics["u"].descend(self.counterfactual_gradients(batch))
        if "m" in self.critics:
            self.critics["m"].descend(self.emphasis_gradients(batch))

    def value_weights(self, batch):
        """The weight of every transition in the loss of V."""
        config, weights = self.config, self.rho(batch)
        if config.value_estimator == "cop_td":
            ratios = self.clipped_ratios(batch)
            weights = [w * ratio for w, ratio in zip(weights, ratios, strict=True)]
        if config.value_estimator == "etd":
            ratios, f1 = self.clipped_ratios(batch), self.emphases(batch)
            for k, transition in enumerate(batch):
                i_c = self.interest(transition.state) * ratios[k]
                weights[k] *= (1 - config.lambda_1) * i_c + config.lambda_1 * f1[k]
        return weights

    def learn_by_tdrc(self, batch):
        h, rhos = self.critics["h"], self.rho(batch)

        def errors():
            values, following = self.values(batch), self.v([t.value_successor for t in batch])[:, 0]
            here, there = values.tolist(), following.tolist()
            return (
                values,
                following,
                [t.reward + t.discount * there[k] - here[k] for k, t in enumerate(batch)],
            )

        values, following, deltas = errors()
        corrections, ascended = h([t.state for t in batch])[:, 0].tolist(), 0.0
        for k, transition in enumerate(batch):
            back = transition.discount * corrections[k] * following[k]
            ascended = ascended + rhos[k] * (deltas[k] * values[k] - back)
        self.v.descend(torch.autograd.grad(-ascended / len(batch), self.v.tensors))
        deltas, loss = errors()[2], 0.0
        for k, said in enumerate(h([t.state for t in batch])[:, 0]):
            loss = loss + (rhos[k] * deltas[k] - said) ** 2 / 2 / len(batch)
        gradients = torch.autograd.grad(loss, h.tensors)
        h.descend(gradients, decay=self.config.tdrc_regularization)

    def learn_by_vtrace(self, batch):
        """V at the first of the n transitions that end with each of the batch."""
        ascended, count = 0.0, 0
        for transition in batch:
            window = [transition]
            while len(window) < self.config.vtrace_length and window[0].previous is not None:
                window.insert(0, window[0].previous)
            if len(window) < self.config.vtrace_length:
                continue
            deltas, error, reach = self.deltas(window).tolist(), 0.0, 1.0
            with torch.no_grad():
                log_pi = self.log_pi(window).tolist()
            for k, step in enumerate(window):
                if k > 0 and not step.connected:
                    break
                rho = min(1.0, math.exp(log_pi[k] - step.behavior_logp))
                error += reach * rho * deltas[k]
                reach *= step.discount * rho
            ascended = ascended + error * self.values(window[:1])[0]
            count += 1
        gradients = [torch.zeros_like(t) for t in self.v.tensors]
        if count:
            gradients = torch.autograd.grad(-ascended / count, self.v.tensors)
        self.v.descend(gradients)

    def remembered(self, transition):
        """Up to n transitions that lead to this one, the latest first."""
        found = []
        while transition.connected and len(found) < self.config.trace_length:
            transition = transition.previous
            found.append(transition)
        return found

    def truncated_followon(self, transition):
        """F1 from the n transitions before, by its sum."""
        f1 = self.interest(transition.state) * self.clipped_ratios([transition])[0]
        product = 1.0
        for before in self.remembered(transition):
            product *= before.discount * self.rho([before])[0]
            f1 += product * self.interest(before.state) * self.clipped_ratios([before])[0]
        return f1

    def truncated_m2(self, transition):
        """M2 from the n transitions before, by the sum of F2; a vector of the size of theta."""
        config, m2 = self.config, torch.zeros(self.size, dtype=torch.float64)
        product = 1.0
        for k, before in enumerate(self.remembered(transition)):
            product *= self.rho([before])[0]
            share = 1.0 if k == 0 else config.lambda_2
            m2 += share * product * self.clipped_ratios([before])[0] * self.scores([before])[0]
            product *= config.gamma_hat
        return m2

    def emphases(self, batch):
        """What stands for F1 where there is no trace."""
        if self.config.emphasis == "truncated":
            return [self.truncated_followon(transition) for transition in batch]
        if "m" in self.critics:
            return self.positive("m", [t.state for t in batch]).tolist()
        ratios = self.clipped_ratios(batch)
        return [self.interest(t.state) * r for t, r in zip(batch, ratios, strict=True)]

    def emphasis_gradients(self, batch):
        """Of M, which learns at the state that the lane really goes to."""
        m, successors = self.critics["m"], [t.chain_successor for t in batch]
        there = self.positive("m", successors)
        with torch.no_grad():
            before = self.positive("m", [t.state for t in batch], self.targets["m"]).tolist()
        ratios, rhos, loss = self.clipped_ratios_at(successors), self.rho(batch), 0.0
        for k, transition in enumerate(batch):
            target = self.interest(successors[k]) * ratios[k]
            if not transition.cut:
                target += transition.discount * rhos[k] * before[k]
            loss = loss + (target - there[k]) ** 2 / 2 / len(batch)
        return torch.autograd.grad(loss, m.tensors)

    def positive(self, name, states, tensors=None):
        """A critic whose outputs pass through a softplus."""
        return torch.log1p(torch.exp(self.critics[name](states, tensors)[:, 0]))

    def counterfactual_gradients(self, batch):
        """Of U, from the transitions that lead somewhere in the chain."""
        u, chain = self.critics["u"], [t for t in batch if not t.cut]
        if not chain:
            return [torch.zeros_like(t) for t in u.tensors]
        here = u([t.state for t in chain])[:, 0]
        with torch.no_grad():
            there = u([t.chain_successor for t in chain], self.targets["u"])[:, 0].tolist()
        values, loss = self.values(chain).tolist(), 0.0
        for k, (transition, rho) in enumerate(zip(chain, self.rho(chain), strict=True)):
            reward = self.interest(transition.state) * values[k]
            error = reward + self.config.gamma_hat * there[k] - here[k]
            loss = loss + rho * error**2 / 2 / len(chain)
        return torch.autograd.grad(loss, u.tensors)

    def density_ratio_gradients(self, batch):
        gamma_hat, chain = self.config.gamma_hat, [t for t in batch if not t.cut]
        if not chain:
            return [torch.zeros_like(t) for t in self.c.tensors]
        ratios = self.density_ratios([t.chain_successor for t in chain])
        with torch.no_grad():
            before = self.density_ratios([t.state for t in chain], self.targets["c"])
        pairs = zip(self.rho(chain), before.tolist(), strict=True)
        targets = [gamma_hat * rho * ratio + (1 - gamma_hat) for rho, ratio in pairs]
        loss = ((torch.tensor(targets, dtype=torch.float64) - ratios) ** 2).sum() / 2 / len(chain)
        if len(chain) >= 2:
            numbers, pulls = ratios.tolist(), []
            for i in range(len(chain)):
                others = [number for j, number in enumerate(numbers) if j != i]
                pulls.append(sum(others) / len(others) - 1)
            normalization = (torch.tensor(pulls, dtype=torch.float64) * ratios).sum() / len(chain)
            loss = loss + self.config.sn_loss_coeff * normalization
        return torch.autograd.grad(loss, self.c.tensors)

    # Traces and actor ----------------------------------------------------------------------

    def interest(self, state):
        if self.config.interest_fn is None:
            return 1.0
        state = np.asarray(state)
        if state.dtype.kind == "f":
            state = state.astype(np.float64)
        return float(np.reshape(self.config.interest_fn(state[None]), -1)[0])

    def ascent_direction(self, transitions, replayed):
        """What the actor ascends, advancing F1 and F2."""
        config, actor_rows = self.config, self.config.actor_replay_batch_size
        batch = [t for row in [transitions, *replayed[:actor_rows]] for t in row]
        if config.view == "forward" or config.emphasis == "truncated" or actor_rows:
            baseline = self.moments()[0] if config.value_baseline == "ema" else 0.0
            terms = self.forward_terms(batch)
            score_weights = [(z1 + z2, score) for z1, z2, score in terms]
            directions = [weight * score for weight, score in score_weights]
            own = [weight for weight, _ in score_weights]
            if config.view == "backward" and config.gamma_hat > 0:
                for k, (t, value) in enumerate(
                    zip(batch, self.values(batch).tolist(), strict=True)
                ):
                    worth = config.gamma_hat * self.interest(t.state) * (value - baseline)
                    directions[k] = directions[k] + worth * self.truncated_m2(t)
        else:
            directions, own = self.backward_terms(transitions)
        if config.overlap_target is not None:
            directions = self.held_to_the_data(batch, directions, own)
        return sum(directions) / len(directions)

    def held_to_the_data(self, batch, directions, own):
        """The directions with the overlap's force, and one step of eta."""
        rhos, scores = self.rho(batch), self.scores(batch)
        mean = sum(own) / len(own)
        deviation = math.sqrt(sum((w - mean) ** 2 for w in own) / len(own))
        size = math.sqrt(sum(rho * rho for rho in rhos) / len(rhos))
        pulled = [
            z + self.eta * deviation / size * rho * score
            for z, rho, score in zip(directions, rhos, scores, strict=True)
        ]
        overlap = sum(rhos) / len(rhos)
        self.eta = min(10.0, max(0.0, self.eta + 0.01 * (self.config.overlap_target - overlap)))
        return pulled

    def forward_terms(self, batch):
        """The factors of the score in Z1 and Z2, and the score; the current lanes come first."""
        config = self.config
        rhos, scores = self.rho(batch), self.scores(batch)
        values, deltas = self.values(batch).tolist(), self.deltas(batch).tolist()
        ratios, emphases = self.clipped_ratios(batch), self.emphases(batch)
        successors = [t.chain_successor for t in batch]
        forward = config.gamma_hat > 0 and config.view == "forward"
        if forward:
            u = self.critics["u"]
            here = u([t.state for t in batch])[:, 0].tolist()
            there = u(successors, self.targets["u"])[:, 0].tolist()
            next_values = self.v(successors, self.targets["v"])[:, 0].tolist()
        terms = []
        for k, transition in enumerate(batch):
            interest = self.interest(transition.state)
            emphasis = emphases[k]
            if k < self.num_lanes and config.emphasis == "followon":
                emphasis = self.followon(k, transition, rhos[k], ratios[k], interest)
            m1 = (1 - config.lambda_1) * interest * ratios[k] + config.lambda_1 * emphasis
            second = 0.0
            if forward and not transition.cut:
                mixed = config.lambda_2 * there[k]
                following = self.interest(transition.chain_successor)
                mixed += (1 - config.lambda_2) * following * next_values[k]
                error = interest * values[k] + config.gamma_hat * mixed - here[k]
                second = ratios[k] * rhos[k] * error
            terms.append((rhos[k] * m1 * deltas[k], second, scores[k]))
        self.update_moments(values[: self.num_lanes])
        return terms

    def followon(self, lane, transition, rho, ratio, interest):
        """F1 of a lane, which advances it."""
        before = None if transition.starts_chain else self.previous[lane]
        f1 = interest * ratio
        if before is not None:
            f1 += before["discount"] * before["rho"] * before["f1"]
        left = {"f1": f1, "rho": rho, "discount": transition.discount}
        self.previous[lane] = None if transition.cut else left
        return f1

    def clipped_ratios(self, batch):
        return self.clipped_ratios_at([t.state for t in batch])

    def clipped_ratios_at(self, states):
        if self.c is None:
            return [1.0] * len(states)
        ratios = self.density_ratios(states).tolist()
        return [min(ratio, self.config.density_ratio_clip) for ratio in ratios]

    def backward_terms(self, transitions):
        """Z1 + Z2 of every lane, advancing F1 and F2, and the factors of the score in Z1."""
        config = self.config
        second_trace = config.gamma_hat > 0 or config.overlap_coeff > 0
        b, std = self.moments()
        rhos, scores = self.rho(transitions), self.scores(transitions)
        values, deltas = self.values(transitions).tolist(), self.deltas(transitions).tolist()
        ratios = self.clipped_ratios(transitions)
        directions, factors = [], []
        for lane, transition in enumerate(transitions):
            if transition.starts_chain:
                self.previous[lane] = None
            before = self.previous[lane]
            rho, score = rhos[lane], scores[lane]
            interest = self.interest(transition.state)
            ratio = ratios[lane]
            f1 = interest * ratio
            if before is not None:
                f1 += before["discount"] * before["rho"] * before["f1"]
            stands_for_f1 = self.emphases([transition])[0] if "m" in self.critics else f1
            m1 = (1 - config.lambda_1) * interest * ratio + config.lambda_1 * stands_for_f1
            z = rho * m1 * deltas[lane] * score
            f2 = intrinsic = torch.zeros(self.size, dtype=torch.float64)
            if second_trace:
                if before is not None:
                    intrinsic = before["ratio"] * before["rho"] * before["score"]
                    f2 = self.gamma_hat * before["rho"] * before["f2"] + intrinsic
                m2 = (1 - config.lambda_2) * intrinsic + config.lambda_2 * f2
                worth = config.overlap_coeff * std
                if config.gamma_hat > 0:
                    worth += values[lane]
                    worth -= b if config.value_baseline == "ema" else 0.0
                z = z + self.gamma_hat * interest * worth * m2
            directions.append(z)
            factors.append(rho * m1 * deltas[lane])
            self.previous[lane] = None
            if not transition.cut:
                left = {"f1": f1, "f2": f2, "rho": rho, "ratio": ratio, "score": score}
                self.previous[lane] = left | {"discount": transition.discount}
        self.update_moments(values)
        return directions, factors

    def traces(self):
        """F1 [L] and F2 [L, P] as the next transition finds them: 0 for a lane that was cut."""
        nothing = {"f1": 0.0, "f2": torch.zeros(self.size, dtype=torch.float64)}
        left = [nothing | (before or {}) for before in self.previous]
        f1 = np.array([before["f1"] for before in left])
        return f1, torch.stack([before["f2"] for before in left]).numpy()

    def moments(self):
        if self.weight == 0:
            return 0.0, 0.0
        mean = self.first / self.weight
        return mean, math.sqrt(max(0.0, self.second / self.weight - mean**2))

    def update_moments(self, values):
        decay = self.config.baseline_decay
        self.weight = decay * self.weight + (1 - decay)
        self.first = decay * self.first + (1 - decay) * sum(values) / len(values)
        squares = sum(v * v for v in values) / len(values)
        self.second = decay * self.second + (1 - decay) * squares

    # One lockstep --------------------------------------------------------------------------

    def learn(self, fragment):
        """All locksteps of one fragment that holds all lanes."""
        for t in range(fragment.num_locksteps):
            lanes = range(self.num_lanes)
            transitions = [Transition(fragment, t, lane, self.config) for lane in lanes]
            for lane, before in enumerate(self.latest):
                transitions[lane].previous = before
            self.lockstep(transitions)
            self.latest = transitions

    def lockstep(self, transitions):
        config = self.config
        learn = self.time >= config.learning_starts
        rows = []
        if learn and config.replay_batch_size and self.ring:
            count = config.updates_per_lockstep * config.replay_batch_size
            rows = self.drawn(count)
        updates = config.updates_per_lockstep if learn else 1
        before = list(self.previous), (self.weight, self.first, self.second)
        for k in range(updates):
            self.previous, (self.weight, self.first, self.second) = list(before[0]), before[1]
            replayed = rows[k * config.replay_batch_size :][: config.replay_batch_size]
            self.count = self.time * updates + k + 1
            self.update(transitions, replayed, learn)
            if learn:
                self.move_targets()
                self.average()
        capacity = config.replay_capacity // self.num_lanes
        if len(self.ring) < capacity:
            self.ring.append(transitions)
        else:
            self.ring[self.ring_next % capacity] = transitions
        self.ring_next += 1
        self.time += 1

    def drawn(self, count):
        """Replayed locksteps; with a look back only those that have enough before them."""
        size = len(self.ring)
        if not self.looks_back:
            return [self.ring[row] for row in self.rng.integers(size, size=count)]
        oldest = self.ring_next if self.ring_next > size else 0
        places = self.rng.integers(min(self.looks_back, size - 1), size, size=count)
        return [self.ring[(oldest + place) % size] for place in places]

    def update(self, transitions, replayed, learn):
        if replayed:
            self.learn_critics([transition for row in replayed for transition in row])
        if not learn:
            eta = self.eta
            self.ascent_direction(transitions, [])
            self.eta = eta
            return
        self.learn_critics(transitions)
        mean = self.ascent_direction(transitions, replayed)
        gradients, offset = [], 0
        for tensor in self.pi.tensors:
            gradients.append(-mean[offset : offset + tensor.numel()].reshape(tensor.shape))
            offset += tensor.numel()
        self.pi.descend(gradients)
