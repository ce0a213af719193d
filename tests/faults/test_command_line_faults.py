"""The `rllib` command: a killed driver, and a cluster that gets all code from the driver."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_runs import ROOT

STEPS = 1800  # five iterations

USER_ENV = '''
"""An environment that only the user's working folder has."""

import os
import threading
import time
from pathlib import Path

import rllib_geoffpac
from fault_envs import DriftEnv

HERE = Path(__file__).parent


class UserEnv(DriftEnv):
    def __init__(self, config=None):
        super().__init__(config)
        if "loaded_from" in self.config:
            files = [__file__, rllib_geoffpac.__file__]
            Path(self.config["loaded_from"]).write_text("\\n".join(files))


def hide():
    # Another machine would not have these files: once the run begins, this one hasn't either.
    while not Path(os.environ["HIDE_WHEN"]).exists():
        time.sleep(0.01)
    for name in ("user_env.py", "fault_envs.py"):
        (HERE / name).rename(HERE / (name + ".hidden"))


if "HIDE_WHEN" in os.environ:
    threading.Thread(target=hide, daemon=True).start()
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A user's working folder."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "user_env.py").write_text(USER_ENV)
    (folder / "fault_envs.py").write_text(Path(__file__).with_name("fault_envs.py").read_text())
    return folder


def command(name: str, project: Path, *more: str, step_seconds: float = 0.0) -> list[str]:
    settings = {
        "num_lanes": 6,
        "learning_starts": 10,
        "replay_capacity": 300,
        "rollout_fragment_length": 20,
        "min_sample_timesteps_per_iteration": 360,
        "num_env_runners": 0,
        "env_config.step_seconds": step_seconds,
    }
    return [
        *(sys.executable, "-m", "rllib_cli", "train", "--algo", "GeoffPAC"),
        *("--env", "user_env:UserEnv", "--num-samples", "2", "--checkpoint-freq", "1"),
        *("--stop", json.dumps({"num_env_steps_sampled_lifetime": STEPS})),
        *("--storage-path", str(project / "results"), "--experiment-name", name),
        *(part for key, value in settings.items() for part in ("--set", f"{key}={value}")),
        *more,
    ]


def start(arguments: list[str], project: Path, **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        arguments,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def results(project: Path, name: str) -> dict[str, list[dict]]:
    """All reported results of every trial, by its seed."""
    trials = {}
    for file in sorted((project / "results" / name).glob("*/result.json")):
        rows = [json.loads(line) for line in file.read_text().splitlines() if line]
        if rows:
            trials[rows[0]["config"]["seed"]] = rows
    return trials


def wait_for(condition, process: subprocess.Popen, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture(scope="module")
def undisturbed(cluster, project) -> dict[int, dict[int, str]]:
    """Digests by seed and iteration; run on a cluster that gets all code from here."""
    loaded_from = project / "loaded_from"
    arguments = command(
        "undisturbed",
        project,
        *("--ray-address", cluster.address, "--set", "num_env_runners=1"),
        *("--set", f"env_config.loaded_from={loaded_from}"),
    )
    begun = project / "results" / "undisturbed" / "experiment.json"
    process = start(arguments, project, HIDE_WHEN=str(begun))
    output, _ = process.communicate(timeout=400)
    for hidden in project.glob("*.hidden"):
        hidden.rename(hidden.with_suffix(""))
    assert process.returncode == 0, output
    return digests(results(project, "undisturbed"))


def digests(trials: dict[int, list[dict]]) -> dict[int, dict[int, str]]:
    return {
        seed: {row["training_iteration"]: row["weights_digest"] for row in rows}
        for seed, rows in trials.items()
    }


def test_the_package_and_the_users_environment_reach_the_workers(undisturbed, project):
    assert sorted(undisturbed) == [0, 1]
    assert all(max(iterations) == 5 for iterations in undisturbed.values())
    for file in (project / "loaded_from").read_text().splitlines():
        assert "runtime_resources" in file, "loaded from this machine's disk instead"


def test_a_killed_driver_is_resumed_with_the_same_weights(undisturbed, project):
    arguments = command("killed", project, "--ray-num-cpus", "1", step_seconds=0.001)
    process = start(arguments, project)

    def second_trial_has_begun() -> bool:
        return len(results(project, "killed").get(1, [])) >= 2

    wait_for(second_trial_has_begun, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = results(project, "killed")
    resumed = start([*arguments, "--resume"], project)
    output, _ = resumed.communicate(timeout=400)
    assert resumed.returncode == 0, output
    after = results(project, "killed")
    assert len(after[0]) == len(before[0]) == 5, "the finished trial was run again"
    assert len(after[1]) < 2 * 5
    assert digests(after) == undisturbed
