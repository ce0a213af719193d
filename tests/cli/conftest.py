"""Runs the ``rllib`` command: as a subprocess, or in this process where only checks are tested."""

import logging
import os
import sys

import pytest
from command import Finished, run


@pytest.fixture
def home(tmp_path):
    """A user's empty working folder."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def rllib(home):
    """Calls the command in the user's folder."""
    return lambda *arguments: run(arguments, home)


@pytest.fixture
def rllib_here(home, capfd, monkeypatch):
    """Calls the command in this process: for checks that need RLlib, whose import takes seconds."""
    from rllib_cli import interruption
    from rllib_cli.main import main

    monkeypatch.setattr(interruption, "listen", lambda: None)  # Ctrl-C is pytest's
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
