"""Configs: the paper's defaults, and a clear word for every impossible value or misspelt key."""

import logging
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from harness import CONFIGS, Walk, built, learner_of, tiny_config, train
from impossible_values import IMPOSSIBLE, INF
from ray import tune
from ray.rllib.env.multi_agent_env import MultiAgentEnv

import rllib_geoffpac
from rllib_cli.experiment import parse as experiments
from rllib_cli.run.progress import STEPS
from rllib_geoffpac import ACEConfig, DDPGConfig, GeoffPAC, GeoffPACConfig, OffPACConfig
from rllib_geoffpac.algorithms.algorithm import _drawn_seed
from rllib_geoffpac.compat import SETTING_ATTRIBUTES
from rllib_geoffpac.modules import MLPRLModule

ROOT = Path(__file__).parents[2]
VALUES = [
    (algorithm, key, value)
    for algorithm, impossible in IMPOSSIBLE.items()
    for key, values in impossible.items()
    for value in values
]


def config_of(algorithm):
    return getattr(rllib_geoffpac, f"{algorithm}Config")()


@pytest.mark.parametrize(("algorithm", "key", "value"), VALUES)
def test_impossible_values_are_refused_by_name(algorithm, key, value):
    config = config_of(algorithm).environment(Walk)
    setattr(config, SETTING_ATTRIBUTES.get(key, key), value)
    with pytest.raises(ValueError) as error:
        config.validate()
    message = str(error.value)
    assert f"`{key}` is {value!r}; allowed is" in message
    assert "Traceback" not in message


@pytest.mark.parametrize("algorithm", IMPOSSIBLE)
def test_every_validated_key_has_impossible_values_here(algorithm):
    assert {key for key, *_ in config_of(algorithm)._checks()} == set(IMPOSSIBLE[algorithm])


def test_possible_extremes_are_accepted():
    for training in (
        {"rho_clip": INF, "density_ratio_clip": INF, "grad_clip": None},
        {"lambda_1": 0, "lambda_2": 1, "gamma_hat": 0.999, "gamma": 1},
        {"replay_batch_size": 0, "learning_starts": 0, "target_update_freq": 1},
        {"num_lanes": 1, "replay_capacity": 1},
        {"num_lanes": np.int64(3)},
    ):
        config = tiny_config(**training)
        config.validate()
        assert all(possible for _, _, possible, _ in config._checks()), training


def test_the_message_says_what_to_do_about_more_learners():
    with pytest.raises(ValueError, match=r"num_env_runners.* or trials"):
        tiny_config().learners(num_learners=2).validate()


def test_envs_per_runner_may_not_contradict_the_lanes():
    config = tiny_config().env_runners(num_env_runners=2, num_envs_per_env_runner=3)
    with pytest.raises(ValueError, match=r"`num_lanes`=5 .* 3 envs on each of 2 env runners"):
        config.validate()
    tiny_config(num_lanes=6).env_runners(num_env_runners=2, num_envs_per_env_runner=3).validate()


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [("gama_hat", "gamma_hat"), ("lambda1", "lambda_1"), ("num_lane", "num_lanes")],
)
@pytest.mark.parametrize("how", ["training", "dict"])
def test_misspelt_keys_are_refused_with_the_nearest_right_one(how, misspelt, meant):
    config = GeoffPACConfig()
    with pytest.raises(ValueError, match=f"no key `{misspelt}`. Did you mean '{meant}'"):
        if how == "training":
            config.training(**{misspelt: 0.5})
        else:
            config.update_from_dict({misspelt: 0.5})


def test_a_key_like_no_other_is_refused_too():
    with pytest.raises(ValueError, match="GeoffPACConfig has no key `zzzz`"):
        GeoffPACConfig().training(zzzz=1)
    with pytest.raises(TypeError, match="sample_ahed"):
        GeoffPACConfig().env_runners(sample_ahed=1)


def test_keys_of_the_user_s_own_code_are_kept_as_in_rllib(ray, caplog):
    settings = {"zzzz": 3, "evaluation_config": {"yyyy": 4}}
    with caplog.at_level(logging.WARNING), built(tiny_config().update_from_dict(settings)) as algo:
        algo.evaluate()
        assert (algo.config.zzzz, algo.evaluation_config.yyyy) == (3, 4)
    for key in ("zzzz", "yyyy"):
        assert f"GeoffPACConfig has no key `{key}`: it is kept" in caplog.text


def test_misspelt_keys_of_evaluation_are_refused(ray):
    config = tiny_config().evaluation(evaluation_config={"explor": False}, evaluation_interval=1)
    with pytest.raises(ValueError, match=r"no key `explor`\. Did you mean 'explore'"):
        config.build_algo()


@pytest.mark.slow
def test_without_a_seed_every_run_has_its_own(ray):
    seeds, weights = set(), set()
    for _ in range(2):
        with built(tiny_config().debugging(seed=None)) as algo:
            seeds.add(algo.config.seed)
            weights.add(train(algo, 1)[0]["weights_digest"])
            again = algo.save_to_path()
            expected = train(algo, 1)[0]["weights_digest"]
    assert len(seeds) == len(weights) == 2
    restored = GeoffPAC.from_checkpoint(again)
    assert train(restored, 1)[0]["weights_digest"] == expected, "the drawn seed is in it"
    restored.stop()


def test_without_a_seed_a_trial_of_tune_gets_the_same_one_again():
    assert _drawn_seed("4f2a_00000") == _drawn_seed("4f2a_00000") != _drawn_seed("4f2a_00001")
    assert _drawn_seed("default") != _drawn_seed("default")


@pytest.mark.parametrize(
    ("config", "length"),
    [
        (GeoffPACConfig(), 100),
        (DDPGConfig(), 100),
        (DDPGConfig().env_runners(behavior="noise"), 1),
    ],
)
def test_an_automatic_fragment_length_is_found(config, length):
    config.environment("Pendulum-v1").env_runners(rollout_fragment_length="auto").validate()
    assert config.rollout_fragment_length == config.get_rollout_fragment_length() == length


def test_words_of_several_agents_that_say_what_is_so_are_taken():
    config = tiny_config().multi_agent(
        policies={"default_policy"},
        policy_mapping_fn=lambda agent, episode, **kwargs: "default_policy",
        policies_to_train=["default_policy"],
    )
    config.validate()
    assert not config.is_multi_agent
    assert list(config.policies_to_train) == ["default_policy"]


def test_right_keys_in_a_dict_are_taken():
    config = GeoffPACConfig().update_from_dict(
        {"gamma_hat": 0.4, "num_lanes": 3, "num_env_runners": 1, "env": "TwoCircle-v0"}
    )
    assert (config.gamma_hat, config.num_lanes, config.num_env_runners) == (0.4, 3, 1)


def test_a_config_survives_rllib_s_ways_to_hand_it_on():
    config = tiny_config(lambda_1=0.3)
    made = GeoffPACConfig.from_state(config.get_state())
    again = GeoffPACConfig.from_dict(made.to_dict())
    assert (made.lambda_1, again.lambda_1) == (0.3, 0.3)
    request = GeoffPAC.default_resource_request(config)
    assert request.bundles == GeoffPAC.default_resource_request(config.to_dict()).bundles


def test_the_defaults_are_the_papers():
    config = GeoffPACConfig()
    paper = {
        "gamma": 0.99,
        "gamma_hat": 0.2,
        "lambda_1": 0.7,
        "lambda_2": 0.6,
        "rho_clip": 2.0,
        "density_ratio_clip": 2.0,
        "sn_loss_coeff": 1e-3,
        "lr": 1e-3,
        "grad_clip": 0.5,
        "num_lanes": 10,
        "replay_capacity": 1_000_000,
        "replay_batch_size": 10,
        "target_update_freq": 200,
        "learning_starts": 100,
        "value_baseline": None,
        "overlap_coeff": 0.0,
        "policy_distribution": "gaussian",
        "truncation": "terminate",
        "optimizer_type": "rmsprop",
    }
    assert {key: getattr(config, key) for key in paper} == paper
    assert config.model_config["fcnet_hiddens"] == [64, 64]
    assert ACEConfig().gamma_hat == 0 and OffPACConfig().lambda_1 == 0


def test_the_robust_settings_are_those_of_the_robust_examples():
    paper = GeoffPACConfig().to_dict()
    files = sorted((ROOT / "tuned_examples").glob("*/*_robust.yaml"))
    assert len(files) == 5
    for file in files:
        (example,) = experiments.load(file)
        (original,) = experiments.load(file.with_name(file.name.replace("_robust", "")))
        robust = GeoffPACConfig.robust(steps=example.stop[STEPS]).to_dict()
        departures = {key: value for key, value in robust.items() if value != paper[key]}
        assert departures["critic"] == "action_value"
        assert example.config == original.config | departures
        assert (example.stop, example.num_samples) == (original.stop, original.num_samples)


def test_the_quick_start_has_the_robust_settings_of_its_steps():
    quickstart = {e.name: e for e in experiments.load(ROOT / "tuned_examples" / "quickstart.yaml")}
    example = quickstart["quickstart-hopper-geoffpac"]
    paper = GeoffPACConfig().to_dict()
    robust = GeoffPACConfig.robust(steps=example.stop[STEPS]).to_dict()
    departures = {key: value for key, value in robust.items() if value != paper[key]}
    assert departures.items() <= example.config.items()


def test_ace_is_measured_with_its_robust_settings():
    file = ROOT / "tuned_examples" / "figures" / "robust_ace.yaml"
    paper = ACEConfig().to_dict()
    for example in experiments.load(file):
        robust = ACEConfig.robust(steps=example.stop[STEPS]).to_dict()
        departures = {key: value for key, value in robust.items() if value != paper[key]}
        assert example.run == "ACE" and departures.items() <= example.config.items()


def test_the_robust_settings_follow_from_the_steps_of_the_run():
    robust = GeoffPACConfig.robust(steps=20_000)
    assert robust.lr == [[0, 1e-3], [10_000, 3e-4], [20_000, 1e-5]]
    assert robust.overlap_target == [[0, 0.3], [6_000, 0.3], [20_000, 0.15]]
    assert robust.updates_per_lockstep == 10
    assert GeoffPACConfig.robust(5_000_000).overlap_target[1] == [4_300_000, 0.3]
    assert [GeoffPACConfig.robust(n).updates_per_lockstep for n in (150_000, 200_000)] == [2, 1]


@pytest.mark.parametrize("steps", [0, -5, 1.5, "many"])
def test_impossible_steps_of_the_robust_settings_are_refused(steps):
    with pytest.raises(ValueError, match=r"`steps` is .*; allowed is a whole number >= 1"):
        GeoffPACConfig.robust(steps)


def test_the_robust_settings_of_ace_are_the_same_at_gamma_hat_0():
    robust = GeoffPACConfig.robust().to_dict()
    ace = ACEConfig.robust().environment(Walk)
    assert {k: v for k, v in ace.to_dict().items() if v != robust[k]}.keys() <= {"gamma_hat", "env"}
    ace.validate()


@pytest.mark.parametrize("name", CONFIGS)
def test_the_algorithms_are_registered_with_tune(name):
    assert tune.registry.get_trainable_cls(name) is getattr(rllib_geoffpac, name)


def test_ace_and_off_pac_say_why_they_fix_a_value():
    with pytest.raises(ValueError, match=r"`gamma_hat` is 0\.2; allowed is 0, because ACE"):
        ACEConfig().environment(Walk).training(gamma_hat=0.2).validate()
    with pytest.raises(ValueError, match=r"`lambda_1` is 0\.5; allowed is 0, because Off-PAC"):
        OffPACConfig().environment(Walk).training(lambda_1=0.5).validate()


def test_multi_agent_setups_are_refused():
    config = tiny_config().multi_agent(
        policies={"one", "two"}, policy_mapping_fn=lambda *args, **kwargs: "one"
    )
    with pytest.raises(ValueError, match="Multi-agent setups are not supported"):
        config.validate()


class TwoPlayers(MultiAgentEnv):
    def __init__(self, config=None):
        super().__init__()
        self.agents = self.possible_agents = ["one", "two"]
        self.observation_spaces = dict.fromkeys(self.agents, gym.spaces.Discrete(2))
        self.action_spaces = dict.fromkeys(self.agents, gym.spaces.Discrete(2))


def test_a_multi_agent_environment_is_refused(ray):
    with pytest.raises(ValueError, match="is a TwoPlayers: only single-agent gymnasium"):
        tiny_config().environment(TwoPlayers).build_algo()


def test_a_missing_environment_is_named(ray):
    with pytest.raises(ValueError, match=r"`env` is None: name one with"):
        GeoffPACConfig().build_algo()


def test_an_interest_function_comes_by_name():
    config = tiny_config(interest_fn="test_config:unit_interest")
    config.validate()
    assert config.interest_fn is unit_interest
    with pytest.raises(ValueError, match="`interest_fn` is 'test_config:no_such'"):
        tiny_config(interest_fn="test_config:no_such").validate()


def unit_interest(observations):
    return np.ones(len(observations))


class OtherModule(MLPRLModule):
    """Could compute anything."""


def test_the_fast_kernel_says_whom_it_can_serve(ray):
    config = tiny_config(kernel="fast", module=OtherModule)
    with pytest.raises(ValueError, match="`kernel` is 'fast', but the compiled backend can't"):
        config.build_algo()


@pytest.mark.slow
def test_algorithms_of_equal_structure_share_one_compiled_program(ray):
    """A sweep in one process traces once; each algorithm has copies of config and spaces."""
    programs = []
    for lr, clip in ((1e-3, 0.5), (2e-3, 0.1), (1e-3, None)):
        with built(tiny_config(kernel="fast", lr=lr, grad_clip=clip)) as algo:
            programs.append(learner_of(algo).backend.program)
    assert programs[0] is programs[1] is not programs[2]
