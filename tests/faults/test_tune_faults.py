"""Trials through Tune: killed processes, divergence, a full disk, all in one sweep."""

import os
import signal
from pathlib import Path

import pytest
from ray import tune
from small_runs import built, digests, drift_config

from rllib_geoffpac import GeoffPAC

ITERATIONS = 5
KILLED_AFTER = 3


def kill_the_process(algorithm) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_the_learner(algorithm) -> None:
    os.kill(algorithm.on_learner(lambda _: os.getpid()), signal.SIGKILL)


KILLS = {"trial": kill_the_process, "learner": kill_the_learner}


def kill_once(algorithm, result, **kwargs) -> None:
    """RLlib callback in the trial's process: the configured process dies once."""
    victim, marker = (algorithm.config.env_config.get(key) for key in ("victim", "killed"))
    if victim and algorithm.iteration >= KILLED_AFTER and not os.path.exists(marker):
        Path(marker).touch()
        KILLS[victim](algorithm)


@pytest.fixture(scope="module")
def sweep(cluster, tmp_path_factory):
    """Four trials: two lose a process, one diverges, one is left alone."""
    folder = tmp_path_factory.mktemp("sweep")
    config = drift_config().callbacks(on_train_result=kill_once)
    env_configs = [
        {"victim": "trial", "killed": str(folder / "trial")},
        {"victim": "learner", "killed": str(folder / "learner")},
        {"fault": "huge_reward", "fault_step": 3},
        {},
    ]
    space = config.to_dict() | {
        "env_config": tune.grid_search(env_configs),
        "num_learners": tune.sample_from(
            lambda spec: int(spec.config["env_config"].get("victim") == "learner")
        ),
    }
    tuner = tune.Tuner(
        "GeoffPAC",
        param_space=space,
        run_config=tune.RunConfig(
            name="sweep",
            storage_path=str(folder),
            stop={"training_iteration": ITERATIONS},
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=2, checkpoint_at_end=True),
            failure_config=tune.FailureConfig(max_failures=2),
            verbose=0,
        ),
    )
    return {trial_name(result): result for result in tuner.fit()}


def trial_name(result) -> str:
    env_config = result.config["env_config"]
    return env_config.get("victim") or env_config.get("fault") or "healthy"


@pytest.fixture(scope="module")
def undisturbed(cluster) -> list[str]:
    with built(drift_config()) as algorithm:
        return digests(algorithm, ITERATIONS)


@pytest.mark.parametrize("victim", ["trial", "learner"])
def test_a_trial_whose_process_was_killed_ends_with_the_same_weights(sweep, undisturbed, victim):
    result = sweep[victim]
    assert os.path.exists(result.config["env_config"]["killed"])
    assert result.error is None
    rows = result.metrics_dataframe
    # Iteration 2 was checkpointed, 3 is done twice.
    for iteration, digest in zip(rows["training_iteration"], rows["weights_digest"], strict=True):
        assert digest == undisturbed[iteration - 1]
    assert rows["training_iteration"].iloc[-1] == ITERATIONS
    assert result.metrics["iterations_since_restore"] < ITERATIONS


def test_a_diverged_trial_stops_with_its_last_good_weights_and_the_sweep_goes_on(
    sweep, undisturbed
):
    diverged, healthy = sweep["huge_reward"], sweep["healthy"]
    assert diverged.metrics["diverged"] and diverged.error is None
    assert diverged.metrics["training_iteration"] < ITERATIONS
    assert healthy.metrics["weights_digest"] == undisturbed[-1]
    assert not healthy.metrics["diverged"]
    algorithm = GeoffPAC.from_checkpoint(diverged.checkpoint.path)
    finite = algorithm.on_learner(
        lambda learner: all(p.isfinite().all() for p in learner.rl_module.parameters())
    )
    algorithm.stop()
    assert finite


def test_a_gpu_that_does_not_exist_is_an_error_and_no_hang(cluster):
    for num_learners, message in (
        (0, "sees no GPU"),
        (1, "need 1 GPUs, and the Ray cluster has 0"),
    ):
        config = drift_config().learners(num_learners=num_learners, num_gpus_per_learner=1)
        with pytest.raises(ValueError, match=message):
            config.build_algo()


def test_more_env_runners_than_the_cluster_holds_are_an_error_and_no_hang(cluster):
    config = drift_config().training(num_lanes=50).env_runners(num_env_runners=50)
    with pytest.raises(ValueError, match="need 50 CPUs, and the Ray cluster has 6: lower"):
        config.build_algo()
