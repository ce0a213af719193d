"""Names of settings: what departs from the paper, and what `robust()` is."""

import pytest
from paper_runs import collected, robust_settings, write_trial

from paper import entries, variants
from paper.entries import MEASURED_TASKS
from paper.places import EXAMPLES
from paper.variants import PAPER, ROBUST, shown, variant_name, variant_settings
from rllib_cli.experiment import parse as experiments
from rllib_cli.results.reading import flat_settings
from rllib_cli.run.progress import STEPS

BUDGET = 1_000_000


@pytest.fixture
def robust(monkeypatch):
    """Settings of three parts as `robust()`'s."""
    settings = {"value_baseline": "ema", "overlap_coeff": 2.0, "rho_clip": 5.0}
    monkeypatch.setitem(variants.ROBUST_SETTINGS, "GeoffPAC", lambda budget: settings)
    return settings


def test_variants_are_named_by_their_departure_from_the_paper(tmp_path):
    settings = {"value_baseline": "ema", "overlap_coeff": 2.0}
    write_trial(tmp_path, 0, [-6.0], policy_distribution="truncated_gaussian", **settings)
    write_trial(tmp_path, 0, [-7.0], policy_distribution="gaussian", overlap_coeff=0.0)
    names = sorted(collected(tmp_path)["variant"])
    assert names == ["paper", "value_baseline=ema, overlap_coeff=2, truncated_gaussian"]
    found = variant_settings("GeoffPAC", names[1])
    paper = variants.PAPER_SETTINGS["GeoffPAC"]
    assert found == {**paper, **settings, "policy_distribution": "truncated_gaussian"}


def test_the_cells_of_a_grid_are_summed_up_but_are_no_variants(tmp_path):
    write_trial(tmp_path, 0, [-9.0])
    write_trial(tmp_path, 0, [-6.0], value_baseline="ema")
    write_trial(tmp_path, 0, [-5.0], experiment="reacher-grid", lambda_1=0.0, lambda_2=0.0)
    found = entries.entries(collected(tmp_path))
    cell = "lambda_1=0, lambda_2=0"
    assert [e.variant for e in found] == ["paper", cell, "value_baseline=ema"]
    assert [e.variant for e in entries.variant_entries(found)] == ["paper", "value_baseline=ema"]


def test_a_setting_that_the_paper_does_not_state_stands_in_the_name():
    params = {"env": "Reacher-v5", "seed": 3, "rho_clip": 5.0, "model_config.fcnet_hiddens": [8, 8]}
    name = variant_name("GeoffPAC", {**params, "gamma_hat": 0.6}, BUDGET)
    assert name == "gamma_hat=0.6, model_config.fcnet_hiddens=[8,8], rho_clip=5"
    assert variant_settings("GeoffPAC", name)["rho_clip"] == 5.0


def test_resources_and_evaluation_are_no_departures():
    params = {"num_env_runners": 2, "evaluation_interval": 5, "experience_cache": "/tmp/streams"}
    assert variant_name("ACE", {**params, "rollout_fragment_length": 7, "seed": 1}, BUDGET) == PAPER


def test_none_is_read_back_from_a_name():
    name = variant_name("GeoffPAC", {"grad_clip": None}, BUDGET)
    assert name == "grad_clip=None"
    assert variant_settings("GeoffPAC", name)["grad_clip"] is None


def test_the_robust_settings_are_called_robust(robust):
    assert shown("GeoffPAC", variant_name("GeoffPAC", robust, BUDGET), BUDGET) == ROBUST
    assert shown("ACE", "overlap_coeff=2", BUDGET) == "overlap_coeff=2"


def test_a_run_near_the_robust_settings_is_named_by_what_differs(robust):
    less = variant_name("GeoffPAC", {**robust, "policy_distribution": "truncated_gaussian"}, BUDGET)
    assert shown("GeoffPAC", less, BUDGET) == "robust, truncated_gaussian"
    changed = variant_name("GeoffPAC", {**robust, "overlap_coeff": 1.0}, BUDGET)
    assert shown("GeoffPAC", changed, BUDGET) == "robust, overlap_coeff=1"


def test_a_run_as_near_to_the_paper_is_named_by_its_departures(robust):
    del robust["rho_clip"], robust["overlap_coeff"]
    name = "value_baseline=ema, lambda_2=1"
    assert shown("GeoffPAC", name, BUDGET) == name


def test_schedules_are_named_by_shares_of_the_run():
    lr = [[0, 1e-3], [500, 3e-4], [1000, 1e-5]]
    name = variant_name("GeoffPAC", {"lr": lr}, 1000)
    assert name == "lr=[[0,0.001],[0.5,0.0003],[1,1e-05]]"
    double = [[2 * step, value] for step, value in lr]
    assert variant_name("GeoffPAC", {"lr": double}, 2000) == name
    assert variant_name("GeoffPAC", {"lr": double}, 1000) != name


def test_the_names_agree_with_the_configs():
    from rllib_geoffpac import ACEConfig, GeoffPACConfig, OffPACConfig

    configs = {"GeoffPAC": GeoffPACConfig, "ACE": ACEConfig, "OffPAC": OffPACConfig}
    for algo, settings in variants.PAPER_SETTINGS.items():
        default = configs[algo]()
        assert {key: getattr(default, key) for key in settings} == settings, algo
    for steps in (20_000, 1_000_000, 5_000_000):
        name = variant_name("GeoffPAC", robust_settings(steps), steps)
        assert shown("GeoffPAC", name, steps) == ROBUST, "bring ROBUST_SETTINGS up to date"


def test_the_tuned_examples_are_the_paper_s_or_the_robust_settings():
    for path in sorted(EXAMPLES.glob("*/*.yaml")):
        for experiment in experiments.load(path):
            settings = flat_settings(experiment.config)
            if path.parent.name in ("geoffpac", "ace", "offpac") and (
                settings["env"] in MEASURED_TASKS
            ):
                budget = experiment.stop[STEPS]
                name = variant_name(experiment.run, settings, budget)
                name = shown(experiment.run, name, budget)
                assert name == (ROBUST if path.stem.endswith("_robust") else PAPER), path
