"""Time of one lockstep, HalfCheetah sizes, for the ways to compute it: one table.

    python benchmarks/kernel_alternatives.py [--lanes 10] [--rounds 7] [--no-compile]

Every variant does the whole lockstep of Geoff-PAC (critics on 10 replayed rows of all lanes and on
the current transitions, traces, actor) on the same random data, in one thread, interleaved in
rounds; the table shows median and extremes over the rounds. It is processor time, so that what
else runs on the machine matters little.
"""

from __future__ import annotations

import argparse
import os
import time
import timeit

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy and torch are imported

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F

from rllib_geoffpac import GeoffPACConfig
from rllib_geoffpac.connectors import EmphaticTraces
from rllib_geoffpac.kernels import FastLockstep, LockstepSettings
from rllib_geoffpac.learners.torch_lockstep import TorchLockstep
from rllib_geoffpac.maths.density_ratio import density_ratio_loss, soft_normalization_loss
from rllib_geoffpac.maths.emphatic import advance, first_term, fresh_traces, second_term
from rllib_geoffpac.maths.moments import RunningMoments
from rllib_geoffpac.maths.value import importance_ratio, td_error, value_loss
from rllib_geoffpac.modules import MLPRLModule

OBSERVATIONS = gym.spaces.Box(-np.inf, np.inf, (17,), np.float32)
ACTIONS = gym.spaces.Box(-1, 1, (6,), np.float32)
REPLAYED_ROWS = 10


def make_parts(lanes, **rmsprop_options):
    """A module, the paper's config, traces, optimizers and moments, the same every time."""
    torch.manual_seed(0)
    config = GeoffPACConfig().training(num_lanes=lanes)
    module = MLPRLModule(
        observation_space=OBSERVATIONS,
        action_space=ACTIONS,
        model_config={
            "fcnet_hiddens": [64, 64],
            "policy_distribution": "gaussian",
            "uses_density_ratio": True,
            "dtype": "float32",
        },
    )
    module.make_target_networks()
    traces = EmphaticTraces(
        gamma_hat=config.gamma_hat, lambda_1=config.lambda_1, lambda_2=config.lambda_2
    )
    groups = {
        "pi": module.policy_parameters(),
        "v": list(module.v.parameters()),
        "c": list(module.c.parameters()),
    }
    optimizers = {
        name: torch.optim.RMSprop(parameters, lr=1e-3, **rmsprop_options)
        for name, parameters in groups.items()
    }
    return module, config, traces, optimizers, RunningMoments(0.99)


class OneBackwardPerLane(TorchLockstep):
    """The textbook's way to a score per lane."""

    def score(self, row):
        logp = self.module.log_prob(row["obs"], row["actions"])
        gradients = [torch.autograd.grad(lane, self.theta, retain_graph=True) for lane in logp]
        return torch.stack([torch.cat([g.reshape(-1) for g in lane]) for lane in gradients])


class Functional:
    """The lockstep as one pure function, with torch.func; `torch.compile` can take it."""

    def __init__(self, lanes, compiled):
        module, self.config, _, _, _ = make_parts(lanes)
        networks = [module.v, module.c, module.v_target, module.c_target]
        self.state = {
            "theta": [p.detach().clone() for p in module.policy_parameters()],
            "critics": [[p.detach().clone() for p in n.parameters()] for n in networks[:2]],
            "targets": [[p.detach().clone() for p in n.parameters()] for n in networks[2:]],
        }
        self.state["squares"] = torch.utils._pytree.tree_map(
            torch.zeros_like, [self.state["theta"], *self.state["critics"]]
        )
        self.distribution = module.distribution
        size = sum(p.numel() for p in self.state["theta"])
        self.state["traces"] = fresh_traces(torch.zeros(lanes), size)
        self.function = torch.compile(self.lockstep) if compiled else self.lockstep

    def step(self, row, replayed, learn):
        row, replayed = ({k: torch.as_tensor(v) for k, v in b.items()} for b in (row, replayed))
        with torch.no_grad():
            self.state = self.function(self.state, row, replayed)

    @staticmethod
    def mlp(parameters, x):
        for i in range(0, len(parameters) - 2, 2):
            x = torch.relu(F.linear(x, parameters[i], parameters[i + 1]))
        return F.linear(x, parameters[-2], parameters[-1])

    def log_pi(self, theta, observations, actions):
        return self.distribution.log_prob(self.mlp(theta[:-1], observations), theta[-1], actions)

    def descend(self, parameters, gradients, squares, sign=-1):
        norm = torch.sqrt(sum((g * g).sum() for g in gradients))
        scale = torch.clamp(self.config.grad_clip / (norm + 1e-6), max=1.0)
        gradients = [g * scale for g in gradients]
        squares = [0.99 * s + 0.01 * g * g for s, g in zip(squares, gradients, strict=True)]
        moves = [g / (s.sqrt() + 1e-8) for g, s in zip(gradients, squares, strict=True)]
        lr = 1e-3 * sign
        return [p + lr * m for p, m in zip(parameters, moves, strict=True)], squares

    def rho(self, state, batch):
        logp = self.log_pi(state["theta"], batch["obs"], batch["actions"])
        return importance_ratio(logp, batch["action_logp"]).clip(max=self.config.rho_clip)

    def learn_critics(self, state, batch):
        config, rho = self.config, self.rho(state, batch)
        next_value = self.mlp(state["targets"][0], batch["new_obs"])[:, 0]
        target_ratio = F.softplus(self.mlp(state["targets"][1], batch["obs"])[:, 0])

        def loss_v(v):
            value = self.mlp(v, batch["obs"])[:, 0]
            return value_loss(rho, td_error(batch["rewards"], batch["discount"], next_value, value))

        def loss_c(c):
            ratio = F.softplus(self.mlp(c, batch["new_obs"])[:, 0])
            valid = batch["valid"]
            return density_ratio_loss(
                ratio, target_ratio, rho, gamma_hat=config.gamma_hat, valid=valid
            ) + config.sn_loss_coeff * soft_normalization_loss(ratio, ratio.detach(), valid)

        critics, squares = [], state["squares"][:1]
        for loss, network, square in zip(
            (loss_v, loss_c), state["critics"], state["squares"][1:], strict=True
        ):
            network, square = self.descend(network, torch.func.grad(loss)(network), square)
            critics.append(network)
            squares = [*squares, square]
        return {**state, "critics": critics, "squares": squares}

    def lockstep(self, state, row, replayed):
        config = self.config
        for batch in (replayed, row):
            state = self.learn_critics(state, batch)
        value = self.mlp(state["critics"][0], row["obs"])[:, 0]
        next_value = self.mlp(state["targets"][0], row["new_obs"])[:, 0]
        ratio = F.softplus(self.mlp(state["critics"][1], row["obs"])[:, 0])
        rho, interest = self.rho(state, row), torch.ones_like(value)

        def log_pi_of_lane(theta, observation, action):
            return self.log_pi(theta, observation[None], action[None])[0]

        by_lane = torch.func.vmap(torch.func.grad(log_pi_of_lane), (None, 0, 0))
        gradients = by_lane(state["theta"], row["obs"], row["actions"])
        score = torch.cat([g.flatten(1) for g in gradients], dim=1)
        traces, emphasis = advance(
            state["traces"],
            rho=rho,
            discount=row["discount"],
            density_ratio=ratio.clip(0, config.density_ratio_clip),
            score=score,
            interest=interest,
            gamma_hat=config.gamma_hat,
            lambda_1=config.lambda_1,
            lambda_2=config.lambda_2,
        )
        delta = td_error(row["rewards"], row["discount"], next_value, value)
        direction = first_term(rho, emphasis.m1, delta, score).mean(0)
        direction = direction + second_term(config.gamma_hat, interest, value, emphasis.m2).mean(0)
        parts = direction.split([p.numel() for p in state["theta"]])
        ascent = [d.view_as(p) for d, p in zip(parts, state["theta"], strict=True)]
        theta, square = self.descend(state["theta"], ascent, state["squares"][0], sign=1)
        squares = [square, *state["squares"][1:]]
        return {**state, "theta": theta, "squares": squares, "traces": traces}


def make_kernel(lanes):
    module, config, _, _, moments = make_parts(lanes)
    settings = LockstepSettings(
        num_lanes=lanes,
        gamma_hat=config.gamma_hat,
        lambda_1=config.lambda_1,
        lambda_2=config.lambda_2,
        rho_clip=config.rho_clip,
        density_ratio_clip=config.density_ratio_clip,
        sn_loss_coeff=config.sn_loss_coeff,
        uses_second_trace=True,
        learning_rates={"pi": 1e-3, "v": 1e-3, "c": 1e-3},
        grad_clip=config.grad_clip,
    )
    return FastLockstep(
        module.policy_parameters(),
        [list(module.v.parameters()), list(module.c.parameters())],
        [list(module.v_target.parameters()), list(module.c_target.parameters())],
        module.distribution,
        settings,
        moments,
    )


def transitions(rng, count):
    number = np.float32
    return {
        "obs": rng.normal(size=(count, *OBSERVATIONS.shape)).astype(number),
        "new_obs": rng.normal(size=(count, *OBSERVATIONS.shape)).astype(number),
        "actions": rng.uniform(-1, 1, (count, *ACTIONS.shape)).astype(number),
        "rewards": rng.normal(size=count).astype(number),
        "discount": np.full(count, 0.99, number),
        "action_logp": np.full(count, -6 * np.log(2), number),
        "valid": np.ones(count, number),
        "chain_start": np.zeros(count, bool),
    }


def microseconds(lockstep, data) -> float:
    """Processor time per lockstep."""
    began = time.process_time()
    for row, replayed in data:
        lockstep.step(row, replayed, True)
    return (time.process_time() - began) / len(data) * 1e6


def print_calls(lanes) -> None:
    """Why the kernel's matrices are torch's and not numpy's: single calls at its sizes."""
    rows = (1 + REPLAYED_ROWS) * lanes
    x, block, hidden = torch.randn(rows, 65), torch.randn(65, 64), torch.zeros(rows, 65)
    by_lane, delta = torch.zeros(lanes, 65, 64), torch.randn(lanes, 64)
    y, left, right = hidden[:, :-1], x[:lanes, :, None], delta[:, None]
    x_, block_, hidden_, y_, by_lane_, left_, right_ = (
        a.numpy() for a in (x, block, hidden, y, by_lane, left, right)
    )
    calls = {
        "layer [rows, 65] @ [65, 64]": (
            lambda: np.matmul(x_, block_, out=y_),
            lambda: torch.mm(x, block, out=y),
        ),
        "relu [rows, 65]": (lambda: np.maximum(hidden_, 0, out=hidden_), lambda: hidden.relu_()),
        "score of a layer [lanes, 65, 64]": (
            lambda: np.multiply(left_, right_, out=by_lane_),
            lambda: torch.mul(left, right, out=by_lane),
        ),
    }
    print(f"\nsingle calls, {rows} rows{'numpy':>30}{'torch':>8}")
    for name, pair in calls.items():
        numpy_time, torch_time = (min(timeit.repeat(f, number=200)) / 200 * 1e6 for f in pair)
        print(f"{name:45}{numpy_time:8.1f}{torch_time:8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lanes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-compile", action="store_true")
    arguments = parser.parse_args()
    lanes = arguments.lanes
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    variants = {
        "autograd, one backward per lane": OneBackwardPerLane(*make_parts(lanes)),
        "autograd, one batched backward (torch path)": TorchLockstep(*make_parts(lanes)),
        "  the same, foreach optimizers": TorchLockstep(*make_parts(lanes, foreach=True)),
        "torch.func, vmap(grad)": Functional(lanes, compiled=False),
        "  the same, torch.compile": Functional(lanes, compiled=True),
        "closed form (fast kernel)": make_kernel(lanes),
    }
    if arguments.no_compile:
        del variants["  the same, torch.compile"]
    rng = np.random.default_rng(0)
    data = [(transitions(rng, lanes), transitions(rng, REPLAYED_ROWS * lanes)) for _ in range(20)]
    began, first = time.perf_counter(), {}
    for name, lockstep in variants.items():
        microseconds(lockstep, data[:2])
        began, first[name] = time.perf_counter(), time.perf_counter() - began
    times = {name: [] for name in variants}
    for _ in range(arguments.rounds):
        for name, lockstep in variants.items():
            times[name].append(microseconds(lockstep, data))
    fast = np.median(times["closed form (fast kernel)"])
    print(f"{lanes} lanes, replay batch {REPLAYED_ROWS * lanes}, microseconds per lockstep")
    print(f"{'':45}{'median':>8}{'min':>8}{'max':>8}{'/ fast':>8}   first two")
    for name, each in times.items():
        middle = np.median(each)
        print(
            f"{name:45}{middle:8.0f}{min(each):8.0f}{max(each):8.0f}{middle / fast:8.1f}"
            f"{first[name]:9.2f} s"
        )
    print_calls(lanes)


if __name__ == "__main__":
    main()
