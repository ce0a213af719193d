"""The ``rllib`` command as a user runs it: a subprocess in a folder of its own."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

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
