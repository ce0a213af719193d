"""Seconds from `rllib train file` to the first learning step, phase by phase.

    python benchmarks/startup.py [--rounds 5] [--set key=value ...]

Runs the real command in a fresh process, with an iteration of one fragment that learns. The phases
end when the command has checked its input and says where the results go, when the trial's process
begins its first iteration (Ray, the worker's imports and the algorithm are there), and when that
iteration has learned.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPERIMENT = """
startup:
  run: GeoffPAC
  env: HalfCheetah-v5
  stop: {training_iteration: 1}
  config: {min_sample_timesteps_per_iteration: 1000, learning_starts: 10}
"""
PHASES = ["checks", "Ray and the trial", "first learning step", "all of it"]


def measure(settings: list[str]) -> list[float]:
    """Returns the seconds of each phase in one run."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "startup.yaml")
        file.write_text(EXPERIMENT)
        command = [sys.executable, "-m", "rllib_cli", "train", "file", str(file)]
        command += ["--storage-path", folder, *(part for s in settings for part in ("--set", s))]
        began = time.time()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if line.startswith("Results:"):
                    checked = time.time()
        if process.returncode:
            sys.exit(f"The command ended with exit status {process.returncode}.")
        (file,) = Path(folder, "startup").glob("*/result.json")
        result = json.loads(file.read_text().splitlines()[0])
        # Tune's own clock of the result is in whole seconds; the file is written right after it.
        learned = file.stat().st_mtime
        started = learned - result["time_this_iter_s"]
        return [checked - began, started - checked, learned - started, learned - began]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    arguments = parser.parse_args()
    rounds = [measure(arguments.settings) for _ in range(arguments.rounds)]
    print(f"{'seconds':22}{'median':>8}{'min':>8}{'max':>8}")
    for phase, times in zip(PHASES, zip(*rounds, strict=True), strict=True):
        print(f"{phase:22}{statistics.median(times):8.2f}{min(times):8.2f}{max(times):8.2f}")


if __name__ == "__main__":
    main()
