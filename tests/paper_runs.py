"""Runs for the reproduction's tests: folders as Tune writes them."""

import json

import pandas as pd

from paper import curves
from rllib_cli.results import reading

EXPERIMENT = "reacher-variants-geoffpac"
COMMANDS = {EXPERIMENT: "rllib train file tuned_examples/figures/reacher_variants.yaml"}
STEPS = "num_env_steps_sampled_lifetime"
BUDGET = 2000
_RANDOM = pd.DataFrame(
    [{"task": "Reacher-v5", "episodes": 10, "j_pi": -18.0, "return": -43.0}]
).set_index("task")
LEVELS = {"random agent": _RANDOM}


def write_trial(
    folder, seed, j_pis, diverged=False, experiment=EXPERIMENT, run="GeoffPAC", **params
):
    """A trial's folder as Tune writes it; one evaluation every 400 steps."""
    trial = folder / experiment / f"{seed}_{len(list(folder.glob('*/*')))}"
    trial.mkdir(parents=True)
    spec = {"run": run, "stop": {STEPS: BUDGET}}
    (trial.parent / "experiment.json").write_text(json.dumps(spec))
    params = {"env": "Reacher-v5", "seed": seed, **params}
    (trial / "params.json").write_text(json.dumps(params))
    lines = []
    for number, j_pi in enumerate(j_pis, start=1):
        evaluation = {"j_pi": j_pi, "episode_return_mean": 2 * j_pi}
        evaluation["evaluated_at_env_steps"] = 400 * number
        report_ = {
            "training_iteration": number,
            STEPS: 400 * number,
            "time_total_s": 36.0 * number,
            "evaluation": {"env_runners": evaluation},
            "learners": {"default_policy": {"policy_std": 0.5, "rho_clipped_mean": 0.25}},
            "diverged": diverged and number == len(j_pis),
        }
        lines.append(json.dumps(report_))
    (trial / "result.json").write_text("\n".join(lines) + "\n")


def robust_settings(steps):
    """What `robust()` changes for a run of so many steps."""
    from rllib_geoffpac import GeoffPACConfig

    default, robust = GeoffPACConfig().to_dict(), GeoffPACConfig.robust(steps).to_dict()
    return {key: value for key, value in robust.items() if value != default[key]}


def collected(folder):
    """The curves of all trials below a folder, as one table."""
    frames = curves.of_trials(reading.load([str(folder)]))
    return pd.concat(frames.values(), ignore_index=True)
