"""Runs for a long time, with kills, and watches what must stay flat: memory, descriptors, actors.

    python benchmarks/soak.py --minutes 30 --kill-every 60

Prints one line per minute. Exit status 1 if memory or file descriptors of the driver grow after
the first fifth of the time, or if actors, processes or shared memory are left behind at the end.
With `--crash` a run is killed with SIGKILL in the middle first, and what it leaves is looked at.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ray

from rllib_geoffpac import GeoffPACConfig
from rllib_geoffpac.compat import env_runner_actors

# What Python's allocator and Ray's object store may still gain after the warm-up.
ALLOWED_GROWTH_MB, ALLOWED_DESCRIPTORS = 80.0, 20


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def descriptors(pid: int) -> int:
    """Open file descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def descendants(pid: int) -> set[int]:
    """All living processes below a process."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, waiting = set(), [pid]
    while waiting:
        waiting += (new := children.get(waiting.pop(), []))
        found.update(new)
    return found


def build() -> Any:
    """300 lanes over 3 env runners, with evaluation and a replay ring that fills early."""
    config = (
        GeoffPACConfig()
        .environment("CartPole-v1")
        .training(num_lanes=300, replay_capacity=30_000, learning_starts=20)
        .env_runners(num_env_runners=3, rollout_fragment_length=20)
        .evaluation(evaluation_interval=5, evaluation_num_env_runners=1, evaluation_duration=4)
        .reporting(min_sample_timesteps_per_iteration=12_000)
    )
    return config.build_algo()


def kill_a_runner(algorithm: Any, turn: int) -> None:
    """SIGKILLs one env runner, by the pid that it gives itself."""
    actors = list(env_runner_actors(algorithm.env_runner_group).values())
    actor = actors[turn % len(actors)]
    os.kill(ray.get(actor.apply.remote(lambda _: os.getpid())), signal.SIGKILL)


def soak(minutes: float, kill_every: float) -> list[tuple[float, float, int]]:
    """Trains for so long; returns (minutes, MB, descriptors) once a minute."""
    began = next_kill = time.monotonic()
    next_kill += kill_every
    algorithm, rows, turn, next_row = build(), [], 0, began
    try:
        while (now := time.monotonic()) - began < 60 * minutes:
            result = algorithm.train()
            if kill_every and now > next_kill:
                kill_a_runner(algorithm, turn)
                turn, next_kill = turn + 1, now + kill_every
            if now >= next_row:
                next_row = now + min(60.0, 6 * minutes)
                rows.append(((now - began) / 60, memory_mb(os.getpid()), descriptors(os.getpid())))
                print(
                    "{:6.1f} min  {:7.1f} MB  {:4d} descriptors".format(*rows[-1]),
                    f"{result['env_runners']['num_env_steps_sampled_lifetime']:>12,.0f} steps",
                    f"{result['env_runners']['env_runners_lost']:>4d} runners lost",
                    flush=True,
                )
    finally:
        algorithm.stop()
    return rows


def what_grew(rows: list[tuple[float, float, int]]) -> list[str]:
    """Complaints about growth between the first fifth of the time and its end."""
    settled, last = rows[len(rows) // 5], rows[-1]
    complaints = []
    if last[1] - settled[1] > ALLOWED_GROWTH_MB:
        complaints.append(f"memory grew from {settled[1]:.0f} to {last[1]:.0f} MB")
    if last[2] - settled[2] > ALLOWED_DESCRIPTORS:
        complaints.append(f"file descriptors grew from {settled[2]} to {last[2]}")
    return complaints


def wait_until_gone(pids: set[int], seconds: float = 90) -> set[int]:
    """Returns the processes that are still alive after so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pids = {pid for pid in pids if _is_alive(pid)}
        if not pids:
            break
        time.sleep(0.5)
    return pids


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def shared_memory() -> set[str]:
    """Names of the shared memory segments of this machine."""
    return {entry.name for entry in Path("/dev/shm").iterdir()}


def crash() -> list[str]:
    """Kills a whole run with SIGKILL; returns what it left behind."""
    before = shared_memory()
    run = subprocess.Popen([sys.executable, __file__, "--minutes", "5", "--kill-every", "0"])
    time.sleep(40)
    family = descendants(run.pid)
    run.send_signal(signal.SIGKILL)
    run.wait()
    return left_behind(family, before)


def left_behind(family: set[int], segments_before: set[str]) -> list[str]:
    """Complaints about processes and segments that outlive a run."""
    complaints = []
    if remaining := wait_until_gone(family):
        complaints.append(f"processes are left: {sorted(remaining)}")
    if segments := shared_memory() - segments_before:
        complaints.append(f"shared memory is left: {sorted(segments)}")
    return complaints


def main() -> int:
    """Runs the soak test; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--kill-every", type=float, default=60.0, help="seconds; 0: never")
    parser.add_argument("--crash", action="store_true")
    arguments = parser.parse_args()
    complaints = crash() if arguments.crash else []
    segments = shared_memory()
    ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    rows = soak(arguments.minutes, arguments.kill_every)
    complaints += what_grew(rows)
    family = descendants(os.getpid())
    ray.shutdown()
    complaints += left_behind(family, segments)
    print("\n".join(complaints) or "All flat, nothing left behind.")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
