"""What RLlib lets a user do to a learner: schedules, clipping, optimizers, gradients, changes."""

from functools import partial

import numpy as np
import pytest
import torch
from harness import Walk, built, digests, learner_of, tiny_config, train

from rllib_geoffpac import DDPGConfig
from rllib_geoffpac.compat import use_torch_lr_schedulers
from rllib_geoffpac.learners import EmphaticLearner

RATES = {"lr": [[0, 1e-3], [200, 1e-2]], "actor_lr": [[0, 1e-2], [300, 1e-4]]}
NUMBERS = {"lambda_1": [[0, 0.0], [300, 1.0]], "gamma_hat": [[0, 0.6], [300, 0.1]]}


def learned(result) -> dict:
    return result["learners"]["default_policy"]


def ddpg_config(**training):
    config = DDPGConfig().environment(Walk).rl_module(model_config={"fcnet_hiddens": [8]})
    config.training(**{"num_lanes": 2, "learning_starts": 20, "replay_batch_size": 8, **training})
    return config.reporting(min_sample_timesteps_per_iteration=60)


def weights(algo) -> np.ndarray:
    state = learner_of(algo).rl_module.get_state()
    return np.concatenate([value.reshape(-1) for _, value in sorted(state.items())])


@pytest.mark.slow
def test_schedules_act_lockstep_by_lockstep_whatever_the_fragments(ray, kernel):
    scheduled = tiny_config(kernel=kernel, **RATES, **NUMBERS)
    expected = digests(scheduled)
    other_cut = tiny_config(kernel=kernel, **RATES, **NUMBERS)
    assert digests(other_cut.env_runners(rollout_fragment_length=7)) == expected
    first = {**{k: v[0][1] for k, v in RATES.items()}, **{k: v[0][1] for k, v in NUMBERS.items()}}
    assert digests(tiny_config(kernel=kernel, **first))[-1] != expected[-1]


@pytest.mark.slow
def test_both_backends_follow_the_schedules(ray):
    ends = []
    for kernel in ("torch", "fast"):
        with built(tiny_config(kernel=kernel, dtype="float64", **RATES, **NUMBERS)) as algo:
            results = train(algo, 2)
            ends.append(weights(algo))
        # The last lockstep of 60 begins at env step 295.
        assert learned(results[-1])["v_learning_rate"] == pytest.approx(1e-2)
        actor = 1e-2 + 295 / 300 * (1e-4 - 1e-2)
        assert learned(results[-1])["pi_learning_rate"] == pytest.approx(actor)
    np.testing.assert_allclose(*ends, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
def test_ddpg_follows_schedules_as_well(ray):
    settings = {"critic_lr": [[0, 1e-3], [100, 1e-2]], "tau": [[0, 0.5], [100, 0.0001]]}
    expected = digests(ddpg_config(kernel="torch", **settings), 2)
    cut = ddpg_config(kernel="torch", **settings).env_runners(rollout_fragment_length=3)
    assert digests(cut, 2) == expected
    with built(ddpg_config(kernel="torch", **settings)) as algo:
        assert learned(train(algo, 2)[-1])["q_learning_rate"] == pytest.approx(1e-2)


@pytest.mark.slow
def test_a_schedule_goes_on_after_a_restore(ray, kernel, tmp_path):
    config = partial(tiny_config, kernel=kernel, **RATES, **NUMBERS)
    with built(config()) as algo:
        train(algo, 1)
        algo.save_to_path(tmp_path / "checkpoint")
        expected = train(algo, 1)[0]["weights_digest"]
    with built(config()) as algo:
        algo.restore_from_path(tmp_path / "checkpoint")
        assert train(algo, 1)[0]["weights_digest"] == expected


@pytest.mark.slow
def test_changed_settings_act_from_the_first_lockstep_after_a_restore(ray, kernel, tmp_path):
    """As population-based training changes them: all of one lockstep, step by step with SGD."""
    config = partial(tiny_config, kernel=kernel, optimizer_type="sgd", grad_clip=None)
    with built(config(value_lr=1e-3).reporting(min_sample_timesteps_per_iteration=75)) as algo:
        train(algo, 1)
        algo.save_to_path(tmp_path / "checkpoint")
        before = learner_of(algo).rl_module.get_state()
    steps = []
    for rate in (1e-3, 4e-3):
        changed = config(value_lr=rate).reporting(min_sample_timesteps_per_iteration=5)
        with built(changed) as algo:
            algo.restore_from_path(tmp_path / "checkpoint")
            result = train(algo, 1)[0]
            after = learner_of(algo).rl_module.get_state()
        assert learned(result)["v_learning_rate"] == rate
        steps.append(after["v.4.bias"] - before["v.4.bias"])
    # Two steps, on the replayed and on the current transitions, so not exactly four times.
    np.testing.assert_allclose(steps[1], 4 * steps[0], rtol=0.05)


CLIPPED = {"value": 1e-4, "norm": 1e-3, "global_norm": 1e-3}


@pytest.mark.slow
@pytest.mark.parametrize("by", CLIPPED)
def test_gradients_are_clipped_rllib_s_way(ray, by):
    """With SGD and a rate of 1 a step is the gradient."""
    ends = []
    for kernel in ("torch", "fast"):
        config = tiny_config(kernel=kernel, dtype="float64", optimizer_type="sgd", lr=1.0)
        config.training(grad_clip=CLIPPED[by], grad_clip_by=by, replay_batch_size=0)
        config.reporting(min_sample_timesteps_per_iteration=55)  # learns in the last lockstep
        with built(config) as algo:
            before = learner_of(algo).rl_module.get_state()
            train(algo, 1)
            after = learner_of(algo).rl_module.get_state()
            ends.append(weights(algo))
        steps = {n: after[n] - before[n] for n in after if n.startswith("v.")}
        if by == "value":
            largest = max(abs(step).max() for step in steps.values())
        elif by == "norm":
            largest = max(np.linalg.norm(step) for step in steps.values())
        else:
            largest = np.sqrt(sum(np.linalg.norm(step) ** 2 for step in steps.values()))
        assert largest == pytest.approx(CLIPPED[by], rel=2e-3)
    np.testing.assert_allclose(*ends, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_gradients_are_logged_without_changing_what_is_learned(ray):
    config = tiny_config(kernel="torch")
    expected = digests(tiny_config(kernel="torch"), 1)
    config.reporting(log_gradients=True)
    with built(config) as algo:
        result = train(algo, 1)[0]
    assert [result["weights_digest"]] == expected
    for name in ("pi", "v", "c"):
        assert learned(result)[f"gradients_{name}_global_norm"] > 0
    with built(ddpg_config().reporting(log_gradients=True)) as algo:
        assert learned(train(algo, 1)[0])["gradients_q_global_norm"] > 0
        assert algo.on_learner(lambda learner: learner.backend.name) == "torch"


class Halved(EmphaticLearner):
    """Half of every gradient."""

    def postprocess_gradients_for_module(self, *, module_id, config, module_gradients_dict):
        gradients = super().postprocess_gradients_for_module(
            module_id=module_id, config=config, module_gradients_dict=module_gradients_dict
        )
        return {reference: gradient / 2 for reference, gradient in gradients.items()}


class DoubledLoss(EmphaticLearner):
    """Twice every loss."""

    def compute_gradients(self, loss_per_module, **kwargs):
        doubled = {module: 2 * loss for module, loss in loss_per_module.items()}
        return super().compute_gradients(doubled, **kwargs)


class Frozen(EmphaticLearner):
    """No step at all."""

    def apply_gradients(self, gradients_dict):
        assert gradients_dict and all(torch.isfinite(g).all() for g in gradients_dict.values())


SGD = {"optimizer_type": "sgd", "dtype": "float64", "grad_clip": None}
LEARNERS = {"Halved": (Halved, 2e-3), "DoubledLoss": (DoubledLoss, 5e-4)}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_overridden_gradients_are_honoured(ray, name):
    """With SGD half the gradient is half the rate."""
    learner_class, lr = LEARNERS[name]
    with built(tiny_config(lr=1e-3, **SGD)) as algo:
        train(algo, 2)
        expected = weights(algo)
    config = tiny_config(kernel="auto", lr=lr, **SGD).learners(learner_class=learner_class)
    with built(config) as algo:
        assert learner_of(algo).backend.name == "torch", "the compiled backend steps back"
        train(algo, 2)
        np.testing.assert_allclose(weights(algo), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_apply_gradients_is_the_learner_s(ray):
    with built(tiny_config().learners(learner_class=Frozen)) as algo:
        before = weights(algo)
        result = train(algo, 2)[-1]
        online = [n for n in learner_of(algo).rl_module.get_state() if "target" not in n]
        assert online and np.array_equal(weights(algo), before)
    assert learned(result)["value_loss"] > 0


class OneAdam(EmphaticLearner):
    """One optimizer for all parameters, with a schedule of its own."""

    def configure_optimizers_for_module(self, module_id, config=None):
        parameters = [p for n in ("pi", "v", "c") for p in self.module[module_id].parameters_of(n)]
        self.register_optimizer(
            module_id=module_id,
            optimizer=torch.optim.AdamW(parameters, weight_decay=0.0),
            params=parameters,
            lr_or_lr_schedule=[[0, 1e-3], [300, 1e-4]],
        )


class ThreeAdams(EmphaticLearner):
    """As `optimizer_type="adam"`, written out."""

    def configure_optimizers_for_module(self, module_id, config=None):
        for name in ("pi", "v", "c"):
            parameters = self.module[module_id].parameters_of(name)
            optimizer = torch.optim.Adam(parameters, lr=2e-3, fused=True)
            self.register_optimizer(
                module_id=module_id, optimizer_name=name, optimizer=optimizer, params=parameters
            )


class NoOptimizerOfC(EmphaticLearner):
    def configure_optimizers_for_module(self, module_id, config=None):
        parameters = list(self.module[module_id].pi.parameters())
        self.register_optimizer(
            module_id=module_id, optimizer=torch.optim.Adam(parameters), params=parameters
        )


@pytest.mark.slow
def test_own_optimizers_learn(ray, kernel):
    expected = digests(tiny_config(kernel=kernel, optimizer_type="adam", lr=2e-3), 1)
    config = tiny_config(kernel=kernel).learners(learner_class=ThreeAdams)
    assert digests(config, 1) == expected


def test_one_optimizer_may_serve_all_networks(ray):
    config = tiny_config(kernel="auto").learners(learner_class=OneAdam)
    with built(config) as algo:
        before = learner_of(algo).rl_module.get_state()
        result = train(algo, 2)[-1]
        after = learner_of(algo).rl_module.get_state()
        assert learner_of(algo).backend.name == "torch"
    for name in ("pi.0.weight", "v.0.weight", "c.0.weight", "std_parameter"):
        assert (before[name] != after[name]).any()
    rate = learned(result)["default_optimizer_learning_rate"]
    assert rate == pytest.approx(1e-3 + 295 / 300 * (1e-4 - 1e-3))


def test_a_network_without_an_optimizer_is_named(ray):
    config = tiny_config().learners(learner_class=NoOptimizerOfC)
    with pytest.raises(ValueError, match="registers no optimizer for the parameters of pi"):
        config.build_algo()


@pytest.mark.slow
def test_schedulers_of_torch_step_after_every_update(ray, tmp_path):
    halve = partial(torch.optim.lr_scheduler.StepLR, step_size=10, gamma=0.5)
    config = tiny_config(kernel="auto", lr=1e-3)
    use_torch_lr_schedulers(config, [halve])
    with built(config.copy(copy_frozen=False)) as algo:
        first = learned(train(algo, 1)[0])  # 30 locksteps, 20 of them learn
        assert first["pi_learning_rate"] == first["v_learning_rate"] == pytest.approx(2.5e-4)
        algo.save_to_path(tmp_path / "checkpoint")
        expected = train(algo, 1)[0]
    assert learned(expected)["c_learning_rate"] == pytest.approx(1e-3 / 2**5)
    with built(config.copy(copy_frozen=False).env_runners(rollout_fragment_length=7)) as algo:
        algo.restore_from_path(tmp_path / "checkpoint")
        assert train(algo, 1)[0]["weights_digest"] == expected["weights_digest"]


@pytest.mark.slow
def test_overrides_for_the_module_are_the_settings(ray):
    expected = digests(tiny_config(lr=5e-3, lambda_1=0.1), 1)
    config = tiny_config().multi_agent(
        algorithm_config_overrides_per_module={"default_policy": {"lr": 5e-3, "lambda_1": 0.1}}
    )
    assert digests(config, 1) == expected
    config = tiny_config().multi_agent(algorithm_config_overrides_per_module={"another": {}})
    with pytest.raises(ValueError, match="names the module 'another'; allowed is 'default_policy'"):
        config.validate()


class WithLoss(EmphaticLearner):
    def compute_loss_for_module(self, **kwargs):
        return 0.0


class Watching(EmphaticLearner):
    """Looks at the steps that RLlib tells before and after an update."""

    def before_gradient_based_update(self, *, timesteps):
        super().before_gradient_based_update(timesteps=timesteps)
        steps = timesteps["num_env_steps_sampled_lifetime"]
        self.metrics.log_value("told_steps", steps, reduce="item")


def test_a_learner_with_a_loss_is_refused_by_name():
    with pytest.raises(ValueError, match="WithLoss overrides `compute_loss_for_module`"):
        tiny_config().learners(learner_class=WithLoss).validate()


def test_hooks_around_an_update_are_told_the_env_steps(ray):
    with built(tiny_config().learners(learner_class=Watching)) as algo:
        assert train(algo, 2)[-1]["learners"]["told_steps"] == 300
