"""The learner's whole update against the plain implementation in `reference_learner`."""

import functools

import gymnasium as gym
import numpy as np
import pytest
import torch
from harness import built, learner_of, stream_of, tiny_config
from reference_action_values import ActionValueReference
from reference_learner import ReferenceLearner

from rllib_geoffpac.algorithms.algorithm import LaneTrainingData

LENGTH = 15  # locksteps of a fragment

DISCRETE = gym.spaces.Discrete(3, start=-1)
BOX = gym.spaces.Box(
    np.array([-1.0, 0.5], np.float32), np.array([2.0, 4.0], np.float32), dtype=np.float32
)


def interest(observations):
    return 0.5 + np.abs(np.reshape(observations, (len(observations), -1))).mean(axis=1)


def config(kernel: str, algorithm: str = "GeoffPAC", **training):
    """Rates and frequencies at which every part of the update shows within 150 locksteps."""
    keys = {
        "dtype": "float64",
        "gamma": 0.9,
        "gamma_hat": 0.6,
        "sn_loss_coeff": 0.3,
        "density_ratio_clip": 1.1,
        "replay_capacity": 5 * 30,
        "actor_lr": 3e-3,
        "value_lr": 5e-3,
        "density_ratio_lr": 4e-3,
        "target_update_freq": 13,
    }
    if algorithm != "GeoffPAC":
        del keys["gamma_hat"]
    return tiny_config(algorithm, kernel=kernel, **{**keys, **training})


CONFIGS = {
    "paper": {},
    "one learning rate": {"actor_lr": None, "value_lr": None, "density_ratio_lr": None},
    "box of other bounds": {"env_config": {"action_space": BOX}},
    "bootstrap": {"truncation": "bootstrap", "env_config": {"end": 0.05, "limit": 5}},
    "bootstrap with all lanes cut at once": {
        "truncation": "bootstrap",
        "env_config": {"end": 0.0, "limit": 6},
    },
    "discounts of the environment": {
        "env_config": {"discounts": True},
        "truncation": "bootstrap",
    },
    "truncated gaussian": {
        "policy_distribution": "truncated_gaussian",
        "env_config": {"action_space": BOX},
    },
    "beta": {"policy_distribution": "beta", "env_config": {"action_space": BOX}},
    "categorical": {"env_config": {"action_space": DISCRETE}},
    "discrete observations": {
        "env_config": {
            "action_space": DISCRETE,
            "observation_space": gym.spaces.Discrete(4, start=2),
        }
    },
    "interest": {"interest_fn": interest},
    "value baseline": {"value_baseline": "ema", "baseline_decay": 0.8},
    "overlap force": {"overlap_coeff": 2.0, "value_baseline": "ema", "interest_fn": interest},
    "low clips": {"rho_clip": 0.5, "density_ratio_clip": 0.6, "grad_clip": 0.01},
    "no clipping": {
        "rho_clip": float("inf"),
        "density_ratio_clip": float("inf"),
        "grad_clip": None,
    },
    "lambdas 1": {"lambda_1": 1.0, "lambda_2": 1.0},
    "lambdas 0": {"lambda_1": 0.0, "lambda_2": 0.0},
    "sgd without replay or warm-up": {
        "optimizer_type": "sgd",
        "replay_batch_size": 0,
        "learning_starts": 0,
        "grad_clip": None,
    },
    "adam": {"optimizer_type": "adam"},
    "tanh, three layers": {
        "model_config": {"fcnet_activation": "tanh", "fcnet_hiddens": [8, 5, 6]}
    },
    "no hidden layer": {"model_config": {"fcnet_hiddens": []}},
    "replay from the start": {"learning_starts": 0, "target_update_freq": 1},
    "one lane": {"num_lanes": 1, "replay_capacity": 30, "replay_batch_size": 1},
    "ACE": {"algorithm": "ACE", "lambda_1": 0.7},
    "ACE with the overlap force": {"algorithm": "ACE", "lambda_1": 0.7, "overlap_coeff": 1.5},
    "forward view": {"view": "forward", "interest_fn": interest},
    "forward view, actor replay, overlap target": {
        "view": "forward",
        "interest_fn": interest,
        "lambda_1": 0.0,
        "actor_replay_batch_size": 2,
        "overlap_target": 0.9,
        "counterfactual_value_lr": 2e-3,
        "truncation": "bootstrap",
        "env_config": {"end": 0.05, "limit": 5},
    },
    "backward view, overlap target, updates per lockstep": {
        "overlap_target": 1.0,
        "updates_per_lockstep": 3,
    },
    "learned emphasis, forward, actor replay, emphatic TD": {
        "view": "forward",
        "emphasis": "learned",
        "value_estimator": "etd",
        "actor_replay_batch_size": 2,
        "interest_fn": interest,
        "emphasis_lr": 2e-3,
        "truncation": "bootstrap",
        "env_config": {"end": 0.05, "limit": 5},
    },
    "learned emphasis, backward, COP-TD": {"emphasis": "learned", "value_estimator": "cop_td"},
    "truncated traces, backward, actor replay, V-trace": {
        "emphasis": "truncated",
        "trace_length": 3,
        "value_estimator": "vtrace",
        "vtrace_length": 3,
        "value_baseline": "ema",
        "actor_replay_batch_size": 2,
        "interest_fn": interest,
        "updates_per_lockstep": 2,
        "truncation": "bootstrap",
        "env_config": {"end": 0.05, "limit": 5},
    },
    "truncated traces, forward, emphatic TD, overlap target": {
        "view": "forward",
        "emphasis": "truncated",
        "trace_length": 2,
        "value_estimator": "etd",
        "actor_replay_batch_size": 1,
        "overlap_target": 1.0,
    },
    "ACE with truncated traces": {
        "algorithm": "ACE",
        "lambda_1": 0.7,
        "emphasis": "truncated",
        "trace_length": 4,
        "replay_batch_size": 0,
        "learning_starts": 0,
    },
    "ACE with a learned emphasis and TDRC": {
        "algorithm": "ACE",
        "lambda_1": 0.7,
        "emphasis": "learned",
        "value_estimator": "tdrc",
        "tdrc_regularization": 0.3,
        "correction_lr": 6e-3,
        "truncation": "bootstrap",
        "env_config": {"end": 0.05, "limit": 5},
    },
    "ACE with actor replay and updates per lockstep": {
        "algorithm": "ACE",
        "actor_replay_batch_size": 3,
        "updates_per_lockstep": 2,
        "policy_distribution": "truncated_gaussian",
        "overlap_target": 1.0,
    },
    "action values": {
        "critic": "action_value",
        "emphasis": "learned",
        "lambda_2": 1.0,
        "interest_fn": interest,
        "policy_distribution": "truncated_gaussian",
        "actor_replay_batch_size": 2,
        "overlap_target": 0.9,
        "updates_per_lockstep": 2,
        "policy_delay": 3,
        "tau": 0.1,
        "action_value_lr": 2e-3,
        "counterfactual_action_value_lr": 3e-3,
        "truncation": "bootstrap",
        "env_config": {"end": 0.05, "limit": 5, "action_space": BOX},
    },
    "ACE with action values of discrete actions": {
        "algorithm": "ACE",
        "critic": "action_value",
        "lambda_1": 0.7,
        "optimizer_type": "adam",
        "env_config": {
            "action_space": DISCRETE,
            "observation_space": gym.spaces.Discrete(4, start=2),
        },
    },
    "action values with truncated traces": {
        "critic": "action_value",
        "lambda_2": 1.0,
        "emphasis": "truncated",
        "trace_length": 2,
        "actor_replay_batch_size": 1,
        "policy_delay": 1,
    },
    "action values of a Gaussian, hard copies": {
        "critic": "action_value",
        "lambda_2": 1.0,
        "replay_batch_size": 0,
        "overlap_target": 1.0,
        "policy_delay": 1,
        "gamma": 0.5,
        "action_value_lr": 0.2,
        "clip_action_values": True,
        "actor_ascends": "lower",
        "conservatism": 3.0,
        "policy_average": 3.0,
    },
    "forward view, soft copies": {
        "view": "forward",
        "tau": 0.2,
        "lambda_1": 0.0,
        "policy_average": 7,
        "env_config": {"action_space": DISCRETE},
    },
    "Off-PAC with interest": {"algorithm": "OffPAC", "interest_fn": interest},
}


def module_parameters(module) -> dict[str, np.ndarray]:
    return {n: p.detach().numpy().copy() for n, p in module.state_dict().items()}


def reference_parameters(reference, module) -> dict[str, np.ndarray]:
    """The reference's parameters by the names that the module gives them."""
    tensors = {"pi": list(reference.pi.tensors)}
    tensors |= {name: critic.tensors for name, critic in reference.critics.items()}
    tensors |= {f"{name}_target": list(own) for name, own in reference.targets.items()}
    if reference.config.policy_average is not None:
        tensors["pi_average"] = list(reference.averages)
    named = {}
    for suffix in ("", "_target", "_average"):
        if reference.has_std and f"pi{suffix}" in tensors:
            named[f"std_parameter{suffix}"] = tensors[f"pi{suffix}"].pop()
    for network, own in tensors.items():
        names = [name for name, _ in getattr(module, network).named_parameters()]
        named |= {f"{network}.{name}": t for name, t in zip(names, own, strict=True)}
    return {name: tensor.detach().numpy() for name, tensor in named.items()}


@functools.cache
def reference_history(name: str) -> list[tuple[dict, np.ndarray, np.ndarray, float]]:
    """Parameters, F1, F2 and eta after every fragment; the same for all kernels."""
    with built(config("torch", **CONFIGS[name])) as algo:
        module = learner_of(algo).rl_module
        kind = ActionValueReference if algo.config.uses_action_values else ReferenceLearner
        reference = kind(module, algo.config)
        history = []
        for _ in range(10 if name == "paper" else 6):
            (fragment,) = stream_of(algo, LENGTH)
            reference.learn(fragment)
            named = reference_parameters(reference, module)
            f1, f2 = reference.traces()
            history.append(({n: t.copy() for n, t in named.items()}, f1, f2, reference.eta))
    # A bound that never binds would not be tested.
    assert not algo.config.clip_action_values or reference.clipped > 10
    assert not algo.config.conservatism or reference.penalized > 10
    return history


# `test_backends` holds the compiled backend to torch in these; to compile each again is dear.
ON_TORCH_ALONE = {
    "action values with truncated traces",
    "forward view, soft copies",
    "forward view",
    "learned emphasis, backward, COP-TD",
    "truncated traces, forward, emphatic TD, overlap target",
    "ACE with truncated traces",
    "ACE with a learned emphasis and TDRC",
    "ACE with actor replay and updates per lockstep",
}

PAIRS = [("torch", name) for name in CONFIGS]
PAIRS += [("fast", name) for name in CONFIGS if name not in ON_TORCH_ALONE]


@pytest.mark.parametrize(("kernel", "name"), PAIRS)
def test_the_whole_update_equals_the_plain_implementation(ray, kernel, name):
    expected = reference_history(name)
    with built(config(kernel, **CONFIGS[name])) as algo:
        learner = learner_of(algo)
        assert learner.backend.name == kernel
        start = module_parameters(learner.rl_module)
        for parameters, f1, f2, eta in expected:
            data = LaneTrainingData(episodes=stream_of(algo, LENGTH))
            algo.learner_group.update(training_data=data)
            learned = module_parameters(learner.rl_module)
            assert learned.keys() == parameters.keys()
            for key in parameters:
                np.testing.assert_allclose(
                    learned[key], parameters[key], rtol=1e-9, atol=1e-9, err_msg=key
                )
            traces = learner.get_memory().traces
            np.testing.assert_allclose(traces.f1, f1, rtol=1e-9, atol=1e-9)
            if algo.config.overlap_target is not None:
                assert float(learner.get_memory().multiplier) == pytest.approx(eta, abs=1e-9)
            if algo.config.uses_second_trace:
                np.testing.assert_allclose(traces.f2, f2, rtol=1e-9, atol=1e-9)
    assert algo.config.overlap_target is None or eta > 0.01
    # Every network has moved far beyond the tolerance, or equality would mean nothing.
    moved = {key: np.abs(learned[key] - start[key]).max() for key in start}
    for network in {key.split(".")[0] for key in start}:
        assert max(m for key, m in moved.items() if key.split(".")[0] == network) > 1e-4, network


def test_nothing_but_the_traces_changes_during_the_warm_up(ray, kernel):
    with built(config(kernel, learning_starts=LENGTH, value_baseline="ema")) as algo:
        learner = learner_of(algo)
        start = learner.weights_digest()
        for digest_stays in (True, False):
            data = LaneTrainingData(episodes=stream_of(algo, LENGTH))
            algo.learner_group.update(training_data=data)
            assert (learner.weights_digest() == start) == digest_stays
            assert learner.get_memory().traces.f1.max() > 1  # they accumulate
        assert learner.get_memory().moments.weight > 0


def test_targets_are_copied_on_the_lockstep_that_the_frequency_says(ray, kernel):
    def same(learner) -> bool:
        pairs = learner.rl_module.get_target_network_pairs()
        parameters = [
            zip(network.parameters(), target.parameters(), strict=True) for network, target in pairs
        ]
        return all(torch.equal(a, b) for both in parameters for a, b in both)

    with built(config(kernel, learning_starts=3, target_update_freq=5)) as algo:
        learner, synced = learner_of(algo), []
        for _ in range(16):
            data = LaneTrainingData(episodes=stream_of(algo, 1))
            algo.learner_group.update(training_data=data)
            synced.append(same(learner))
    # Three locksteps of warm-up change nothing; then every fifth lockstep copies.
    assert [t + 1 for t, s in enumerate(synced) if s] == [1, 2, 3, 5, 10, 15]


def test_ace_has_no_density_ratio_and_starts_like_geoff_pac(ray, kernel):
    with built(tiny_config("GeoffPAC", kernel)) as geoff, built(tiny_config("ACE", kernel)) as ace:
        ours, theirs = (module_parameters(learner_of(a).rl_module) for a in (geoff, ace))
    assert not any(name.startswith("c") for name in theirs)
    assert theirs.keys() < ours.keys()
    for name, table in theirs.items():
        np.testing.assert_array_equal(table, ours[name])


def test_off_pac_is_ace_with_lambda_1_zero(ray, kernel):
    digests = []
    for algorithm in ("OffPAC", "ACE"):
        with built(config(kernel, algorithm)) as algo:
            algo.learner_group.update(training_data=LaneTrainingData(episodes=stream_of(algo, 30)))
            digests.append(algo.weights_digest())
    assert digests[0] == digests[1]
