"""The names that are checked without RLlib are RLlib's own."""

import dataclasses

from rllib_cli.experiment import checks, names, result_keys
from rllib_cli.experiment.parse import Experiment
from rllib_cli.experiment.search_space import SPELLINGS


def test_the_static_list_of_algorithms_is_the_registry():
    from ray.rllib.algorithms.registry import ALGORITHMS

    from rllib_geoffpac.algorithms import ALGORITHMS as OWN

    assert set(names.RLLIB_ALGORITHMS) == {*ALGORITHMS, "TQC"}
    assert set(names.ALGORITHMS) == {*names.RLLIB_ALGORITHMS, *OWN}


def test_every_listed_algorithm_can_be_loaded():
    from rllib_cli.experiment.algorithms import algorithm_class

    for name in names.ALGORITHMS:
        assert algorithm_class(name).__name__.upper() == name.upper()


def test_every_new_name_of_an_old_setting_exists():
    from ray.rllib.algorithms.ppo import PPOConfig

    from rllib_cli.experiment.settings import Settings

    known = Settings(PPOConfig(), "PPO").known
    single = [new for new in names.OLD_CONFIG_KEYS.values() if new.isidentifier()]
    assert [new for new in single if new not in known] == []
    assert [old for old in names.OLD_CONFIG_KEYS if old in known] == []


def test_every_new_name_of_an_old_metric_is_accepted():
    experiment = Experiment("x", "PPO", {"evaluation_interval": 1})
    for new in names.OLD_METRICS.values():
        result_keys.check_result_key(new, "stop", experiment)


def test_schedulers_and_search_spaces_are_tunes():
    from ray import tune
    from ray.tune import schedulers, search

    assert [name for name in names.SCHEDULERS.values() if not hasattr(schedulers, name)] == []
    assert [name for name in SPELLINGS if not hasattr(tune, name)] == []
    at_random = {"random", "variant_generator"}
    assert set(names.SEARCH_ALGORITHMS) == set(search.SEARCH_ALG_IMPORT) - at_random


def test_checkpoint_settings_are_tunes():
    from ray.tune import CheckpointConfig

    known = {field.name for field in dataclasses.fields(CheckpointConfig)}
    assert set(names.CHECKPOINT_KEYS) == {name for name in known if not name.startswith("_")}


def test_this_machine_has_a_cpu():
    assert checks.available_cpus() >= 1
