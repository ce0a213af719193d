"""Runs the ``rllib`` command: as a subprocess, or in this process where only checks are tested."""

import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

_SCRIPT = Path(sys.executable).with_name("rllib")
COMMAND = [str(_SCRIPT)] if _SCRIPT.exists() else [sys.executable, "-m", "rllib_cli"]
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Finished:
    """What a command printed and how it ended."""

    status: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def environment() -> dict[str, str]:
    """The environment of a user: no settings of the test session, not a terminal."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "TUNE_"))}
    return {**kept, "PYTHONPATH": str(_ROOT)}


@pytest.fixture
def home(tmp_path):
    """A user's empty working folder."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def run(arguments, cwd, timeout=550) -> Finished:
    """Runs ``rllib`` with the given arguments and waits."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def rllib(home):
    """Calls the command in the user's folder."""
    return lambda *arguments: run(arguments, home)


@pytest.fixture
def rllib_here(home, capfd, monkeypatch):
    """Calls the command in this process: for checks that need RLlib, whose import takes seconds."""
    from rllib_cli.main import main

    # Ray's log handler may hold the standard error of an earlier test, which pytest has closed.
    monkeypatch.setattr(logging, "raiseExceptions", False)
    saved = dict(os.environ)

    def call(*arguments) -> Finished:
        monkeypatch.chdir(home)
        monkeypatch.setattr(sys, "argv", ["rllib", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return Finished(ended.value.code or 0, out, err)

    yield call
    os.environ.clear()
    os.environ.update(saved)
