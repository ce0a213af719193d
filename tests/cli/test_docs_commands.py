"""Every command and every experiment that the pages show, given to the real command."""

import itertools
import os
import re
import shlex
import shutil

import pages
import pytest
from command import run

TRAINED = "reacher-sweep"
SMOKE = "smoke-geoffpac-reacher"
EXTENDING = "docs/extending.md"
READ_RESULTS = ("evaluate", "export", "plot", "report", "watch", "status", "compare")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The README's sweep, run for a moment; the folder is also there under the other name."""
    home = tmp_path_factory.mktemp("trained")
    (home / "sweep.yaml").write_text(_readme_sweep())
    budget = ["--stop", "{num_env_steps_sampled_lifetime: 400}", "--num-samples", 1]
    settings = ["--set", "evaluation_interval=1", "--set", "evaluation_duration=2"]
    settings += ["--set", "min_sample_timesteps_per_iteration=200"]
    storage = home / "ray_results"
    done = run(["train", "file", "sweep.yaml", *budget, *settings, "--storage-path", storage], home)
    assert done.status == 0, done.text
    shutil.copytree(storage / TRAINED, storage / SMOKE)
    return storage


def _readme_sweep() -> str:
    (block,) = [b for b in pages.blocks("yaml") if b.page == "README.md"]
    return block.text


@pytest.fixture
def at_home(home, monkeypatch):
    """A user's home with everything that the pages' commands take for granted."""
    (home / "sweep.yaml").write_text(_readme_sweep())
    (home / "tuned_examples").symlink_to(pages.ROOT / "tuned_examples")
    monkeypatch.setenv("HOME", str(home))
    return home


def _marks(command):
    return [pytest.mark.slow] if command.split()[1] in READ_RESULTS else []


COMMANDS = [
    pytest.param(command, id=f"{block}: {command[:60]}", marks=_marks(command))
    for block in pages.blocks("bash")
    for command in pages.commands(block)
    if not command.startswith("python3.11 -m venv")  # the README's two: .ci/run runs the second
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_pages_run(command, at_home, rllib_here, request):
    program, *words = shlex.split(command)
    assert program == "rllib"
    if words[0] == "train" or words[:2] == ["example", "run"]:
        words.append("--dry-run")
    elif words[0] in READ_RESULTS:
        (at_home / "ray_results").symlink_to(request.getfixturevalue("results"))
        words = [_at(at_home, word) for word in words]
    finished = rllib_here(*words)
    assert finished.status == 0, finished.text
    for option, value in itertools.pairwise(words):
        assert option != "--out" or (at_home / value).stat().st_size > 0


def _at(home, word):
    """A word with ~ and the placeholder TRIAL filled in."""
    if word.endswith("/TRIAL"):
        folder = home / os.path.relpath(word.removesuffix("/TRIAL"), "~")
        return str(next(path for path in sorted(folder.iterdir()) if path.is_dir()))
    return word.replace("~", str(home), 1) if word.startswith("~") else word


@pytest.mark.parametrize("block", pages.blocks("yaml"), ids=str)
def test_experiments_of_the_pages_are_valid(block, at_home, rllib_here, monkeypatch):
    if block.page == EXTENDING:
        (at_home / "my_lab.py").write_text(pages.my_lab())
        monkeypatch.syspath_prepend(at_home)
    (at_home / "experiment.yaml").write_text(block.text)
    finished = rllib_here("train", "file", "experiment.yaml", "--dry-run")
    assert finished.status == 0, finished.text
    name = re.match(r"\S+(?=:)", block.text)[0]
    assert name in finished.text


def test_a_python_experiment_of_the_pages_is_valid(at_home, rllib_here):
    (block,) = [b for b in pages.blocks("python") if b.page == "docs/command-line.md"]
    (at_home / "experiment.py").write_text(block.text)
    finished = rllib_here("train", "file", "experiment.py", "--dry-run")
    assert finished.status == 0, finished.text
