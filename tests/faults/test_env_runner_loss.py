"""Killed and hung env runners, a lost node: the weights come out bit for bit the same."""

import os
import signal
import threading
import time
from contextlib import suppress

import pytest
import ray
from small_runs import built, digests, drift_config, pids

from rllib_geoffpac.compat import env_runner_actors
from rllib_geoffpac.lanes.seeding import behavior_stream
from rllib_geoffpac.lanes.simulated import EnvironmentFailure

ITERATIONS = 4


@pytest.fixture(scope="module")
def undisturbed(cluster) -> list[str]:
    """The digests of a run in a single process."""
    with built(drift_config()) as algorithm:
        return digests(algorithm, ITERATIONS)


def node_of(actor) -> str:
    return ray.get(actor.apply.remote(lambda _: ray.get_runtime_context().get_node_id()))


def counters(result: dict) -> dict:
    return result["env_runners"]


@pytest.fixture(scope="module")
def spread(undisturbed, tmp_path_factory):
    """A run with three env runners and the learner on several nodes, and a way to its start."""
    start = tmp_path_factory.mktemp("spread") / "start"
    config = drift_config().env_runners(num_env_runners=3).learners(num_learners=1)
    with built(config) as algorithm:
        algorithm.save_to_path(start)
        yield algorithm, start


def runner_nodes(algorithm) -> set[str]:
    return set(map(node_of, env_runner_actors(algorithm.env_runner_group).values()))


def learner_node(algorithm) -> str:
    return algorithm.on_learner(lambda _: ray.get_runtime_context().get_node_id())


def test_a_cluster_gives_the_weights_of_a_single_process(spread, undisturbed):
    algorithm, _ = spread
    assert len(runner_nodes(algorithm) | {learner_node(algorithm)}) >= 2
    assert digests(algorithm, ITERATIONS) == undisturbed


def test_runners_killed_one_by_one_and_all_at_once_leave_the_weights_as_they_are(
    spread, undisturbed
):
    algorithm, start = spread
    algorithm.restore_from_path(start)
    os.kill(pids(algorithm.env_runner_group)[1], signal.SIGKILL)
    first = algorithm.train()
    assert first["weights_digest"] == undisturbed[0]
    assert counters(first)["env_runners_lost"] == 1
    for pid in pids(algorithm.env_runner_group):
        os.kill(pid, signal.SIGKILL)
    second = algorithm.train()
    assert second["weights_digest"] == undisturbed[1]
    assert counters(second)["env_runners_lost"] == 4
    assert counters(second)["lanes_resimulated"] >= 6
    assert digests(algorithm, ITERATIONS - 2) == undisturbed[2:]


def test_a_runner_that_was_lost_and_rebuilt_between_two_requests_is_counted(spread, undisturbed):
    algorithm, start = spread
    algorithm.restore_from_path(start)
    before = counters(algorithm.train())["env_runners_lost"]
    killed = pids(algorithm.env_runner_group)[1]
    os.kill(killed, signal.SIGKILL)
    wait_until_rebuilt(lambda: killed not in pids(algorithm.env_runner_group))
    results = [algorithm.train() for _ in range(ITERATIONS - 1)]
    assert [result["weights_digest"] for result in results] == undisturbed[1:]
    assert counters(results[-1])["env_runners_lost"] == before + 1


def wait_until_rebuilt(condition) -> None:
    """Until all env runners answer, and the lost one is not among them any more."""
    while True:
        with suppress(ray.exceptions.RayActorError):
            if condition():
                return
        time.sleep(0.2)


def test_a_lost_node_leaves_the_weights_as_they_are(cluster, spread, undisturbed):
    algorithm, start = spread
    algorithm.restore_from_path(start)
    before = counters(algorithm.train())["env_runners_lost"]
    nodes = runner_nodes(algorithm) - {learner_node(algorithm)}
    lost = next(node for node in cluster.worker_nodes if node.node_id in nodes)
    cluster.remove_node(lost, allow_graceful=False)
    # The processes of a node outlive its raylet for a while, and could do the rest of this run.
    wait_until_rebuilt(lambda: lost.node_id not in runner_nodes(algorithm))
    results = [algorithm.train() for _ in range(ITERATIONS - 1)]
    cluster.add_node(num_cpus=2)
    assert [result["weights_digest"] for result in results] == undisturbed[1:]
    assert counters(results[-1])["env_runners_lost"] > before


def test_runners_killed_again_and_again_leave_the_weights_as_they_are(undisturbed, tmp_path):
    """No runner lives longer than three seconds, for as long as the run lasts."""
    over, killed = threading.Event(), []

    def kill() -> None:
        while not over.wait(0.1):
            for file in tmp_path.iterdir():
                if time.time() - file.stat().st_mtime > 3:
                    file.unlink()
                    with suppress(ProcessLookupError):
                        os.kill(int(file.name), signal.SIGKILL)
                        killed.append(file.name)

    config = drift_config(step_seconds=0.008, pids=str(tmp_path)).env_runners(num_env_runners=2)
    with built(config) as algorithm:
        killer = threading.Thread(target=kill)
        killer.start()
        try:
            results = [algorithm.train() for _ in range(2)]
        finally:
            over.set()
            killer.join()
        results.append(algorithm.train())  # It notices the kills that came after the last result.
    assert [result["weights_digest"] for result in results] == undisturbed[:3]
    assert len(killed) >= 2
    assert counters(results[-1])["env_runners_lost"] >= 2


@pytest.fixture(scope="module")
def local_evaluation(cluster) -> dict:
    with built(with_evaluation(drift_config())) as algorithm:
        algorithm.train()
        return algorithm.train()


def with_evaluation(config):
    return config.evaluation(evaluation_interval=1, evaluation_duration=5)


def test_a_hung_env_runner_and_a_killed_evaluation_runner_are_replaced(local_evaluation, tmp_path):
    fault = {
        "fault": "hang",
        "fault_seed": behavior_stream(0, 4, 1)[0],
        "fault_step": 5,
        "marker": str(tmp_path / "hung"),
    }
    config = with_evaluation(drift_config(**fault))
    config.env_runners(num_env_runners=1, env_hang_timeout_s=3)
    config.evaluation(evaluation_num_env_runners=1)
    with built(config) as algorithm:
        first = algorithm.train()
        assert counters(first)["env_runners_hung"] == 1
        assert counters(first)["env_runners_lost"] == 0
        os.kill(pids(algorithm.eval_env_runner_group)[0], signal.SIGKILL)
        second = algorithm.train()
    assert second["weights_digest"] == local_evaluation["weights_digest"]
    played, expected = (
        result["evaluation"]["env_runners"] for result in (second, local_evaluation)
    )
    assert played["env_runners_lost"] == 1
    assert played["j_pi"] == expected["j_pi"]


def test_an_environment_that_always_hangs_ends_the_run(cluster):
    config = drift_config(fault="hang", fault_step=3)
    config.env_runners(num_env_runners=1, env_hang_timeout_s=1, max_env_failures_in_a_row=1)
    with built(config) as algorithm, pytest.raises(TimeoutError, match="2 times in a row"):
        algorithm.train()


def test_the_error_of_an_environment_comes_from_its_runner_with_its_own_traceback(cluster):
    config = drift_config(fault="raise", fault_step=3).env_runners(num_env_runners=1)
    with built(config) as algorithm, pytest.raises(EnvironmentFailure) as raised:
        algorithm.train()
    assert "step raised OSError: the simulator lost its connection" in str(raised.value)
    assert "fault_envs.py" in str(raised.value.__cause__)
