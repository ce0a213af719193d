"""Reading experiments: YAML, options, search spaces."""

from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rllib_cli.errors import UserError
from rllib_cli.experiment import checks, safe_yaml, search_space
from rllib_cli.experiment import parse as experiments
from rllib_cli.experiment.parse import Experiment, Overrides


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1e6", 1_000_000),
        ("-2E3", -2000),
        ("2.5e3", 2500.0),
        ("1_000", 1000),
        ("0.7", 0.7),
        ("2024-01-01", "2024-01-01"),
        ("e5", "e5"),
    ],
)
def test_numbers_are_what_people_mean(text, value):
    loaded = safe_yaml.loads(text, "test")
    assert loaded == value and type(loaded) is type(value)


def test_a_merged_key_may_be_written_again():
    text = """
    base: &base {lr: 1, gamma: 2}
    other: &other
      <<: *base
      lr: 3
    both: {<<: [*other, *base], gamma: 4}
    """
    loaded = safe_yaml.loads(text, "test")
    assert loaded["other"] == {"lr": 3, "gamma": 2}
    assert loaded["both"] == {"lr": 3, "gamma": 4}


@pytest.mark.parametrize(
    "text", ["{a: 1, a: 2}", "{x: &b {a: 1}, y: {<<: *b, a: 2, a: 3}}", "{1: a, 0x1: b}"]
)
def test_a_key_that_is_written_twice_is_refused(text):
    with pytest.raises(UserError, match="was already given on line 1"):
        safe_yaml.loads(text, "test")


def test_a_cluster_that_is_too_small_gets_advice_that_helps_there():
    from rllib_cli.experiment import rllib_checks

    def told(resources, **where):
        with pytest.raises(UserError) as refusal:
            trial = SimpleNamespace(resources=resources)
            rllib_checks.check_trial_resources([trial], {"CPU": 2.0}, **where)
        return str(refusal.value)

    here, there = told({"CPU": 3.0}), told({"CPU": 3.0}, of_cluster=True)
    assert "this machine has 2" in here and "--ray-num-cpus 3" in here
    assert "the cluster has 2" in there and "num_cpus_per_env_runner: 0.5" in there
    assert "add nodes" in there and "--ray" not in there
    assert "'arm'" in told({"arm": 1.0}, of_cluster=True)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.text(max_size=80))
@example("&a [*a]")
@example("? [a]\n: 1")
@example("exp: {run: !!python/object:os.system {}}")
@example("[" * 3000)
@example("1:99999999999:1")
@example("exp: {run: PPO, stop: {training_iteration: 1e999}}")
def test_any_text_is_parsed_or_refused_with_one_message(text):
    try:
        for experiment in experiments.parse(text, "file.yaml"):
            checks.check_experiments([experiment])
    except UserError as error:
        assert str(error)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["grid_search", "a", "choice", "uniform"]), inner, max_size=2
        )
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["run", "env", "stop", "config", "num_samples", "tune_config", "zzz"]),
        _VALUES | st.sampled_from(["PPO", "CartPole-v1"]),
    )
)
def test_any_mapping_is_an_experiment_or_refused_with_one_message(mapping):
    import yaml

    try:
        loaded = experiments.parse(yaml.safe_dump({"exp": mapping}), "file.yaml")
        checks.check_experiments(loaded)
    except UserError as error:
        assert str(error)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40))
def test_any_assignment_is_set_or_refused_with_one_message(text):
    try:
        experiments.set_option({"a": 1, "b": {"c": 2}}, text)
    except UserError as error:
        assert str(error)


def test_set_reads_yaml_and_goes_into_nested_mappings():
    config = {"env_config": {"size": 3}}
    changed = experiments.set_option(config, "env_config.walls.inner=[1, 2e-1]")
    assert changed == {"env_config": {"size": 3, "walls": {"inner": [1, 0.2]}}}
    assert config == {"env_config": {"size": 3}}


def test_the_command_line_overrides_every_experiment_of_a_file():
    loaded = experiments.parse("a: {run: PPO, env: X}\nb: {run: SAC, stop: {time_total_s: 1}}")
    given_options = Overrides(
        set=("lr=0.1",), env="Y", stop="{training_iteration: 2}", seed=3, experiment_name="both"
    )
    first, second = experiments.override(loaded, given_options)
    assert first.config == second.config == {"env": "Y", "seed": 3, "lr": 0.1}
    assert first.stop == second.stop == {"training_iteration": 2}
    assert (first.name, second.name) == ("both/a", "both/b")


def test_nested_stop_criteria_become_flat_keys():
    text = "a: {run: PPO, env: X, stop: {env_runners: {episode_return_mean: 5}}}"
    assert experiments.parse(text)[0].stop == {"env_runners/episode_return_mean": 5}


def test_samples_are_seeds_unless_the_seed_is_searched_over():
    config, left = search_space.seeds_for_samples({"seed": 5}, 3)
    assert (config["seed"], left) == ({"grid_search": [5, 6, 7]}, 1)
    config, left = search_space.seeds_for_samples({}, 2)
    assert (config["seed"], left) == ({"grid_search": [0, 1]}, 1)
    searched = {"seed": {"randint": [0, 9]}}
    assert search_space.seeds_for_samples(searched, 3) == (searched, 3)


def test_trials_are_resolved_as_tune_will_draw_them():
    from ray.tune.experiment import Experiment as TuneExperiment
    from ray.tune.search import BasicVariantGenerator

    from rllib_cli.experiment import rllib_checks

    config = {
        "lr": {"loguniform": [1e-4, 1e-2]},
        "model_config": {"fcnet_hiddens": [{"grid_search": [8, 16]}, 8]},
        "gamma": {"choice": [0.9, 0.95, 0.99]},
    }
    experiment = Experiment("x", "PPO", config, num_samples=3)
    resolved = [trial for _, trial in rllib_checks.resolve_trials(experiment)]
    seeded, left = search_space.seeds_for_samples(config, 3)
    generator = BasicVariantGenerator(random_state=rllib_checks.search_seed(experiment))
    generator.add_configurations(
        [TuneExperiment("x", "PPO", config=search_space.to_tune(seeded), num_samples=left)]
    )
    drawn = []
    while trial := generator.next_trial():
        drawn.append(trial.config)
    assert resolved == drawn
    assert len(drawn) == 6 and len({trial["lr"] for trial in drawn}) == 6
