"""Save and restore in mid-run, against a run that was never interrupted."""

import numpy as np
import pytest
from harness import built, digests, learner_of, tiny_config, train, without_times
from ray.rllib.algorithms.algorithm import Algorithm

from rllib_geoffpac.checkpoints import read_weights


def make_config(kernel="fast", **training):
    """With everything on that a checkpoint could forget: moments, both traces, replay, targets."""
    keys = {"value_baseline": "ema", "overlap_coeff": 0.5, "truncation": "bootstrap"}
    return tiny_config(kernel=kernel, **{**keys, **training})


def save_after(config, iterations: int, path) -> str:
    with built(config) as algo:
        train(algo, iterations)
        return algo.save_to_path(str(path))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_restored_run_goes_on_as_if_never_interrupted(ray, kernel, dtype, tmp_path):
    checkpoint = save_after(make_config(kernel, dtype=dtype), 2, tmp_path / "checkpoint")
    algo = Algorithm.from_checkpoint(checkpoint)
    try:
        assert algo.config.kernel == kernel
        results = train(algo, 2)
    finally:
        algo.stop()
    uninterrupted = digests(make_config(kernel, dtype=dtype), 4)
    assert [r["weights_digest"] for r in results] == uninterrupted[2:]
    assert [r["training_iteration"] for r in results] == [3, 4]
    assert [r["num_env_steps_sampled_lifetime"] for r in results] == [450, 600]


def test_a_checkpoint_holds_the_weights_as_plain_arrays(ray, tmp_path):
    with built(make_config(dtype="float64")) as algo:
        train(algo, 1)
        path = algo.save_to_path(str(tmp_path / "checkpoint"))
        state = learner_of(algo).rl_module.state_dict()
    weights = read_weights(path)
    assert weights.keys() == state.keys()
    assert all(np.array_equal(weights[name], state[name]) for name in state)


def test_a_checkpoint_goes_on_with_other_resources(ray, tmp_path):
    checkpoint = save_after(make_config(), 1, tmp_path / "checkpoint")
    other = make_config().env_runners(num_env_runners=2, rollout_fragment_length=7)
    with built(other) as algo:
        algo.restore_from_path(checkpoint)
        continued = [result["weights_digest"] for result in train(algo, 2)]
    assert continued == digests(make_config(), 3)[1:]


def test_an_algorithm_can_be_rolled_back(ray, kernel, tmp_path):
    with built(make_config(kernel)) as algo:
        train(algo, 1)
        checkpoint = algo.save_to_path(str(tmp_path / "checkpoint"))
        first = [result["weights_digest"] for result in train(algo, 2)]
        algo.restore_from_path(checkpoint)
        assert [result["weights_digest"] for result in train(algo, 2)] == first


def test_saving_does_not_change_the_run(ray, kernel, tmp_path):
    with built(make_config(kernel)) as algo:
        seen = []
        for iteration in range(3):
            seen += [result["weights_digest"] for result in train(algo, 1)]
            algo.save_to_path(str(tmp_path / str(iteration)))
    assert seen == digests(make_config(kernel), 3)


def test_evaluation_goes_on_with_the_round_it_had_reached(ray, tmp_path):
    def config():
        return make_config().evaluation(evaluation_interval=1, evaluation_duration=3)

    with built(config()) as algo:
        uninterrupted = train(algo, 3)[-1]["evaluation"]["env_runners"]
    checkpoint = save_after(config(), 2, tmp_path / "checkpoint")
    with built(config()) as algo:
        algo.restore_from_path(checkpoint)
        restored = train(algo, 1)[-1]["evaluation"]["env_runners"]
    assert without_times(restored) == without_times(uninterrupted)


def test_the_kernel_can_be_changed_at_a_checkpoint(ray, tmp_path):
    """The two agree up to rounding, also in the traces and optimizers that they take over."""
    checkpoint = save_after(make_config("torch", dtype="float64"), 1, tmp_path / "checkpoint")
    learned = {}
    for kernel in ("torch", "fast"):
        with built(make_config(kernel, dtype="float64")) as algo:
            algo.restore_from_path(checkpoint)
            train(algo, 1)
            state = learner_of(algo).rl_module.state_dict()
            learned[kernel] = {name: p.numpy().copy() for name, p in state.items()}
    for name, parameter in learned["torch"].items():
        np.testing.assert_allclose(learned["fast"][name], parameter, rtol=1e-9, atol=1e-9)


def test_the_replay_ring_can_be_left_out(ray, tmp_path):
    checkpoint = save_after(make_config(checkpoint_replay=False), 2, tmp_path / "checkpoint")
    with built(make_config(checkpoint_replay=False)) as algo:
        algo.restore_from_path(checkpoint)
        learner = learner_of(algo)
        assert learner.replay.size == 0
        assert learner.num_locksteps == 60
        resumed = train(algo, 1)[0]["weights_digest"]
    # Without the ring other transitions are replayed: the ring is part of exact resume.
    assert resumed != digests(make_config(), 3)[2]


def test_a_ring_of_another_size_is_refused(ray, tmp_path):
    checkpoint = save_after(make_config(), 1, tmp_path / "checkpoint")
    message = "`replay_capacity` is 100 locksteps here and 40 in"
    with (
        built(make_config(replay_capacity=500)) as algo,
        pytest.raises(ValueError, match=message),
    ):
        algo.restore_from_path(checkpoint)


def test_weights_alone_do_not_carry_the_replay_ring(ray):
    """Evaluation asks for weights: the ring and the traces must stay where they are."""
    with built(make_config()) as algo:
        train(algo, 1)
        state = learner_of(algo).get_state(components=["rl_module"])
    assert "rl_module" in state
    assert not {"replay", "progress", "learner_connector", "optimizer"} & set(state)


def test_weights_can_be_set_back(ray, kernel):
    with built(make_config(kernel=kernel)) as algo:
        digest, weights = train(algo, 1)[0]["weights_digest"], algo.get_weights()
        assert train(algo, 1)[0]["weights_digest"] != digest
        algo.set_weights(weights)
        assert algo.weights_digest() == digest
