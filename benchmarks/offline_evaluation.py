"""J_pi from logged data beside the simulator's: the table of docs/offline-evaluation.md.

    python benchmarks/offline_evaluation.py ~/offline_evaluation --write

trains Geoff-PAC for 60,000 steps (Reacher 20,000) on each of the paper's five tasks, records 50,000
steps of uniform data with another seed, plays 20 episodes and evaluates on the data. What is in the
folder already is not made again. The numbers go to paper/data/offline_evaluation.json, the table of
all tasks there to the page. One task: `--envs Reacher-v5`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from rllib_cli.evaluate.measure import EvaluateOptions, evaluate
from rllib_geoffpac import GeoffPACConfig, evaluate_offline
from rllib_geoffpac.data.record import record_data
from rllib_geoffpac.offline_evaluation.evaluation import ESTIMATORS

STEPS = {
    "HalfCheetah-v5": 60_000,
    "Walker2d-v5": 60_000,
    "Hopper-v5": 60_000,
    "Reacher-v5": 20_000,
    "Swimmer-v5": 60_000,
}
DATA_STEPS, DATA_SEED, EPISODES = 50_000, 1000, 20
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "offline-evaluation.md"
RESULTS = ROOT / "paper" / "data" / "offline_evaluation.json"
BEGIN, END = "<!-- offline evaluation: table -->", "<!-- end of table -->"


def config_of(env: str, seed: int) -> GeoffPACConfig:
    """A policy on the action box that is held to the data."""
    return (
        GeoffPACConfig()
        .environment(env)
        .training(
            view="forward",
            lambda_1=0,
            actor_replay_batch_size=10,
            policy_distribution="truncated_gaussian",
            overlap_target=0.4,
        )
        .reporting(min_sample_timesteps_per_iteration=10_000)
        .debugging(seed=seed)
    )


def train(env: str, folder: Path) -> None:
    """Trains and saves a checkpoint."""
    algorithm = config_of(env, 0).build_algo()
    steps = 0
    while steps < STEPS[env]:
        steps = algorithm.train()["num_env_steps_sampled_lifetime"]
    algorithm.save_to_path(folder)
    algorithm.stop()


def measure(env: str, place: Path) -> dict:
    """Simulator and estimates of one task."""
    checkpoint, data = place / "checkpoint", place / "data"
    if not checkpoint.exists():
        train(env, checkpoint)
    if not data.exists():
        record_data(config_of(env, DATA_SEED), str(data), DATA_STEPS)
    played = evaluate(checkpoint, EvaluateOptions(episodes=EPISODES))
    estimated = evaluate_offline(checkpoint, str(data), gamma_hat=0.0)
    return {
        "env": env,
        "j_pi": played.j_pi,
        "j_pi_stderr": played.j_pi_stderr,
        "episode_len_mean": played.episode_len_mean,
        **asdict(estimated),
    }


def table(results: Iterable[dict]) -> str:
    """Markdown: a row for each task; estimates that are not to be trusted in brackets."""
    titles = ["task", "J_pi, played", *ESTIMATORS, "overlap", "effective"]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for result in results:
        rows = {r["estimator"]: r for r in result["estimates"] if r["objective"] == "j_pi"}
        cells = [result["env"], f"{result['j_pi']:.3g} +- {result['j_pi_stderr']:.2g}"]
        for estimator in ESTIMATORS:
            row = rows[estimator]
            text = f"{row['value']:.3g}, {row['low']:.3g} to {row['high']:.3g}"
            cells.append(text if row["trusted"] else f"({text})")
        cells += [f"{result['overlap']:.2f}"]
        cells += [f"{rows[ESTIMATORS[-1]]['effective_sample_size']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measures what is not measured yet, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="Checkpoints, data and results.")
    parser.add_argument("--envs", nargs="*", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--write", action="store_true", help="Put the table into the page.")
    arguments = parser.parse_args()
    results = {}
    for env in arguments.envs:
        place = arguments.folder.expanduser().absolute() / env
        place.mkdir(parents=True, exist_ok=True)
        file = place / "result.json"
        if not file.exists():
            file.write_text(json.dumps(measure(env, place), indent=1))
        results[env] = json.loads(file.read_text())
    if arguments.write:
        results = {**json.loads(RESULTS.read_text()), **results}
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(
            f"{before}{BEGIN}\n\n{table(results.values())}\n\n{END}{after}", encoding="utf-8"
        )
    print(table(results.values()))


if __name__ == "__main__":
    main()
