"""The tuned examples: complete, and every one would start."""

import pytest

from rllib_cli.example import catalog
from rllib_cli.experiment import checks
from rllib_cli.experiment import parse as experiments

TASKS = ("two_circle", "cartpole", "halfcheetah", "walker2d", "hopper", "reacher", "swimmer")
SWEEPS = (
    "halfcheetah_lambda1_lambda2",
    "halfcheetah_gamma_hat",
    "halfcheetah_ace_lambda1",
    "two_circle_gamma_hat_lambda2",
)
IDS = [example.id for example in catalog.list_examples()]


def test_every_algorithm_has_every_task_and_the_papers_sweeps_are_there():
    wanted = {f"{algo}/{task}" for algo in ("geoffpac", "ace", "offpac") for task in TASKS}
    wanted |= {f"sweeps/{name}" for name in SWEEPS}
    assert wanted - set(IDS) == set()
    assert [example_id for example_id in IDS if example_id.startswith("smoke/")]


@pytest.mark.parametrize("example_id", IDS)
def test_an_example_says_how_to_run_it_and_passes_all_checks(example_id):
    from rllib_cli.experiment import rllib_checks

    example = catalog.get_example(example_id)
    header = [line for line in example.text.splitlines() if line.startswith("#")]
    assert len(header) >= 3 and any("rllib " in line for line in header)
    loaded = experiments.parse(example.text, example_id)
    checks.check_experiments(loaded)
    for experiment in loaded:
        assert rllib_checks.check_experiment(experiment)


def test_list_and_get_show_the_examples(rllib):
    listed = rllib("example", "list").out.splitlines()
    assert [line.split()[0] for line in listed if line.startswith("  ")] == IDS
    titles = [line for line in listed if line and not line.startswith("  ")]
    assert titles == sorted({example_id.split("/")[0] for example_id in IDS if "/" in example_id})
    got = rllib("example", "get", "geoffpac/reacher")
    assert got.out == catalog.get_example("geoffpac/reacher").text


def test_a_summary_is_a_whole_sentence_in_one_line():
    for example in catalog.list_examples():
        assert "\n" not in example.summary and len(example.summary) <= 160
        assert example.summary.endswith((".", "?", " ...")), example.summary
    long = catalog.get_example("figures/halfcheetah_variants").summary
    assert long.endswith("3 seeds.")


def test_list_takes_words_that_a_line_must_have(rllib_here):
    listed = rllib_here("example", "list", "HOPPER", "robust").out.splitlines()
    ids = [line.split()[0] for line in listed if line.startswith("  ")]
    assert "geoffpac/hopper_robust" in ids and "geoffpac/hopper" not in ids
    none = rllib_here("example", "list", "no such words")
    assert none.status == 2 and "rllib example list" in none.err
