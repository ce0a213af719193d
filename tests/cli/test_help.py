"""``rllib --help`` is for the impatient."""

import os
import subprocess
import sys

import pytest
from command import environment


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
