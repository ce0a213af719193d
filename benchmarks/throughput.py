"""Throughput of Geoff-PAC beside its limits and yardsticks, interleaved, in one table.

    python benchmarks/throughput.py [--quick] [--json FILE] [--rounds 7] [--seconds 1.5]

Everything is measured in turns, in one process tree, by the wall clock; a number is the median over
the rounds, and a ratio the median of the rounds' ratios, so that a machine that is busy with other
things at times disturbs both sides alike. Paper settings: 10 lanes, two hidden layers of 64, replay
batches of 100 transitions; and those of `robust()`, as far as its own targets go. Only the ratios
mean something on another machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy and torch are imported

import numpy as np
import ray
from yardsticks import BareLoop, BareSampling, TextbookLoop

from rllib_geoffpac import GeoffPACConfig
from rllib_geoffpac.algorithms.algorithm import LaneTrainingData
from rllib_geoffpac.compat import local_learner
from rllib_geoffpac.lanes.fragments import Fragment

ENVIRONMENTS = ["HalfCheetah-v5", "Hopper-v5", "Reacher-v5"]
LANES, FRAGMENT = 10, 100
EVALUATION_INTERVAL = 20_000
"""Env steps between two evaluations of 10 episodes in the tuned examples of 1,000,000 steps."""

TARGETS = {
    "full_remote_over_limit": (">=", 0.85),
    "full_local_over_bare": (">=", 0.9),
    "fast_over_torch_10_lanes": (">=", 5.0),
    "fast_over_torch_100_lanes": (">=", 1.0),
    "full_over_textbook": (">=", 10.0),
    "sweep_over_ideal": ("<=", 1.1),
    "sampling_over_bare": ("<=", 1.15),
    "robust_fast_over_torch": (">=", 10.0),
    "robust_full_over_limit": (">=", 0.85),
    "robust_evaluation_share": ("<=", 0.25),
}

Rates = dict[str, list[float]]
"""Environment steps per second of every contestant, one number per round."""


def make_config(
    env: str, lanes: int = LANES, width: int = 64, kernel: str = "auto", robust: bool = False
):
    """The paper's settings, or the robust ones."""
    return (
        (GeoffPACConfig.robust() if robust else GeoffPACConfig())
        .environment(env)
        .training(num_lanes=lanes, kernel=kernel)
        .rl_module(model_config={"fcnet_hiddens": [width, width]})
    )


class Contestant:
    """Something that makes environment steps: `work()` makes some and returns how many."""

    def __init__(self, work: Callable[[], int], warm_up: Callable[[], Any] | None = None):
        self.work, self.warm_up = work, warm_up

    def rate(self, seconds: float) -> float:
        """Works for that long; returns steps per second."""
        if self.warm_up is not None:
            self.warm_up()
        steps, began = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - began) < seconds or not steps:
            steps += self.work()
        return steps / elapsed


def take_turns(contestants: dict[str, Contestant], rounds: int, seconds: float) -> Rates:
    """Measures all contestants in every round, each time in another order."""
    rates: Rates = {name: [] for name in contestants}
    for contestant in contestants.values():
        contestant.rate(0.0)
    for round_ in range(rounds):
        names = list(contestants)
        for name in names[round_ % len(names) :] + names[: round_ % len(names)]:
            rates[name].append(contestants[name].rate(seconds))
    return rates


class Bench:
    """Builds what is measured, and stops it at the end."""

    def __init__(self) -> None:
        self.algorithms: list[Any] = []

    def algorithm(self, config: Any) -> Any:
        """Builds an algorithm."""
        algorithm = config.build_algo()
        self.algorithms.append(algorithm)
        return algorithm

    def close(self) -> None:
        """Stops all algorithms built since the last time."""
        for algorithm in self.algorithms:
            algorithm.stop()
        self.algorithms = []

    def full(self, env: str, runners: int, robust: bool = False) -> Contestant:
        """The whole algorithm, by `train()`."""
        config = make_config(env, robust=robust).env_runners(num_env_runners=runners)
        algorithm = self.algorithm(config)

        def train() -> int:
            algorithm.train()
            return config.min_sample_timesteps_per_iteration

        # What remote runners have simulated ahead is used up before the clock starts.
        return Contestant(train, warm_up=train)

    def sampling(self, env: str) -> Contestant:
        """The lanes alone, as the algorithm's own local runner steps them."""
        algorithm = self.algorithm(make_config(env))
        return Contestant(lambda: sum(map(len, algorithm.stream.next(iter([FRAGMENT])))))

    def evaluation(self, env: str) -> Contestant:
        """Evaluations of the robust settings, as so many steps as lie between two of them."""
        config = make_config(env, robust=True).evaluation(evaluation_duration=10)
        algorithm = self.algorithm(config)

        def evaluate() -> int:
            algorithm.evaluate()
            return EVALUATION_INTERVAL

        return Contestant(evaluate)

    def learner(
        self, env: str, kernel: str, lanes: int = LANES, width: int = 64, robust: bool = False
    ) -> Contestant:
        """The learner alone, over and over on the same recorded fragments."""
        algorithm = self.algorithm(make_config(env, lanes, width, kernel, robust))
        # The torch path is slow: short fragments keep its turns as short as the others'.
        length = max(10, FRAGMENT * LANES // lanes // (5 if kernel == "torch" else 1))
        fragments: list[list[Fragment]] = [algorithm.stream.next(iter([length])) for _ in range(3)]
        for _ in range(-(-algorithm.config.learning_starts // length) + 1):
            algorithm.learner_group.update(training_data=LaneTrainingData(episodes=fragments[0]))
        turn = iter(range(10**9))

        def learn() -> int:
            data = LaneTrainingData(episodes=fragments[next(turn) % len(fragments)])
            algorithm.learner_group.update(training_data=data)
            return length * lanes

        return Contestant(learn)

    def bare_loop(self, env: str) -> Contestant:
        """A plain loop over bare environments and the same kernel."""
        algorithm = self.algorithm(make_config(env))
        return plain(BareLoop(env, local_learner(algorithm.learner_group)))


def plain(loop: Any, length: int = FRAGMENT) -> Contestant:
    """A yardstick as a contestant."""

    def run() -> int:
        loop.run(length)
        return length * len(loop.envs)

    return Contestant(run)


def measure_environment(env: str, rounds: int, seconds: float) -> Rates:
    """All contestants of one environment, 10 lanes."""
    bench = Bench()
    rates = take_turns(
        {
            "bare gymnasium": plain(BareSampling(env, LANES)),
            "sampling alone": bench.sampling(env),
            "learner alone (fast kernel)": bench.learner(env, "fast"),
            "learner alone (torch)": bench.learner(env, "torch"),
            "bare loop (sampling + kernel)": bench.bare_loop(env),
            "full, 0 env runners": bench.full(env, 0),
            "full, 1 env runner": bench.full(env, 1),
            "full, 2 env runners": bench.full(env, 2),
            "textbook loop": plain(TextbookLoop(env, LANES), 10),
            "robust, learner alone (fast)": bench.learner(env, "fast", robust=True),
            "robust, learner alone (torch)": bench.learner(env, "torch", robust=True),
            "robust, full, 0 env runners": bench.full(env, 0, robust=True),
            "robust, full, 1 env runner": bench.full(env, 1, robust=True),
            "robust, evaluation": bench.evaluation(env),
        },
        rounds,
        seconds,
    )
    bench.close()
    return rates


def measure_scaling(lanes: list[int], widths: list[int], rounds: int, seconds: float) -> Rates:
    """The learner alone with more lanes and wider networks, both kernels."""
    rates: Rates = {}
    for width in widths:
        for count in lanes:
            bench = Bench()
            contestants = {
                f"{count} lanes, width {width}, {kernel}": bench.learner(
                    ENVIRONMENTS[0], kernel, count, width
                )
                for kernel in ("fast", "torch")
            }
            rates |= take_turns(contestants, rounds, seconds)
            bench.close()
    return rates


def measure_sweep(env: str, trials: int, locksteps: int) -> dict[str, float]:
    """A sweep of trials, one after the other, over one recorded stream; in seconds.

    Ideal is one simulation plus the learning of every trial; both are measured between the trials.
    Building the algorithms is not counted (see the start-up time in the README).
    """
    folder, bench = tempfile.mkdtemp(prefix="streams"), Bench()
    steps = locksteps * LANES
    sampling, learner = bench.sampling(env), bench.learner(env, "auto")
    sweep, simulation, learning = 0.0, [], []
    rates = np.linspace(0.5e-3, 1.5e-3, trials)
    for lr in rates:
        config = make_config(env).training(lr=float(lr)).env_runners(experience_cache=folder)
        algorithm = config.build_algo()
        began = time.perf_counter()
        while algorithm.stream.anchor.lockstep < locksteps:
            algorithm.train()
        sweep += time.perf_counter() - began
        algorithm.stop()
        part = steps / trials
        for contestant, durations in ((sampling, simulation), (learner, learning)):
            began, done = time.perf_counter(), 0
            while done < part:
                done += contestant.work()
            durations.append((time.perf_counter() - began) * steps / done)
    bench.close()
    shutil.rmtree(folder)
    ideal = float(np.mean(simulation) + trials * np.mean(learning))
    return {"trials": trials, "env_steps": steps, "sweep_s": sweep, "ideal_s": ideal}


def ratio(rates: Rates, numerator: str, *denominators: str) -> float:
    """Median over the rounds of a rate, relative to the slowest of others in the same round."""
    slowest = np.min([rates[name] for name in denominators], axis=0)
    return float(np.median(np.array(rates[numerator]) / slowest))


def share(rates: Rates, part: str, rest: str) -> float:
    """Median over the rounds of the share of the time that a part takes beside the rest."""
    seconds = [1 / np.array(rates[name]) for name in (part, rest)]
    return float(np.median(seconds[0] / (seconds[0] + seconds[1])))


def environment_ratios(rates: Rates) -> dict[str, float]:
    """The targets' ratios of one environment."""
    fast, local = "learner alone (fast kernel)", "full, 0 env runners"
    remote = max(
        ("full, 1 env runner", "full, 2 env runners"), key=lambda name: np.median(rates[name])
    )
    best = max((local, remote), key=lambda name: np.median(rates[name]))
    return {
        "full_remote_over_limit": ratio(rates, remote, "sampling alone", fast),
        "full_local_over_bare": ratio(rates, local, "bare loop (sampling + kernel)"),
        "fast_over_torch_10_lanes": ratio(rates, fast, "learner alone (torch)"),
        "full_over_textbook": ratio(rates, best, "textbook loop"),
        "sampling_over_bare": ratio(rates, "bare gymnasium", "sampling alone"),
        "robust_fast_over_torch": ratio(
            rates, "robust, learner alone (fast)", "robust, learner alone (torch)"
        ),
        "robust_full_over_limit": ratio(
            rates, "robust, full, 1 env runner", "sampling alone", "robust, learner alone (fast)"
        ),
        "robust_evaluation_share": share(
            rates, "robust, evaluation", "robust, full, 0 env runners"
        ),
    }


def worst(name: str, values: list[float]) -> float:
    """The one farthest from its target."""
    return min(values) if TARGETS[name][0] == ">=" else max(values)


def print_rates(title: str, rates: Rates) -> None:
    """One part of the table."""
    print(f"\n{title:<34}{'env steps/s':>12}{'10 %':>10}{'90 %':>10}")
    for name, values in rates.items():
        low, middle, high = np.percentile(values, [10, 50, 90])
        print(f"  {name:<32}{middle:>12,.0f}{low:>10,.0f}{high:>10,.0f}")


def print_ratios(ratios: dict[str, float], by_environment: dict[str, dict[str, float]]) -> None:
    """The ratios beside their targets."""
    print(f"\n{'ratio (worst environment)':<34}{'measured':>12}{'target':>10}   by environment")
    for name, value in ratios.items():
        sign, target = TARGETS[name]
        each = [f"{r[name]:.2f}" for r in by_environment.values() if name in r]
        print(f"  {name:<32}{value:>12.2f}{sign:>5}{target:>5.2f}   {' '.join(each)}")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measures everything, prints the table and returns it."""
    quick = arguments.quick
    rounds = arguments.rounds or (3 if quick else 7)
    seconds = arguments.seconds or (0.35 if quick else 1.5)
    environments = ENVIRONMENTS[:1] if quick else ENVIRONMENTS
    rates = {}
    for env in environments:
        rates[env] = measure_environment(env, rounds, seconds)
        print_rates(f"{env}, {LANES} lanes", rates[env])
    lanes, widths = ([100], [64]) if quick else ([10, 30, 100, 300], [64, 256])
    scaling = measure_scaling(lanes, widths, rounds, seconds)
    print_rates("Learner alone, HalfCheetah-v5", scaling)
    locksteps = arguments.sweep_locksteps or (500 if quick else 2000)
    sweep = measure_sweep(ENVIRONMENTS[0], 10, locksteps)
    print(
        f"\nSweep of {sweep['trials']} trials of {sweep['env_steps']:,} steps over one recorded "
        f"stream: {sweep['sweep_s']:.1f} s; one simulation and {sweep['trials']} times the "
        f"learner alone: {sweep['ideal_s']:.1f} s"
    )
    by_environment = {env: environment_ratios(rates[env]) for env in environments}
    ratios = {}
    for name in TARGETS:
        if name == "fast_over_torch_100_lanes":
            pair = [f"100 lanes, width 64, {kernel}" for kernel in ("fast", "torch")]
            ratios[name] = ratio(scaling, *pair)
        elif name == "sweep_over_ideal":
            ratios[name] = sweep["sweep_s"] / sweep["ideal_s"]
        else:
            ratios[name] = worst(name, [each[name] for each in by_environment.values()])
    print_ratios(ratios, by_environment)
    return {
        "ratios": ratios,
        "ratios_by_environment": by_environment,
        "env_steps_per_s": {**rates, "scaling": scaling},
        "sweep": sweep,
        "settings": {"rounds": rounds, "seconds": seconds, "quick": quick, "lanes": LANES},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one environment, under a minute")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--rounds", type=int, help="how often each is measured")
    parser.add_argument("--seconds", type=float, help="how long each time")
    parser.add_argument("--sweep-locksteps", type=int, help="length of a trial of the sweep")
    arguments = parser.parse_args()
    ray.init(
        address="local",
        num_cpus=8,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    began = time.perf_counter()
    results = run(arguments)
    results["settings"]["total_s"] = time.perf_counter() - began
    ray.shutdown()
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
