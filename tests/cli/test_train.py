"""Real runs: train, stop, resume, evaluate, plot, as a user would type them."""

import json
import os
import pickle
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command import COMMAND, Finished, environment, run

from rllib_cli.experiment.checks import available_cpus
from rllib_cli.run import forecast

pytestmark = pytest.mark.timeout(1200)

LONG = ["--stop", "{num_env_steps_sampled_lifetime: 100000000}"]


def stop_after(arguments, cwd, words: str, number: int) -> Finished:
    """Starts the command, and sends it a signal as soon as it has printed some words."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env={**environment(), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen = []
    for line in process.stdout:
        seen.append(line)
        if words in line:
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=550)
    return Finished(process.returncode, "".join(seen) + out, err)


def reports(folder: Path) -> dict[str, list[dict]]:
    """Trial folder -> its reports."""
    return {
        file.parent.name: [json.loads(line) for line in file.read_text().splitlines()]
        for file in sorted(folder.glob("*/result.json"))
        if file.stat().st_size
    }


def printed_command(text: str, after: str) -> list[str]:
    """The command that stands on the line after some words."""
    lines = text.splitlines()
    index = next(i for i, line in enumerate(lines) if line.startswith(after))
    words = shlex.split(lines[index + 1].strip())
    return words[words.index("-m") + 2 :] if "-m" in words else words[1:]


MY_LAB = """
from ray.rllib.callbacks.callbacks import RLlibCallback


class Callbacks(RLlibCallback):
    def on_train_result(self, *, result, **more):
        result["my_lab"] = {"iterations": result["training_iteration"]}
"""


def test_ppo_trains_with_callbacks_of_the_folder_and_more_processes_than_cores(rllib, home):
    (home / "my_lab.py").write_text(MY_LAB)
    cores = available_cpus()
    result = rllib(
        "train", "--algo", "PPO", "--env", "CartPole-v1",
        "--stop", '{"my_lab/iterations": 2, "time_total_s": 999}',
        "--storage-path", "results", "--set", "train_batch_size_per_learner=500",
        "--set", "callbacks=my_lab:Callbacks", "--set", "num_env_runners=2",
        "--set", f"num_cpus_per_env_runner={cores / 2}",
        "--ray-num-cpus", cores + 1,
    )  # fmt: skip
    assert result.status == 0, result.text
    assert result.out.startswith(f"Warning: --ray-num-cpus {cores + 1}: this machine has {cores}")
    assert result.err == ""
    assert "WARNING" not in result.out and "ray." not in result.out
    trial = home / "results" / "PPO-CartPole-v1" / "00000"
    assert len(reports(trial.parent)["00000"]) == 2
    assert list(trial.glob("events.out.tfevents*")) and (trial / "progress.csv").exists()
    assert "500 steps" in result.out and "return" in result.out and "left" in result.out
    assert f"rllib evaluate {trial}/checkpoint_000000 --episodes 10" in result.out
    assert f"rllib plot {trial.parent}" in result.out
    left = {path.name for path in home.iterdir()}
    assert left - {"__pycache__"} == {"my_lab.py", "results"}
    check_evaluation_of(printed_command(result.out, "Evaluate it")[1], home)
    check_that_statistics_are_not_left_out(trial / "checkpoint_000000", home)


def check_evaluation_of(checkpoint, home):
    full = run(["evaluate", checkpoint, "--episodes", "3", "--out", "a.json"], home)
    bare = run(
        ["evaluate", checkpoint, "--episodes", "3", "--out", "b.json", "--weights-only"], home
    )
    assert full.status == 0 and bare.status == 0, full.text + bare.text
    assert "pickle" in full.out and "pickle" not in bare.out
    first, second = (json.loads((home / name).read_text()) for name in ("a.json", "b.json"))
    assert first == second
    assert len(first["episode_returns"]) == 3 and first["j_pi_stderr"] >= 0


def check_that_statistics_are_not_left_out(checkpoint, home):
    state = checkpoint / "env_runner" / "env_to_module_connector" / "MeanStdFilter" / "state.pkl"
    state.parent.mkdir()
    state.write_bytes(pickle.dumps({"running_stats": [1.0]}))
    refused = run(["evaluate", checkpoint, "--weights-only"], home)
    assert refused.status == 2 and "MeanStdFilter" in refused.err


def test_optuna_chooses_the_values_of_the_trials(rllib, home):
    (home / "search.yaml").write_text(
        "search:\n"
        "  run: ACE\n"
        "  env: TwoCircle-v0\n"
        "  num_samples: 2\n"
        "  stop: {training_iteration: 1}\n"
        "  config: {module: tabular, optimizer_type: sgd, lr: {loguniform: [1e-3, 1e-1]}}\n"
        "  tune_config: {search_alg: {type: optuna, seed: 3}, max_concurrent_trials: 1,\n"
        "                metric: env_runners/episode_len_mean}\n"
    )
    result = rllib("train", "file", "search.yaml", "--storage-path", "results")
    assert result.status == 0, result.text
    assert "optuna chooses" in result.out
    trials = reports(home / "results" / "search").values()
    settings = [lines[0]["config"] for lines in trials]
    # A search compares its trials, so that all have the same seed.
    assert len({s["lr"] for s in settings}) == 2 and len({s["seed"] for s in settings}) == 1


@pytest.mark.parametrize(
    ("time", "interval"), [("training_iteration", 1), ("num_env_steps_sampled_lifetime", 100)]
)
def test_a_population_goes_on_from_its_best_member_with_changed_settings(
    rllib, home, time, interval
):
    (home / "population.yaml").write_text(
        "population:\n"
        "  run: ACE\n"
        "  env: TwoCircle-v0\n"
        "  num_samples: 2\n"
        "  stop: {training_iteration: 3}\n"
        "  config: {module: tabular, optimizer_type: sgd, lr: 0.01, evaluation_interval: 1,\n"
        "           evaluation_horizon: 10, min_sample_timesteps_per_iteration: 100}\n"
        "  tune_config:\n"
        "    metric: evaluation/env_runners/j_pi\n"
        f"    scheduler: {{type: pbt, time_attr: {time}, perturbation_interval: {interval},\n"
        "      synch: true, quantile_fraction: 0.5, hyperparam_mutations: {lr: [0.1, 0.2]}}\n"
    )
    result = rllib("train", "file", "population.yaml", "--storage-path", "results")
    assert result.status == 0, result.text
    folder = home / "results" / "population"
    assert (folder / "pbt_global.txt").read_text().count("\n") == 2, "after two iterations"
    trials = reports(folder).values()
    exploiting = [lines for lines in trials if len({one["config"]["lr"] for one in lines}) > 1]
    assert exploiting, "somebody has gone on with another rate"
    for lines in exploiting:
        learned = lines[-1]["learners"]["default_policy"]
        assert learned["pi_learning_rate"] == lines[-1]["config"]["lr"], "and it acts"
        assert lines[-1]["training_iteration"] == 3


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """The smoke sweep, interrupted when the first trial reports and then resumed as it says."""
    home = tmp_path_factory.mktemp("sweep")
    arguments = ["example", "run", "smoke/two_circle_sweep", "--storage-path", "results"]
    stopped = stop_after(arguments, home, " steps", signal.SIGINT)
    folder = home / "results" / "smoke-two-circle-sweep"
    before = reports(folder)
    # A trial that reports again before Tune stops is saved twice.
    saved = sorted({path.parent.name for path in folder.glob("*/checkpoint_*")})
    resumed = run(printed_command(stopped.out, "Stopped by Ctrl-C"), home)
    return {
        "home": home,
        "folder": folder,
        "stopped": stopped,
        "before": before,
        "saved": saved,
        "resumed": resumed,
    }


def test_ctrl_c_saves_every_running_trial_and_says_how_to_resume(sweep):
    stopped = sweep["stopped"]
    assert stopped.status == 130, stopped.text
    assert "Traceback" not in stopped.text
    assert "interrupted" in stopped.out and "--resume" in stopped.out
    assert sweep["before"] and sorted(sweep["before"]) == sweep["saved"]


def test_resume_runs_all_trials_to_their_end_and_none_twice(sweep):
    resumed = sweep["resumed"]
    assert resumed.status == 0, resumed.text
    final = reports(sweep["folder"])
    assert len(final) == 8
    for name, lines in final.items():
        assert lines[-1]["num_env_steps_sampled_lifetime"] == 8000
        earlier = sweep["before"].get(name, [])
        # Continued from the checkpoint, not begun again: what was reported before stays.
        assert lines[: len(earlier)] == earlier
        iterations = [line["training_iteration"] for line in lines]
        assert iterations == sorted(iterations) and iterations.count(1) == 1
    assert resumed.out.count("done") == 8


def test_the_same_name_without_resume_is_refused(sweep):
    result = run(
        ["example", "run", "smoke/two_circle_sweep", "--storage-path", "results",
         "--experiment-name", "smoke-two-circle-sweep"],
        sweep["home"],
    )  # fmt: skip
    assert result.status == 2 and "--resume" in result.err


def test_resume_with_other_settings_is_refused(sweep):
    result = run(
        ["example", "run", "smoke/two_circle_sweep", "--storage-path", "results", "--resume",
         "--set", "lambda_1=0.5"],
        sweep["home"],
    )  # fmt: skip
    assert result.status == 2 and "differs" in result.err


def test_plot_of_a_grid_is_a_heat_map_with_a_table(sweep):
    result = run(printed_command(sweep["resumed"].out, "Plot it")[:2], sweep["home"])
    assert result.status == 0, result.text
    assert (sweep["folder"] / "plot.png").stat().st_size > 10_000
    assert "heat map" in result.out
    rows = [line for line in result.out.splitlines() if line.startswith("gamma_hat")]
    assert len(rows) == 4 and all(" 2 " in row for row in rows)


def test_plot_by_one_key_draws_curves_over_four_runs_each(sweep):
    result = run(
        ["plot", sweep["folder"], "--by", "gamma_hat", "--metric", "two_circle/pi_outer",
         "--out", "curves.pdf"],
        sweep["home"],
    )  # fmt: skip
    assert result.status == 0, result.text
    assert (sweep["home"] / "curves.pdf").read_bytes().startswith(b"%PDF")
    assert "learning curves" in result.out and "IQM" in result.out


def test_evaluate_takes_the_best_checkpoint_as_it_was_printed(sweep):
    check_evaluation_of(printed_command(sweep["resumed"].out, "Evaluate it")[1], sweep["home"])


def test_geoffpac_takes_the_outer_circle_only_with_a_large_gamma_hat_and_lambda_2(sweep):
    ways = {
        name: lines[-1]["two_circle"]["pi_outer"]
        for name, lines in reports(sweep["folder"]).items()
    }
    outer = {name for name, way in ways.items() if way > 0.5}
    assert outer == {name for name in ways if "gamma_hat=0.9,lambda_2=1,seed" in name}


def test_sigterm_saves_a_checkpoint(home):
    result = stop_after(
        ["example", "run", "smoke/two_circle_sweep", "--storage-path", "results", *LONG,
         "--set", "gamma_hat=0.9", "--set", "lambda_2=1", "--num-samples", "1", "-v"],
        home, " steps", signal.SIGTERM,
    )  # fmt: skip
    assert result.status == 143, result.text
    assert "SIGTERM" in result.out and "--resume" in result.out
    assert list((home / "results").glob("*/*/checkpoint_*/rllib_checkpoint.json"))
    log = next(line for line in result.out.splitlines() if line.startswith("Log of Ray"))
    assert Path(log.partition(": ")[2]).exists()


BROKEN = """
import gymnasium


class Broken(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config):
        self.steps, self.limit = 0, config["limit"]

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        self.steps += 1
        if self.steps > self.limit:
            raise RuntimeError("the simulator fell over")
        return 1, 1.0, False, False, {}
"""


def test_a_failed_trial_gives_status_1_and_names_its_error_file(rllib, home):
    (home / "my_envs.py").write_text(BROKEN)
    result = rllib(
        "train", "--algo", "ACE", "--env", "my_envs:Broken", "--set", "env_config.limit=150",
        "--set", "min_sample_timesteps_per_iteration=1000", "--storage-path", "results",
        "--stop", "{num_env_steps_sampled_lifetime: 5000}",
    )  # fmt: skip
    assert result.status == 1, result.text
    assert "Traceback" not in result.text
    assert "the simulator fell over" in result.out
    line = next(line for line in result.out.splitlines() if "failed, see" in line)
    assert "the simulator fell over" in Path(line.partition("see ")[2]).read_text()


def test_a_dry_run_shows_all_trials_and_starts_nothing(rllib_here, home):
    import ray

    running = ray.is_initialized()
    result = rllib_here(
        "example", "run", "smoke/two_circle_sweep", "--dry-run", "--storage-path", "results",
        "--set", "lambda_1={grid_search: [0, 0.5, 1]}",
    )  # fmt: skip
    assert result.status == 0
    rows = [line.split() for line in result.out.splitlines() if line.startswith("000")]
    assert len(rows) == 2 * 2 * 3 * 2
    assert str(home / "results" / "smoke-two-circle-sweep") in result.out
    assert "CPUs" in result.out and "nothing was started" in result.out
    assert list(home.iterdir()) == [] and ray.is_initialized() == running


def test_a_python_file_is_an_experiment_too(rllib_here, home):
    (home / "mine.py").write_text(
        "from rllib_geoffpac import ACEConfig\n"
        "config = ACEConfig().environment('CartPole-v1').training(lambda_1=0.3)\n"
        "stop = {'training_iteration': 1}\n"
    )
    result = rllib_here(
        "train", "file", "mine.py", "--dry-run", "--storage-path", "results",
        "--num-samples", "2", "--seed", "7", "--set", "gamma={grid_search: [0.9, 0.99]}",
    )  # fmt: skip
    assert result.status == 0, result.text
    assert "mine: ACE on CartPole-v1, 4 trials" in result.out
    rows = [line.split()[1:3] for line in result.out.splitlines() if line.startswith("000")]
    assert sorted(rows) == [["0.9", "7"], ["0.9", "8"], ["0.99", "7"], ["0.99", "8"]]


def test_a_python_file_is_read_as_what_it_changes():
    from ray.rllib.algorithms.ppo import PPOConfig

    from rllib_cli.experiment.python_file import settings_of

    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .training(lr=0.1, train_batch_size_per_learner=300)
        .rl_module(model_config={"fcnet_hiddens": [8]})
    )
    assert settings_of(config) == {
        "env": "CartPole-v1",
        "lr": 0.1,
        "train_batch_size_per_learner": 300,
        "model_config": {"fcnet_hiddens": [8]},
    }


def test_the_terminal_shows_a_live_table(home):
    import pty

    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "example", "run", "smoke/two_circle_sweep", "--storage-path", "results",
         "--set", "gamma_hat=0.9", "--set", "lambda_2=1", "--num-samples", "1"],
        cwd=home, env={**environment(), "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
        stdout=slave, stderr=slave,
    )  # fmt: skip
    os.close(slave)
    shown, deadline = b"", time.monotonic() + 500
    while time.monotonic() < deadline:
        try:
            part = os.read(master, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    assert process.wait(timeout=60) == 0
    text = shown.decode(errors="replace")
    for words in ("env steps", "steps/s", "J_pi", "return", "left", "running", "/8,000", "passed"):
        assert words in text


def test_a_run_of_many_trials_says_before_they_start_how_long_they_will_take(home):
    arguments = ["example", "run", "smoke/ace_reacher", "--num-samples", 4, "--stop"]
    arguments += ["{num_env_steps_sampled_lifetime: 50000}", "--storage-path", "results"]
    arguments += ["--set", "experience_cache=cache"]
    stopped = stop_after(arguments, home, "for the 4 trials", signal.SIGINT)
    assert "(one seed: --num-samples 1)" in stopped.out
    said = next(line for line in stopped.out.splitlines() if "for the 4 trials" in line)
    found = re.match(
        r"About (\S+) for the 4 trials: (\d+) at a time, (\S+) each at the ([\d,]+) steps/s", said
    )
    total, at_once, each, rate = found.groups()
    waves = -(-4 // int(at_once))
    assert abs(seconds_of(total) - waves * seconds_of(each)) <= waves
    assert seconds_of(each) >= 45_000 / float(rate.replace(",", "")) - 1
    before, _, after = stopped.out.partition(said)
    assert " left" not in before, "a trial had begun"
    if "before the first trial" in after:
        assert not list(home.glob("cache/**/*")), "the measurement recorded"
    assert "Traceback" not in stopped.text
    assert stopped.status == 130, stopped.text


def seconds_of(duration: str) -> int:
    hours, minutes, seconds = map(int, duration.split(":"))
    return 3600 * hours + 60 * minutes + seconds


def test_the_forecast_ends_with_the_first_stop_criterion():
    speed = forecast.Speed(start=10.0, first_steps=1000, seconds=2.0, steps=1000)
    steps = {"num_env_steps_sampled_lifetime": 6000}
    assert speed.of_trial(steps) == 20.0
    assert speed.of_trial({"training_iteration": 3}) == 14.0
    assert speed.of_trial(steps | {"training_iteration": 3}) == 14.0
    assert speed.of_trial(steps | {"time_total_s": 5}) == 5.0
