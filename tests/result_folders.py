"""Folders as Tune writes them, with curves that are drawn here: for pages of many trials."""

import json
import time

import numpy as np

J_PI = "evaluation/env_runners/j_pi"


def write_sweep(folder, settings, seeds=1, reports=20, metrics=0, evaluated=True, **spec):
    """An experiment of one trial per setting and seed.

    Args:
        folder: The experiment's folder.
        settings: The settings of each group of seeds.
        seeds: Runs per setting.
        reports: Iterations of each trial.
        metrics: So many learner metrics beside J_pi.
        evaluated: Whether there is a J_pi.
        spec: What is kept of the experiment beside run and stop.
    """
    folder.mkdir(parents=True)
    described = {"run": "GeoffPAC", "stop": {"num_env_steps_sampled_lifetime": 100 * reports}}
    (folder / "experiment.json").write_text(json.dumps(described | spec))
    for number, setting in enumerate(settings):
        for seed in range(seeds):
            trial = folder / f"trial_{number:05d}_{seed}"
            trial.mkdir()
            params = {"env": "Hopper-v5", "seed": seed, "gamma": 0.99} | setting
            (trial / "params.json").write_text(json.dumps(params))
            rng = np.random.default_rng((number, seed))
            values = np.cumsum(rng.normal(1.0, 2.0, reports)) + number
            lines = [_report(k, values[k], metrics, k + 1 == reports) for k in range(reports)]
            if not evaluated:
                lines = [{key: line[key] for key in line if key != "evaluation"} for line in lines]
            (trial / "result.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def _report(k, value, metrics, done):
    learner = {f"metric_{m}": float(np.sin(k / 9 + m)) for m in range(metrics)}
    return {
        "training_iteration": k + 1,
        "num_env_steps_sampled_lifetime": 100 * (k + 1),
        "time_total_s": 2.0 * (k + 1),
        "timestamp": int(time.time()),
        "weights_digest": f"{abs(hash((k, round(value, 6)))):012x}"[:12],
        "done": done,
        "evaluation": {"env_runners": {"j_pi": float(value), "episode_return_mean": 2 * value}},
        "learners": {
            "default_policy": {"value_loss": 1 / (k + 1), "total_loss": 1 / (k + 1), **learner}
        },
        "fault_tolerance": {"num_remote_worker_restarts": 1 if k == 3 and value > 20 else 0},
    }
