"""Every argument of every method of AlgorithmConfig: honoured, with a proof, or refused by name.

The table is `rllib_geoffpac.algorithms.rllib_settings`. A version of Ray that brings an argument
which nobody has decided about fails here.
"""

from __future__ import annotations

import ast
import inspect
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray as ray_api
from harness import Walk, built, digests, learner_of, tiny_config, train
from ray import tune
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.utils.metrics.metrics_logger import DEFAULT_STATS_CLS_LOOKUP
from ray.rllib.utils.metrics.stats import MeanStats
from witness import Broken, Crowd

from rllib_geoffpac import DDPGConfig, GeoffPAC, GeoffPACConfig
from rllib_geoffpac.algorithms.rllib_settings import HONOURED, REFUSED, RENAMED_BY_RLLIB
from rllib_geoffpac.algorithms.unsupported import attribute_of
from rllib_geoffpac.compat import SWITCH_OF_CHECKS, env_runner_actors, is_deprecated
from rllib_geoffpac.learners import EmphaticLearner

TESTS = Path(__file__).parents[1]
TABLES = (HONOURED, REFUSED, RENAMED_BY_RLLIB)


def surface() -> Iterator[tuple[str, str]]:
    """(method, argument) of what RLlib lets users set."""
    for name, method in inspect.getmembers(AlgorithmConfig, inspect.isfunction):
        parameters = list(inspect.signature(method).parameters.values())[1:]
        sets = any(p.default is NotProvided for p in parameters)
        if sets and not name.startswith("_"):
            for parameter in parameters:
                if parameter.kind is not parameter.VAR_KEYWORD:
                    yield name, parameter.name


def entries(table) -> list[tuple[str, str]]:
    return [(method, argument) for method, arguments in table.items() for argument in arguments]


def test_every_argument_is_decided_about_once():
    decided = [entry for table in TABLES for entry in entries(table)]
    assert len(decided) == len(set(decided))
    there = set(surface())
    assert there - set(decided) == set(), "decide about these: honoured, or refused by name"
    assert set(decided) - there == set(), "RLlib does not have these any more"


# Refused ---------------------------------------------------------------------------------------

EXAMPLES = {
    "batch_mode": "complete_episodes",
    "policies": {"one", "two"},
    "policies_to_train": ["one"],
    "policy_mapping_fn": lambda agent, episode, **kwargs: "one",
}


def another_value(argument: str):
    """A value that is not the default."""
    if argument in EXAMPLES:
        return EXAMPLES[argument]
    default = getattr(AlgorithmConfig(), attribute_of(argument))
    if isinstance(default, bool):
        return not default
    if isinstance(default, int | float):
        return default + 7
    if isinstance(default, str):
        return f"{default}x"
    if isinstance(default, dict):
        return {**default, "another": 1}
    return [*default, "another"] if isinstance(default, list | tuple) else 7


@pytest.mark.parametrize(("method", "argument"), entries(REFUSED))
def test_what_has_no_effect_is_refused_by_name(method, argument):
    config = GeoffPACConfig().environment("CartPole-v1")
    getattr(config, method)(**{argument: another_value(argument)})
    with pytest.raises(ValueError, match=argument) as refusal:
        config.validate()
    message = str(refusal.value)
    assert "\n" not in message and SWITCH_OF_CHECKS not in message
    if "has no effect" in message:
        assert REFUSED[method][argument] in message


@pytest.mark.parametrize(("method", "argument"), entries(RENAMED_BY_RLLIB))
def test_what_has_another_name_is_rllib_s_to_say(method, argument):
    """It raises, or takes it for the new one, or knows it no more."""
    parameter = inspect.signature(getattr(AlgorithmConfig, method)).parameters[argument]
    assert is_deprecated(parameter.default) or parameter.default is NotProvided


@pytest.mark.parametrize("make", [GeoffPACConfig, DDPGConfig])
@pytest.mark.parametrize(("method", "argument"), entries(HONOURED))
def test_what_is_honoured_can_be_given_where_rllib_documents_it(
    monkeypatch, make, method, argument
):
    # RLlib logs that some of `training` are documented elsewhere by now.
    monkeypatch.setattr(logging.getLogger("ray._common.deprecation"), "disabled", True)
    config = make()
    value = getattr(config, attribute_of(argument), None)
    getattr(config, method)(**{argument: value})
    assert getattr(config, attribute_of(argument), None) == value


# Honoured --------------------------------------------------------------------------------------

HERE = "with_ray/test_rllib_surface.py"
CALLBACKS, EVALUATION = "with_ray/test_callbacks.py", "with_ray/test_evaluation.py"
EXTENSIONS, CONFIG = "with_ray/test_learner_extensions.py", "with_ray/test_config.py"
DETERMINISM, REFUSALS = "with_ray/test_determinism.py", "with_ray/test_refused_settings.py"
SEEN = {
    **dict.fromkeys(
        ["enable_rl_module_and_learner", "enable_env_runner_and_connector_v2", "env_runner_cls"],
        REFUSALS,
    ),
    **dict.fromkeys(["num_cpus_per_env_runner", "num_cpus_per_learner"], REFUSALS),
    **dict.fromkeys(["custom_resources_per_env_runner", "custom_resources_per_learner"], REFUSALS),
    **dict.fromkeys(["on_env_runners_recreated", "on_episode_end"], CALLBACKS),
    **dict.fromkeys(
        ["on_environment_created", "on_episode_created", "on_episode_start", "on_episode_step"],
        "witness.py",
    ),
    "on_sample_end": "witness.py",
    **dict.fromkeys(["num_env_runners", "rollout_fragment_length", "seed"], DETERMINISM),
    "num_envs_per_env_runner": CONFIG,
    **dict.fromkeys(["evaluation_duration", "evaluation_config", "explore"], EVALUATION),
    **dict.fromkeys(["evaluation_interval", "evaluation_duration_unit"], EVALUATION),
    **dict.fromkeys(["evaluation_num_env_runners", "custom_evaluation_function"], EVALUATION),
    "evaluation_parallel_to_training": EVALUATION,
    **dict.fromkeys(["lr", "grad_clip", "grad_clip_by", "log_gradients"], EXTENSIONS),
    **dict.fromkeys(["learner_class", "algorithm_config_overrides_per_module"], EXTENSIONS),
    "_torch_lr_scheduler_classes": "../rllib_geoffpac/compat.py",  # used by test_learner_extensions
    "restart_failed_sub_environments": "with_ray/test_recorded_streams.py",
    "framework": "impossible_values.py",
    "num_learners": "impossible_values.py",
    "rl_module_spec": "with_ray/test_ddpg_td3.py",
    "model_config": "harness.py",
    "gamma": "with_ray/test_lanes.py",
    "env": "harness.py",
    "metrics_num_episodes_for_smoothing": CALLBACKS,
    "min_sample_timesteps_per_iteration": "harness.py",
    **dict.fromkeys(
        ["env_to_module_connector", "module_to_env_connector", "learner_connector"],
        "with_ray/test_connectors.py",
    ),
    **dict.fromkeys(
        [
            *("add_default_connectors_to_learner_pipeline", "episode_lookback_horizon"),
            "add_default_connectors_to_env_to_module_pipeline",
            "add_default_connectors_to_module_to_env_pipeline",
        ],
        "with_ray/test_connectors.py",
    ),
    **dict.fromkeys(["input_", "ignore_final_observation"], "with_ray/test_data_sets.py"),
    **dict.fromkeys(
        [
            *("input_read_method", "input_read_method_kwargs", "input_read_schema"),
            *("input_filesystem", "input_filesystem_kwargs", "input_compress_columns"),
            "actions_in_input_normalized",
        ],
        "with_ray/test_data_arguments.py",
    ),
    "output": "with_ray/test_recorded_data_sets.py",
}
"""Where an argument's effect is shown, if not here."""

BY_RLLIB = {
    "local_gpu_idx": "needs a GPU",
    SWITCH_OF_CHECKS: "test_checks_can_be_switched_off",
    "input_read_episodes": "either form is recognised",
    "disable_env_checking": "nothing to switch off",
    "create_env_on_local_worker": "nothing to switch off",
    "clip_actions": "in any case",
    "merge_env_runner_states": "nothing to merge",
    "broadcast_env_runner_states": "nothing to send",
}
"""What can't be shown, and why."""


def words_of(file: str) -> set[str]:
    """All names and strings of a Python file."""
    nodes = list(ast.walk(ast.parse((TESTS / file).read_text(encoding="utf-8"))))
    names = {n.arg for n in nodes if isinstance(n, ast.keyword | ast.arg) and n.arg}
    names |= {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    names |= {n.attr for n in nodes if isinstance(n, ast.Attribute)}
    return names | {n.name for n in nodes if isinstance(n, ast.FunctionDef)}


def test_every_honoured_argument_is_shown_to_act():
    shown_here = words_of(HERE) - set(SEEN) - set(BY_RLLIB)
    for _, argument in entries(HONOURED):
        file = SEEN.get(argument)
        if file is None:
            assert argument in BY_RLLIB or argument in shown_here, argument
        else:
            found = words_of(file) | {word.removesuffix("_str") for word in words_of(file)}
            assert argument in found or file == "harness.py", (argument, file)


class Reading(EmphaticLearner):
    """Reads its own settings."""

    def build(self):
        super().build()
        self.read = self.config.learner_config_dict


class Doubled(MeanStats):
    """A statistic of the user's."""

    stats_cls_identifier = "doubled"


class Loud(RLlibCallback):
    """Adds a word to every result."""

    def on_train_result(self, *, result, **kwargs):
        result["loud"] = True


class Heard:
    """What was told, in order."""

    def __init__(self):
        self.names = []

    def listener(self, name):
        return lambda **kwargs: self.names.append(name)


@pytest.fixture(scope="module")
def busy(ray, tmp_path_factory):
    """One algorithm with many settings: (its results, what was heard, the algorithm)."""
    heard, folder = Heard(), tmp_path_factory.mktemp("busy") / "checkpoint"
    config = tiny_config(env_config={"limit": 3})
    config.environment(observation_space=Walk().observation_space)
    config.environment(action_space=Walk().action_space)
    config.callbacks(
        callbacks_class=Loud,
        on_algorithm_init=heard.listener("on_algorithm_init"),
        on_train_result=heard.listener("on_train_result"),
        on_evaluate_start=heard.listener("on_evaluate_start"),
        on_evaluate_end=heard.listener("on_evaluate_end"),
        on_checkpoint_loaded=heard.listener("on_checkpoint_loaded"),
    )
    config.debugging(log_level="ERROR", log_sys_usage=True)
    config.learners(learner_class=Reading, learner_config_dict={"mine": 3})
    config.reporting(
        min_time_s_per_iteration=0.5,
        min_train_timesteps_per_iteration=200,
        custom_stats_cls_lookup={**DEFAULT_STATS_CLS_LOOKUP, "doubled": Doubled},
    )
    config.multi_agent(count_steps_by="agent_steps")
    config.evaluation(evaluation_interval=1, evaluation_duration=2)
    with built(config) as algo:
        results = train(algo, 1)
        algo.save_to_path(folder)
        algo.load_checkpoint(str(folder))  # as Tune does
        yield results, heard.names, algo


def test_callbacks_of_the_algorithm_are_called(busy):
    _, heard, _ = busy
    expected = ["on_algorithm_init", "on_evaluate_start", "on_evaluate_end", "on_train_result"]
    assert heard == [*expected, "on_checkpoint_loaded"]


def test_settings_reach_the_learner_and_the_lanes(busy):
    results, _, algo = busy
    assert learner_of(algo).read == {"mine": 3}
    assert results[0]["env_runners"]["episode_len_max"] == 3, "env_config"
    assert algo.metrics.stats_cls_lookup["doubled"] is Doubled, "custom_stats_cls_lookup"


def test_an_iteration_is_as_long_as_asked_for(busy):
    (result,), _, _ = busy
    assert result["loud"]
    assert result["time_this_iter_s"] >= 0.5, "min_time_s_per_iteration"
    trained = result["learners"]["num_agent_steps_trained_lifetime"]
    assert sum(trained.values()) >= 200, "min_train_timesteps_per_iteration, in agent steps"
    assert "cpu_util_percent" in result["perf"], "log_sys_usage"


@pytest.mark.slow
def test_a_msgpack_checkpoint_resumes_exactly(ray, tmp_path):
    config = tiny_config().experimental(**{"_use_msgpack_checkpoints": True})
    with built(config) as algo:
        train(algo, 1)
        algo.save_checkpoint(str(tmp_path))
        expected = train(algo, 1)[0]["weights_digest"]
    with built(tiny_config()) as algo:
        algo.restore_from_path(tmp_path)
        assert train(algo, 1)[0]["weights_digest"] == expected
    assert list(tmp_path.rglob("*.msgpack"))


def test_another_space_than_the_environment_s_is_named(ray):
    config = tiny_config().environment(action_space=Walk({"action_space": 3}).observation_space)
    with pytest.raises(ValueError, match=r"`action_space` is Box.*and the environment .* has Box"):
        config.build_algo()


def test_tune_reserves_what_is_asked_for(no_ray):
    config = tiny_config().resources(
        num_cpus_for_main_process=0.5,
        custom_resources_for_main_process={"desk": 1},
        placement_strategy="SPREAD",
    )
    config.env_runners(num_env_runners=2, num_cpus_per_env_runner=0.25, num_gpus_per_env_runner=0.1)
    config.learners(num_learners=1, num_gpus_per_learner=0.3, num_cpus_per_learner=0.2)
    request = GeoffPAC.default_resource_request(config.to_dict())
    assert request.strategy == "SPREAD"
    assert request.bundles[0] == {"CPU": 0.5, "desk": 1}
    assert {"CPU": 0.2, "GPU": 0.3} in request.bundles
    assert request.bundles.count({"CPU": 0.25, "GPU": 0.1}) == 2


def test_checks_can_be_switched_off():
    config = tiny_config(lambda_1=7.0).experimental(**{SWITCH_OF_CHECKS: False})
    config.validate()
    assert config.lambda_1 == 7.0


def test_rllib_s_timeouts_take_the_place_of_ours():
    config = tiny_config().env_runners(sample_timeout_s=5.0)
    config.fault_tolerance(env_runner_restore_timeout_s=7.0)
    config.validate()
    assert (config.env_hang_timeout_s, config.env_runner_lost_timeout_s) == (5.0, 7.0)
    config = tiny_config().env_runners(sample_timeout_s=None)
    config.validate()
    assert config.env_hang_timeout_s == float("inf")


@pytest.mark.slow
def test_remote_env_runners_alone(ray):
    config = tiny_config().environment(Crowd)
    config.env_runners(num_env_runners=2, create_local_env_runner=False)
    config.evaluation(evaluation_interval=1, evaluation_duration=2, evaluation_sample_timeout_s=99)
    with built(config) as algo:
        result = train(algo, 1)[0]["env_runners"]
        assert algo.env_runner_group.local_env_runner is None
    assert result["episode_len_max"] == result["episode_len_min"] == 3, "EnvContext.num_workers"


@pytest.mark.slow
def test_env_runners_are_not_looked_at_unless_asked(ray):
    config = tiny_config().env_runners(
        num_env_runners=1, env_runner_cls=Broken, validate_env_runners_after_construction=False
    )
    with built(config) as algo:
        assert len(env_runner_actors(algo.env_runner_group)) == 1


@pytest.mark.slow
def test_the_lanes_of_an_ignored_loss_go_on_here(ray):
    expected = digests(tiny_config(), 2)
    config = tiny_config().env_runners(num_env_runners=2)
    config.fault_tolerance(
        ignore_env_runner_failures=True,
        restart_failed_env_runners=False,
        max_num_env_runner_restarts=0,
    )
    with built(config) as algo:
        found = [train(algo, 1)[0]["weights_digest"]]
        ray_api.kill(env_runner_actors(algo.env_runner_group)[2])
        found.append(train(algo, 1)[0]["weights_digest"])
    assert found == expected


@pytest.mark.slow
def test_tune_can_use_an_actor_again(ray, tmp_path):
    config = tiny_config(lr=tune.grid_search([1e-3, 1e-2]))
    tuner = tune.Tuner(
        "GeoffPAC",
        param_space=config,
        tune_config=tune.TuneConfig(reuse_actors=True, max_concurrent_trials=1),
        run_config=tune.RunConfig(
            stop={"training_iteration": 1}, storage_path=str(tmp_path), verbose=0
        ),
    )
    found = [result.metrics["weights_digest"] for result in tuner.fit()]
    assert found == [digests(tiny_config(lr=lr), 1)[0] for lr in (1e-3, 1e-2)]
