"""What longer fragments bring: `robust()` with one env runner, relative to the learner alone.

    python benchmarks/fragment_length.py [--env Reacher-v5] [--rounds 3] [--seconds 2.5]

The weights are the same for every length.
"""

from __future__ import annotations

import argparse

import ray
from throughput import EVALUATION_INTERVAL, Bench, Contestant, make_config, take_turns

LENGTHS = (100, 500, 1000)
"""The default, and longer ones."""


def full(bench: Bench, env: str, length: int) -> Contestant:
    """The whole algorithm, in iterations as long as the tuned examples'."""
    config = make_config(env, robust=True)
    config.env_runners(num_env_runners=1, rollout_fragment_length=length)
    config.reporting(min_sample_timesteps_per_iteration=EVALUATION_INTERVAL)
    algorithm = bench.algorithm(config)

    def train() -> int:
        algorithm.train()
        return EVALUATION_INTERVAL

    return Contestant(train, warm_up=train)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="Reacher-v5")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.5)
    arguments = parser.parse_args()
    ray.init(address="local", num_cpus=8, include_dashboard=False, log_to_driver=False)
    bench = Bench()
    alone = "learner alone"
    contestants = {alone: bench.learner(arguments.env, "fast", robust=True)}
    contestants |= {str(length): full(bench, arguments.env, length) for length in LENGTHS}
    rates = take_turns(contestants, arguments.rounds, arguments.seconds)
    for length in map(str, LENGTHS):
        pairs = zip(rates[length], rates[alone], strict=True)
        print(f"{length:>5}:", "  ".join(f"{own / limit:.2f}" for own, limit in pairs))
    bench.close()
    ray.shutdown()


if __name__ == "__main__":
    main()
