"""Plain loops to measure the algorithm against: no Ray, no RLlib around them.

`BareSampling` only steps environments, `BareLoop` steps them and learns, `TextbookLoop`
is Geoff-PAC as one would first write it in torch: one backward pass per lane, as the authors do.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F

from rllib_geoffpac import GeoffPACConfig
from rllib_geoffpac.envs.make_env import make_env
from rllib_geoffpac.lanes.replay_ring import ReplayRing
from rllib_geoffpac.lanes.seeding import behavior_stream
from rllib_geoffpac.learners.threads import use_one_thread
from rllib_geoffpac.modules.networks import make_mlp


class Lanes:
    """Environments that are stepped with uniform actions, all together."""

    def __init__(self, env: str, count: int):
        self.envs = [make_env(GeoffPACConfig().environment(env)) for _ in range(count)]
        self.episodes = [0] * count
        self.space: gym.spaces.Box = self.envs[0].action_space
        self.rng = np.random.default_rng(0)
        self.observations = np.stack([self.reset(lane) for lane in range(count)])
        self.log_density = -np.log(self.space.high - self.space.low).sum(dtype=np.float32)

    def reset(self, lane: int) -> np.ndarray:
        """Starts the lane's next episode, seeded as the algorithm's lanes are."""
        seed, _ = behavior_stream(0, lane, self.episodes[lane])
        self.episodes[lane] += 1
        return self.envs[lane].reset(seed=seed)[0].astype(np.float32)

    def draw(self, count: int) -> np.ndarray:
        """Draws `count` actions for every lane."""
        shape = (count, len(self.envs), *self.space.shape)
        return self.rng.uniform(self.space.low, self.space.high, shape).astype(np.float32)

    def step(self, actions: np.ndarray) -> dict[str, np.ndarray]:
        """One transition of every lane, as the kernel's columns."""
        count = len(self.envs)
        observations, rewards = self.observations, np.empty(count, np.float32)
        discount, following = np.full(count, 0.99, np.float32), np.empty_like(observations)
        for lane, env in enumerate(self.envs):
            observation, rewards[lane], terminated, truncated, _ = env.step(actions[lane])
            if terminated or truncated:
                discount[lane] = 0
                observation = self.reset(lane)
            following[lane] = observation
        self.observations = following
        return {
            "obs": observations,
            "actions": actions,
            "rewards": rewards,
            "new_obs": following,
            "action_logp": np.full(count, self.log_density),
            "discount": discount,
            "valid": np.ones(count, np.float32),
        }


class BareSampling(Lanes):
    """Steps one environment after the other, keeping nothing: the limit of any sampler."""

    def run(self, count: int) -> None:
        """Steps every lane `count` times."""
        actions = self.draw(count)
        for lane, env in enumerate(self.envs):
            step = env.step
            for action in actions[:, lane]:
                _, _, terminated, truncated, _ = step(action)
                if terminated or truncated:
                    self.reset(lane)


class BareLoop(Lanes):
    """Sampling, replay and the learner's update, and nothing else.

    Args:
        env: The environment's id.
        learner: A built EmphaticLearner, whose chunks go straight to its backend.
    """

    def __init__(self, env: str, learner: Any):
        super().__init__(env, learner.config.num_lanes)
        self.learner = learner

    def run(self, count: int) -> None:
        """Makes `count` locksteps."""
        learner, no_start = self.learner, np.zeros(len(self.envs), bool)
        for first in range(0, count, learner.chunk_size):
            actions = self.draw(min(learner.chunk_size, count - first))
            rows = [{**self.step(action), "chain_start": no_start} for action in actions]
            columns = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
            for chunk, learn in learner.chunks(columns):
                # Waits for the answer: one thing after the other, as in one process.
                learner.backend.run(chunk, learn).of_chunk()


class TextbookLoop(Lanes):
    """Geoff-PAC in plain torch: modules, optimizers, losses; a backward pass for each lane."""

    gamma_hat, lambda_1, lambda_2 = 0.2, 0.7, 0.6

    def __init__(self, env: str, count: int):
        super().__init__(env, count)
        use_one_thread()
        inputs, outputs = self.observations.shape[1], self.space.shape[0]
        sizes = {"pi": outputs, "v": 1, "c": 1, "v_target": 1, "c_target": 1}
        self.nets = {
            name: make_mlp(inputs, size, {"fcnet_hiddens": [64, 64]})
            for name, size in sizes.items()
        }
        self.std = torch.zeros(outputs, requires_grad=True)
        self.theta = [*self.nets["pi"].parameters(), self.std]
        self.parameters = {"pi": self.theta}
        self.parameters |= {name: list(self.nets[name].parameters()) for name in ("v", "c")}
        self.optimizers = {
            name: torch.optim.RMSprop(parameters, lr=1e-3)
            for name, parameters in self.parameters.items()
        }
        size = sum(parameter.numel() for parameter in self.theta)
        self.f1, self.rho, self.discount = torch.zeros(3, count)
        self.f2, self.intrinsic = torch.zeros(2, count, size)
        self.replay = ReplayRing(100_000)
        self.time = 0

    def value(self, name: str, states: torch.Tensor) -> torch.Tensor:
        """V or C (or their targets) of states [N, ...]: [N]."""
        output = self.nets[name](states)[:, 0]
        return F.softplus(output) if name.startswith("c") else output

    def log_prob(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """log pi(A|S): [N]."""
        mean = torch.tanh(self.nets["pi"](batch["obs"]))
        distribution = torch.distributions.Normal(mean, F.softplus(self.std))
        return distribution.log_prob(batch["actions"]).sum(-1)

    def clipped_rho(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """pi(A|S) / mu(A|S), at most 2: [N]."""
        with torch.no_grad():
            return torch.exp(self.log_prob(batch) - batch["action_logp"]).clip(max=2)

    def minimise(self, name: str) -> None:
        """Clips the gradients of one network and takes a step."""
        torch.nn.utils.clip_grad_norm_(self.parameters[name], 0.5)
        self.optimizers[name].step()

    def learn_critics(self, batch: dict[str, torch.Tensor]) -> None:
        """V by TD(0), C by its own TD rule with soft normalisation."""
        rho = self.clipped_rho(batch)
        with torch.no_grad():
            target = batch["rewards"] + batch["discount"] * self.value("v_target", batch["new_obs"])
            ratio_target = self.gamma_hat * rho * self.value("c_target", batch["obs"])
        ratio = self.value("c", batch["new_obs"])
        others = (ratio.sum().detach() - ratio.detach()) / (len(ratio) - 1)
        losses = {
            "v": 0.5 * (rho * (target - self.value("v", batch["obs"])) ** 2).mean(),
            "c": 0.5 * ((ratio_target + 1 - self.gamma_hat - ratio) ** 2).mean()
            + 1e-3 * ((others - 1) * ratio).mean(),
        }
        for name, loss in losses.items():
            self.optimizers[name].zero_grad()
            loss.backward()
            self.minimise(name)

    def learn_actor(self, row: dict[str, torch.Tensor]) -> None:
        """Advances the traces, lane by lane, and ascends the mean of Z1 + Z2."""
        rho = self.clipped_rho(row)
        with torch.no_grad():
            value, ratio = self.value("v", row["obs"]), self.value("c", row["obs"]).clip(max=2)
            following = self.value("v_target", row["new_obs"])
            delta = row["rewards"] + row["discount"] * following - value
        direction = torch.zeros_like(self.f2[0])
        log_prob = self.log_prob(row)
        for lane in range(len(self.envs)):
            self.optimizers["pi"].zero_grad()
            log_prob[lane].backward(retain_graph=True)
            score = torch.cat([parameter.grad.flatten() for parameter in self.theta])
            decay = self.rho[lane]
            self.f1[lane] = self.discount[lane] * decay * self.f1[lane] + ratio[lane]
            self.f2[lane] = self.gamma_hat * decay * self.f2[lane] + self.intrinsic[lane]
            m1 = (1 - self.lambda_1) * ratio[lane] + self.lambda_1 * self.f1[lane]
            m2 = (1 - self.lambda_2) * self.intrinsic[lane] + self.lambda_2 * self.f2[lane]
            direction += self.gamma_hat * value[lane] * m2 + rho[lane] * m1 * delta[lane] * score
            self.intrinsic[lane] = ratio[lane] * rho[lane] * score
        self.rho, self.discount = rho, row["discount"]
        offset = 0
        for parameter in self.theta:
            part = direction[offset : offset + parameter.numel()] / len(self.envs)
            parameter.grad = -part.view_as(parameter)
            offset += parameter.numel()
        self.minimise("pi")

    def run(self, count: int) -> None:
        """Makes `count` locksteps."""
        for actions in self.draw(count):
            columns = self.step(actions)
            row = {name: torch.as_tensor(column) for name, column in columns.items()}
            if self.replay.size:
                drawn = self.replay.sample(self.rng, 10)
                self.learn_critics({name: torch.as_tensor(c) for name, c in drawn.items()})
            self.learn_critics(row)
            self.learn_actor(row)
            self.replay.add({name: column[None] for name, column in columns.items()})
            self.time += 1
            if self.time % 200 == 0:
                for name in ("v", "c"):
                    self.nets[f"{name}_target"].load_state_dict(self.nets[name].state_dict())
