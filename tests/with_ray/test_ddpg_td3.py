"""DDPG and TD3: against a plain implementation, on any resources, resumed, and on Pendulum."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from harness import Walk, built, digests, learner_of, stream_of, train
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from rllib_geoffpac import DDPGConfig, TD3Config
from rllib_geoffpac.compat import env_runner_actors
from rllib_geoffpac.lanes.seeding import replay_generator
from rllib_geoffpac.modules.deterministic_actor_critic import DeterministicActorCriticRLModule

pytestmark = pytest.mark.usefixtures("ray")

CONFIGS = {"DDPG": DDPGConfig, "TD3": TD3Config}
BOX = gym.spaces.Box(np.float32([-2, 0]), np.float32([2, 5]))


@pytest.fixture(params=CONFIGS)
def algorithm(request) -> str:
    return request.param


def tiny(algorithm: str, behavior: str = "uniform", **training):
    """2 lanes of `Walk` in an uneven action box, 25 locksteps per iteration, learning after 9."""
    return (
        CONFIGS[algorithm]()
        .environment(Walk, env_config={"action_space": BOX})
        .training(
            **{
                "num_lanes": 2,
                "replay_capacity": 60,
                "replay_batch_size": 6,
                "learning_starts": 18,
                **training,
            }
        )
        .env_runners(behavior=behavior)
        .rl_module(model_config={"fcnet_hiddens": [7, 5]})
        .reporting(min_sample_timesteps_per_iteration=50)
        .evaluation(evaluation_duration=3)
    )


# A plain implementation: numpy, gradients by hand, its own Adam.


def forward(layers, inputs, actions=None, action_layer=None):
    """Returns the linear output and what went into each layer."""
    entered, features = [], inputs
    for k, (weight, bias) in enumerate(layers):
        if k == action_layer:
            features = np.concatenate([features, actions], axis=1)
        entered.append(features)
        features = features @ weight.T + bias
        if k < len(layers) - 1:
            features = np.maximum(features, 0)
    return features, entered


def backward(layers, entered, gradient, action_layer=None, num_actions=0):
    """Returns the gradients of the layers and of the action, given the output's."""
    gradients, of_action = [], None
    for k in reversed(range(len(layers))):
        gradients[:0] = [gradient.T @ entered[k], gradient.sum(0)]
        gradient = gradient @ layers[k][0]
        if k == action_layer:
            of_action = gradient[:, -num_actions:]
            gradient = gradient[:, :-num_actions]
        if k:
            gradient = gradient * (entered[k][:, : gradient.shape[1]] > 0)
    return gradients, of_action


class Adam:
    def __init__(self, layers, lr, decay):
        self.parameters = [p for layer in layers for p in layer]
        self.lr, self.decay, self.t = lr, decay, 0
        self.m = [np.zeros_like(p) for p in self.parameters]
        self.v = [np.zeros_like(p) for p in self.parameters]

    def descend(self, gradients):
        self.t += 1
        for p, g, m, v in zip(self.parameters, gradients, self.m, self.v, strict=True):
            g = g + self.decay * p
            m += 0.1 * (g - m)
            v += 0.001 * (g**2 - v)
            p -= self.lr * (m / (1 - 0.9**self.t)) / (np.sqrt(v / (1 - 0.999**self.t)) + 1e-8)


class Plain:
    """Takes over a learner's initial networks and learns from fragments."""

    def __init__(self, learner, config):
        def layers(network):
            p = [q.detach().numpy().copy() for q in network.parameters()]
            return list(zip(p[::2], p[1::2], strict=True))

        module = learner.rl_module
        self.pi, self.q = layers(module.pi), [layers(critic) for critic in module.q]
        self.pi_target, self.q_target = layers(module.pi), [layers(critic) for critic in module.q]
        self.config, self.td3 = config, len(self.q) == 2
        self.action_layer = 0 if self.td3 else 1
        actor_lr, critic_lr, decay = (1e-3, 1e-3, 0) if self.td3 else (1e-4, 1e-3, 1e-2)
        self.adam_pi = Adam(self.pi, actor_lr, 0)
        self.adam_q = [Adam(critic, critic_lr, decay) for critic in self.q]
        self.rng, self.ring, self.count = replay_generator(config.seed), {}, 0

    def learn(self, fragment):
        index, final = fragment.final_index, fragment.final_observations
        finals = {tuple(i): o for i, o in zip(index, final, strict=True)}
        low, high = BOX.low.astype(float), BOX.high.astype(float)
        for t in range(fragment.num_locksteps):
            for lane in range(2):
                unit = (2 * fragment.actions[t, lane] - low - high) / (high - low)
                after = finals.get((t, lane), fragment.observations[t + 1, lane])
                gamma = np.float32(0 if fragment.terminated[t, lane] else 0.99)
                s, r = fragment.observations[t, lane], fragment.rewards[t, lane]
                # A ring of 60: the newest takes the place of the oldest.
                self.ring[(2 * t + lane) % 60] = (s, unit.astype(np.float32), r, after, gamma)
            for _ in range(2 if t >= 9 else 0):
                drawn = [self.ring[i] for i in self.rng.integers(len(self.ring), size=6)]
                self.update(*(np.array(c, float) for c in zip(*drawn, strict=True)))

    def update(self, s, a, r, after, gamma):
        action = np.tanh(forward(self.pi_target, after)[0])
        if self.td3:
            noise = self.rng.standard_normal(action.shape, np.float32).astype(float)
            action = np.clip(action + np.clip(0.2 * noise, -0.5, 0.5), -1, 1)
        q_next = [forward(q, after, action, self.action_layer)[0][:, 0] for q in self.q_target]
        y = r + gamma * np.min(q_next, axis=0)
        for critic, adam in zip(self.q, self.adam_q, strict=True):
            value, entered = forward(critic, s, a, self.action_layer)
            error = 2 * (value - y[:, None]) / len(y)
            adam.descend(backward(critic, entered, error, self.action_layer, 2)[0])
        self.count += 1
        if self.td3 and self.count % 2:
            return
        output, entered_pi = forward(self.pi, s)
        action = np.tanh(output)
        value, entered = forward(self.q[0], s, action, self.action_layer)
        uniform = -np.ones_like(value) / len(value)
        of_action = backward(self.q[0], entered, uniform, self.action_layer, 2)[1]
        self.adam_pi.descend(backward(self.pi, entered_pi, of_action * (1 - action**2))[0])
        tau = 5e-3 if self.td3 else 1e-3
        for source, target in ((self.pi, self.pi_target), *zip(self.q, self.q_target, strict=True)):
            for new, old in zip(source, target, strict=True):
                for fresh, stale in zip(new, old, strict=True):
                    stale += tau * (fresh - stale)

    def networks(self):
        names = [("pi", self.pi), ("pi_target", self.pi_target)]
        for k, (critic, target) in enumerate(zip(self.q, self.q_target, strict=True)):
            names += [(f"q.{k}", critic), (f"q_target.{k}", target)]
        return names


def test_updates_equal_a_plain_implementation(algorithm, kernel):
    config = tiny(algorithm, dtype="float64", kernel=kernel)
    with built(config) as algo, built(tiny(algorithm)) as source:
        learner = learner_of(algo)
        assert learner.backend.name == kernel
        plain = Plain(learner, config)
        plain.learn(stream_of(source, 75)[0])
        train(algo, 3)
        assert plain.count == 2 * (75 - 9)
        for name, layers in plain.networks():
            learned = learner.rl_module.get_submodule(name).parameters()
            for ours, plain_one in zip(learned, (p for pair in layers for p in pair), strict=True):
                np.testing.assert_allclose(ours.detach().numpy(), plain_one, rtol=0, atol=1e-10)


def test_terminate_and_bootstrap_differ_at_time_limits_only(algorithm):
    ends = {"end": 0.0, "action_space": BOX}
    for limit, differ in ((8, True), (1000, False)):
        pair = [
            digests(tiny(algorithm, truncation=t).environment(env_config=ends | {"limit": limit}))
            for t in ("terminate", "bootstrap")
        ]
        assert (pair[0] != pair[1]) is differ


def test_env_runners_change_nothing_under_a_fixed_behavior():
    config = tiny("DDPG").env_runners(num_env_runners=2)
    assert digests(config) == digests(tiny("DDPG"))


def test_env_runners_and_their_loss_change_nothing_with_noise(ray):
    config = tiny("TD3", "noise").env_runners(num_env_runners=2)
    config.fault_tolerance(restart_failed_env_runners=True)
    with built(config) as algo:
        train(algo, 1)
        ray.kill(env_runner_actors(algo.env_runner_group)[1], no_restart=False)
        digest = train(algo, 1)[0]["weights_digest"]
    assert digest == digests(tiny("TD3", "noise"), 2)[-1]


def test_fragment_length_changes_nothing_under_a_fixed_behavior(algorithm):
    first, second = (
        digests(tiny(algorithm).env_runners(rollout_fragment_length=n)) for n in (3, 100)
    )
    assert first == second
    assert digests(tiny(algorithm).debugging(seed=1)) != first


@pytest.mark.parametrize(
    ("behavior", "kernel", "dtype"),
    [
        ("uniform", "fast", "float32"),
        ("noise", "fast", "float32"),
        ("uniform", "torch", "float32"),
        ("uniform", "fast", "float64"),
    ],
)
def test_a_checkpoint_resumes_exactly(algorithm, behavior, kernel, dtype, tmp_path):
    config = tiny(algorithm, behavior, kernel=kernel, dtype=dtype)
    with built(config) as algo:
        train(algo, 2)
        assert (algo.stream.anchor.steps > 0).any()  # in the middle of an episode
        path = algo.save_to_path(tmp_path / "checkpoint")
        straight = [r["weights_digest"] for r in train(algo, 2)]
    with built(config.copy(copy_frozen=False)) as resumed:
        resumed.restore_from_path(path)
        assert [r["weights_digest"] for r in train(resumed, 2)] == straight


def test_the_kernel_can_be_changed_at_a_checkpoint(algorithm, tmp_path):
    """They agree up to rounding, also in the optimizers that they take over."""
    learned = []
    for writer, reader in (("torch", "torch"), ("torch", "fast"), ("fast", "torch")):
        with built(tiny(algorithm, dtype="float64", kernel=writer)) as algo:
            train(algo, 1)
            path = algo.save_to_path(tmp_path / writer / reader)
        with built(tiny(algorithm, dtype="float64", kernel=reader)) as algo:
            algo.restore_from_path(path)
            train(algo, 2)
            learned.append(learner_of(algo).rl_module.state_dict())
    for name, parameter in learned[0].items():
        for changed in learned[1:]:
            torch.testing.assert_close(changed[name], parameter, rtol=0, atol=1e-10)


def test_weights_alone_leave_the_optimizers_as_they_are(algorithm):
    with built(tiny(algorithm)) as algo:
        train(algo, 1)
        learner = learner_of(algo)
        learner.get_state()  # torch's optimizers are behind the kernel from here on
        train(algo, 1)
        learner.set_state({"rl_module": learner.module.get_state()})
        digest = train(algo, 1)[0]["weights_digest"]
    assert digest == digests(tiny(algorithm))[2]


class OtherModule(DeterministicActorCriticRLModule):
    """Could have other networks."""


def test_the_kernel_serves_the_default_networks_only(algorithm):
    spec = RLModuleSpec(OtherModule, model_config={"fcnet_hiddens": [7, 5]})
    with built(tiny(algorithm).rl_module(rl_module_spec=spec)) as algo:
        assert learner_of(algo).backend.name == "torch"
    message = "`kernel` is 'fast', but the compiled backend can't serve: .* is a OtherModule"
    with pytest.raises(ValueError, match=message):
        tiny(algorithm, kernel="fast").rl_module(rl_module_spec=spec).build_algo()


def test_noise_explores_around_the_current_policy_after_a_uniform_warm_up():
    with built(tiny("TD3", "noise", exploration_noise=0.0)) as algo, built(tiny("TD3")) as uniform:
        weights = algo.behavior_weights()
        module = learner_of(algo).rl_module

        def sample(stream, count):
            return stream.next(iter([count] * 9), weights if stream is algo.stream else None)[0]

        warm_up = sample(algo.stream, 9)
        np.testing.assert_array_equal(warm_up.actions, sample(uniform.stream, 9).actions)
        explored = sample(algo.stream, 20)
        with torch.no_grad():
            unit = module.policy(torch.from_numpy(explored.observations[:-1]).flatten(0, 1))
        expected = module.distribution.mode(unit.numpy()).reshape(20, 2, 2)
        np.testing.assert_allclose(explored.actions, expected, atol=1e-5)

    with built(tiny("TD3", "noise", exploration_noise=0.1)) as algo:
        learner_of(algo).rl_module.pi[-2].weight.data.zero_()
        learner_of(algo).rl_module.pi[-2].bias.data.zero_()
        weights = algo.behavior_weights()
        sample(algo.stream, 9)
        noise = sample(algo.stream, 2000).actions - (BOX.low + BOX.high) / 2
        np.testing.assert_allclose(noise.std((0, 1)), [0.2, 0.25], rtol=0.1)


def test_evaluation_plays_the_policy_without_noise():
    results = []
    for explore in (True, False):
        config = tiny("TD3").evaluation(evaluation_config={"explore": explore})
        with built(config.evaluation(evaluation_interval=1)) as algo:
            results.append(train(algo, 1)[0]["evaluation"]["env_runners"])
    assert results[0]["j_pi"] == results[1]["j_pi"]
    assert results[0]["episode_return_mean"] == results[1]["episode_return_mean"]


def test_metrics_and_divergence(algorithm):
    with built(tiny(algorithm)) as algo:
        metrics = train(algo, 2)[-1]["learners"]["default_policy"]
        for name in ("critic_loss", "q_mean", "q_target_mean", "actor_objective", "learn_seconds"):
            assert np.isfinite(metrics[name])
        assert 0 <= metrics["action_saturation_share"] <= 1
        assert metrics["num_updates"] == 2 * (50 - 9)
        module = learner_of(algo).rl_module
        module.q[0].layers[0].bias.data.fill_(torch.nan)
        result = train(algo, 1)[0]
        assert result["diverged"] and result["done"]
        module = learner_of(algo).rl_module
        assert all(torch.isfinite(p).all() for p in module.parameters())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tau", 0),
        ("truncation", "ignore"),
        ("actor_lr", -1),
        ("critic_lr", "fast"),
        ("critic_weight_decay", -0.1),
        ("replay_batch_size", 0),
        ("replay_capacity", 1),
        ("learning_starts", -1),
        ("exploration_noise", -0.1),
        ("dtype", "float16"),
        ("kernel", "numpy"),
        ("policy_delay", 0),
        ("target_noise", -0.2),
        ("target_noise_clip", -0.5),
    ],
)
def test_impossible_values_are_refused_by_name(key, value):
    with pytest.raises(ValueError, match=f"`{key}` is {value!r}; allowed is"):
        tiny("TD3", **{key: value}).validate()


def test_ddpg_has_no_td3_keys():
    for set_key in (DDPGConfig().training, lambda **kw: DDPGConfig().update_from_dict(kw)):
        with pytest.raises(ValueError, match="no key `policy_delay`"):
            set_key(policy_delay=2)


def test_discrete_actions_are_refused(algorithm):
    config = tiny(algorithm).environment(env_config={"action_space": gym.spaces.Discrete(3)})
    with pytest.raises(ValueError, match="DDPG and TD3 need continuous actions"):
        config.build_algo()


# Uniformly random actions return about -1200. After so many steps seeds 0 to 4 of DDPG reached, on
# other episodes, -158, -112, -204, -178 and -164; seeds 0 to 3 of TD3 -210, -144, -122 and -211.
# Weights differ between kinds of processors: after 5,000 steps a seed of TD3 is at -150 on one kind
# and still at -466 on another.
@pytest.mark.parametrize(
    ("config", "steps"),
    [
        (DDPGConfig().training(actor_lr=1e-3, critic_weight_decay=0.0), 7000),
        (TD3Config(), 8000),
    ],
    ids=["DDPG", "TD3"],
)
def test_pendulum_is_learned_with_noise(config, steps):
    config = (
        config.environment("Pendulum-v1")
        .env_runners(behavior="noise")
        .training(num_lanes=5, learning_starts=500, lr=3e-3, tau=0.01)
        .rl_module(model_config={"fcnet_hiddens": [64, 64]})
        .reporting(min_sample_timesteps_per_iteration=steps)
        .evaluation(evaluation_interval=1, evaluation_duration=10)
    )
    with built(config) as algo:
        evaluation = train(algo, 1)[0]["evaluation"]["env_runners"]
    assert evaluation["episode_return_mean"] > -400
