"""Whatever of Tune drives the trials: each has the weights of a run by itself, bit for bit."""

import os
from functools import cache

import pytest
from harness import digests, tiny_config
from ray import tune
from ray.tune import stopper
from ray.tune.schedulers import HyperBandScheduler, MedianStoppingRule
from ray.tune.search import ConcurrencyLimiter, Repeater
from ray.tune.search.optuna import OptunaSearch

from rllib_geoffpac import GeoffPAC

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray")]

METRIC = "env_runners/episode_return_mean"
RATES = (1e-3, 1e-2)
ITERATIONS = 3


@cache
def alone(lr: float) -> tuple[str, ...]:
    """The digests of a run without Tune after every iteration."""
    return tuple(digests(tiny_config(lr=lr), ITERATIONS))


def fit(
    folder, *, trainable="GeoffPAC", space=None, stop=None, tuning=None, **run
) -> tune.ResultGrid:
    tuner = tune.Tuner(
        trainable,
        param_space=tiny_config(lr=tune.grid_search(list(RATES))) if space is None else space,
        tune_config=tune.TuneConfig(metric=METRIC, mode="max", **(tuning or {})),
        run_config=tune.RunConfig(
            name="features",
            storage_path=str(folder),
            stop={"training_iteration": ITERATIONS} if stop is None else stop,
            verbose=0,
            **run,
        ),
    )
    return tuner.fit()


def iterations(grid) -> list[int]:
    """How far each trial came, after a look at its weights."""
    assert not grid.errors
    for result in grid:
        last = result.metrics["training_iteration"]
        assert result.metrics["weights_digest"] == alone(result.config["lr"])[last - 1]
    return sorted(result.metrics["training_iteration"] for result in grid)


def test_a_class_with_resources_until_stoppers_stop_it(tmp_path):
    """The plateau is there after two iterations, before the function or the third would stop."""
    stop = stopper.CombinedStopper(
        stopper.TrialPlateauStopper(
            "num_env_steps_sampled_lifetime", std=1e9, num_results=2, grace_period=2
        ),
        stopper.FunctionStopper(lambda trial, result: result["env_runners"]["weights_seq_no"] > 99),
        stopper.MaximumIterationStopper(ITERATIONS),
    )
    trainable = tune.with_resources(GeoffPAC, {"cpu": 2})
    assert iterations(fit(tmp_path, trainable=trainable, stop=stop)) == [2, 2]


@pytest.mark.parametrize("scheduler", [HyperBandScheduler, MedianStoppingRule])
def test_schedulers_stop_pause_and_go_on(scheduler, tmp_path):
    """HyperBand pauses trials, and goes on with some of them from what it has saved."""
    limits = {
        HyperBandScheduler: {"max_t": ITERATIONS},
        MedianStoppingRule: {
            "time_attr": "training_iteration",
            "grace_period": 1,
            "min_samples_required": 1,
        },
    }
    found = iterations(fit(tmp_path, tuning={"scheduler": scheduler(**limits[scheduler])}))
    assert found[-1] == ITERATIONS


def test_what_a_searcher_chooses_is_learned_and_repeated(tmp_path):
    searcher = Repeater(ConcurrencyLimiter(OptunaSearch(seed=1), max_concurrent=2), repeat=2)
    space = tiny_config(lr=tune.loguniform(1e-4, 1e-2))
    grid = fit(tmp_path, space=space, tuning={"search_alg": searcher, "num_samples": 2})
    assert iterations(grid) == [ITERATIONS] * 2
    assert len({result.config["lr"] for result in grid}) == 1


class Interrupts(tune.Callback):
    """Ends the first fit of a folder in its second iteration, as Ctrl-C does."""

    def __init__(self, marker):
        self.marker = marker

    def on_trial_result(self, iteration, trials, trial, result, **info):
        if result["training_iteration"] == 2 and not os.path.exists(self.marker):
            open(self.marker, "w").close()
            raise KeyboardInterrupt


def test_an_interrupted_tuner_goes_on_and_its_best_result_is_built(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(
            tmp_path,
            callbacks=[Interrupts(str(tmp_path / "interrupted"))],
            checkpoint_config=tune.CheckpointConfig(
                checkpoint_frequency=1,
                checkpoint_at_end=True,
                num_to_keep=2,
                checkpoint_score_attribute="training_iteration",
            ),
        )
    tuner = tune.Tuner.restore(
        str(tmp_path / "features"), trainable="GeoffPAC", resume_unfinished=True
    )
    grid = tuner.fit()
    assert iterations(grid) == [ITERATIONS] * 2
    assert len(grid.get_dataframe()) == 2
    best = grid.get_best_result(METRIC, "max")
    assert len(best.best_checkpoints) == 2
    algo = GeoffPAC.from_checkpoint(best.get_best_checkpoint("training_iteration", "max").path)
    try:
        assert algo.iteration == ITERATIONS
        assert algo.train()["training_iteration"] == ITERATIONS + 1
    finally:
        algo.stop()
