"""Tune's PopulationBasedTraining: what it explores acts from the first lockstep on."""

from pathlib import Path

import numpy as np
import pytest
from harness import built, learner_of, tiny_config, train
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining
from witness import Rated

KEYS = ("lr", "actor_lr", "lambda_1")
BEST, EXPLORED, WORST_LR = (1e-2, 2e-2, 0.7), (5e-3, 1e-3, 0.1), 1e-3
ITERATION = 150
"""Its env steps; its last lockstep begins 5 before its end."""


def config(kernel, values):
    return tiny_config(kernel=kernel, dtype="float64", **dict(zip(KEYS, values, strict=True)))


def trained(config) -> tuple[str, dict]:
    """Digest and weights after two iterations without Tune."""
    with built(config) as algo:
        digest = train(algo, 2)[-1]["weights_digest"]
        return digest, learner_of(algo).rl_module.get_state()


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "reuse_actors"), [("torch", False), ("fast", True)])
def test_what_is_explored_acts_from_the_first_lockstep(ray, kernel, reuse_actors, tmp_path):
    """As in a run without Tune that goes over to the new values between two locksteps."""
    # `Rated` scores a trial by its rate, so that it is known who exploits whom.
    trials = config(kernel, BEST).callbacks(callbacks_class=Rated)
    if reuse_actors:
        trials.resources(num_cpus_for_main_process=2.5)  # of 4: one after the other, in one process
    space = trials.to_dict()
    space["lr"] = tune.grid_search([WORST_LR, BEST[0]])
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        metric="rating",
        mode="max",
        perturbation_interval=1,
        quantile_fraction=0.5,
        resample_probability=1.0,
        hyperparam_mutations={
            key: lambda value=value: value for key, value in zip(KEYS, EXPLORED, strict=True)
        },
        synch=True,
    )
    tuner = tune.Tuner(
        "GeoffPAC",
        param_space=space,
        tune_config=tune.TuneConfig(scheduler=scheduler, reuse_actors=reuse_actors),
        run_config=tune.RunConfig(
            stop={"training_iteration": 2},
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
            storage_path=str(tmp_path),
            verbose=0,
        ),
    )
    results = {result.config["lr"]: result for result in tuner.fit()}
    assert set(results) == {BEST[0], EXPLORED[0]}
    digest, _ = trained(config(kernel, BEST))
    assert results[BEST[0]].metrics["weights_digest"] == digest

    explored = results[EXPLORED[0]]
    learned = explored.metrics["learners"]["default_policy"]
    assert (learned["v_learning_rate"], learned["pi_learning_rate"]) == EXPLORED[:2]
    changing = [
        [[0, old], [ITERATION - 5, old], [ITERATION, new]]
        for old, new in zip(BEST, EXPLORED, strict=True)
    ]
    _, expected = trained(config(kernel, changing))
    with np.load(Path(explored.checkpoint.path) / "weights.npz") as found:
        assert set(found) == set(expected)
        for name in found:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-12)
