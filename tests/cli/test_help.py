"""``rllib --help`` is for the impatient."""

import os
import re
import subprocess
import sys

import pytest
from command import COMMAND, environment


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--help"], ["train", "record", "evaluate", "example", "plot", "report", "compare"]),
        (["train", "--help"], ["--algo", "file", "--dry-run", "seed + k"]),
        (["train", "file", "--help"], ["--set", "--resume", "--ray-address", "--wandb-project"]),
        (["record", "--help"], ["--algo", "--steps", "--out", "minari"]),
        (["evaluate", "--help"], ["--episodes", "--video-dir", "--weights-only"]),
        (["plot", "--help"], ["--metric", "--by", "--out"]),
        (["report", "--help"], ["--out", "browser"]),
        (["example", "--help"], ["list", "get", "run"]),
    ],
)
def test_help_names_the_verbs_and_options_in_under_a_second(rllib, arguments, says):
    before = os.times()
    result = rllib(*arguments)
    after = os.times()
    # Time on the processor, which other work on the machine does not lengthen.
    assert after.children_user + after.children_system - before[2] - before[3] < 1
    assert result.status == 0
    assert [word for word in says if word not in result.out] == []


@pytest.mark.parametrize("verb", [["train"], ["train", "file"], ["example", "run"]])
def test_the_options_of_training_are_grouped(rllib, verb):
    shown = rllib(*verb, "--help").out
    titles = [line for line in shown.splitlines() if line.endswith(":") and line[0] != " "]
    groups = ["What to train:", "Results:", "Resources and faults:", "Other options:"]
    assert [title for title in titles if title in groups] == groups


@pytest.mark.parametrize("verb", ["evaluate", "plot", "train", "watch", "status", "compare"])
def test_help_shows_no_types_of_python(rllib, verb):
    shown = rllib(verb, "--help").out
    assert not re.search(r"<\w+( range)?>|\[x>=|[{}]\n|\[required\]", shown), shown


def test_version_names_the_package_ray_and_python(rllib):
    result = rllib("--version")
    assert re.fullmatch(r"rllib_geoffpac \S+, ray \S+, Python \S+\n", result.out)
    assert result.status == 0


def test_the_shell_completes_verbs_and_options(home):
    for words, completed in (("rllib tr", "train"), ("rllib evaluate --wei", "--weights-only")):
        variables = {"_RLLIB_COMPLETE": "complete_bash", "COMP_WORDS": words}
        variables["COMP_CWORD"] = str(len(words.split()) - 1)
        done = subprocess.run(
            COMMAND, cwd=home, env={**environment(), **variables}, capture_output=True, text=True
        )
        assert done.stdout.split() == [completed]


def test_help_imports_neither_ray_nor_torch_nor_gymnasium(home):
    code = (
        "import sys; sys.argv = ['rllib', 'train', 'file', '--help']\n"
        "from rllib_cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'ray', 'torch', 'gymnasium', 'matplotlib', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=home, env=environment(), capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_without_arguments_the_command_explains_itself(rllib):
    result = rllib()
    assert "Usage" in result.text and "Traceback" not in result.text
