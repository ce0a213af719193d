"""Logged data: files that vanish or are cut while a run reads them, a runner killed meanwhile."""

import os
import signal

import pytest
from logged_data import walk_episodes, write_packed
from small_runs import built, digests, drift_config, pids

from rllib_geoffpac.data import DataError

EPISODES = walk_episodes(120)  # about 70 locksteps of 6 lanes: an iteration reads 60
ITERATIONS = 4


def logged_config(folder):
    config = drift_config().offline_data(input_=str(folder))
    config.env = None
    return config


@pytest.fixture(scope="module")
def undisturbed(cluster, tmp_path_factory) -> list[str]:
    folder = write_packed(tmp_path_factory.mktemp("whole"), EPISODES, per_file=20)
    with built(logged_config(folder)) as algorithm:
        return digests(algorithm, ITERATIONS)


@pytest.mark.parametrize("fault", ["vanishes", "is cut"])
def test_a_file_that_is_lost_ends_the_run_and_its_return_resumes_it(fault, undisturbed, tmp_path):
    folder = write_packed(tmp_path / "data", EPISODES, per_file=20)
    lost = sorted(folder.iterdir())[3]
    content = lost.read_bytes()
    with built(logged_config(folder)) as algorithm:
        assert digests(algorithm, 1) == undisturbed[:1]
        checkpoint = algorithm.save_to_path(tmp_path / "checkpoint")
        if fault == "vanishes":
            lost.unlink()
        else:
            lost.write_bytes(content[: len(content) // 2])
        with pytest.raises(DataError, match=rf"{lost.name} can't be read .* Bring it back"):
            digests(algorithm, ITERATIONS - 1)
        lost.write_bytes(content)
        algorithm.restore_from_path(checkpoint)
        assert digests(algorithm, ITERATIONS - 1) == undisturbed[1:]


def test_a_runner_killed_while_it_reads_leaves_the_weights_as_they_are(undisturbed, tmp_path):
    folder = write_packed(tmp_path / "data", EPISODES, per_file=20)
    with built(logged_config(folder).env_runners(num_env_runners=2)) as algorithm:
        first = digests(algorithm, 2)
        os.kill(pids(algorithm.env_runner_group)[0], signal.SIGKILL)
        result = [algorithm.train() for _ in range(2)]
    assert [*first, *(r["weights_digest"] for r in result)] == undisturbed
    assert result[-1]["env_runners"]["env_runners_lost"] == 1
