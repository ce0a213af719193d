"""Many lanes, and nothing left behind."""

import os
import time

from small_runs import built, digests, drift_config, pids


def with_300_lanes(num_env_runners: int):
    config = drift_config().training(num_lanes=300, replay_capacity=300 * 50)
    config.env_runners(num_env_runners=num_env_runners)
    return config.reporting(min_sample_timesteps_per_iteration=300 * 40)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_300_lanes_over_3_env_runners_hold_and_leave_no_process_behind(cluster):
    with built(with_300_lanes(0)) as algorithm:
        expected = digests(algorithm, 2)
    with built(with_300_lanes(3)) as algorithm:
        processes = pids(algorithm.env_runner_group)
        assert digests(algorithm, 2) == expected
    deadline = time.monotonic() + 20
    while any(map(is_alive, processes)):
        assert time.monotonic() < deadline, "env runners outlive their algorithm"
        time.sleep(0.1)
