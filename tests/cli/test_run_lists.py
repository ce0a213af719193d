"""`rllib watch`, `status` and `compare`, and the lines that `rllib train` shows of a curve."""

import contextlib
import io
import itertools
import json

import numpy as np
import pytest
from result_folders import write_sweep
from rich.console import Console

from rllib_cli.compare import runs as compared
from rllib_cli.results import reading, statistics
from rllib_cli.run.progress import Progress, sparkline
from rllib_geoffpac.diagnosis import diagnose


@pytest.fixture
def folder(tmp_path):
    """Two runs below one storage path."""
    write_sweep(tmp_path / "results" / "grid", [{"gamma_hat": g} for g in (0.1, 0.2)], seeds=2)
    write_sweep(tmp_path / "results" / "single", [{"gamma_hat": 0.9}], seeds=3)
    return tmp_path / "results"


def test_status_lists_every_run_with_its_state_and_last_result(rllib_here, folder):
    trial = next(folder.glob("single/trial_*"))
    lines = (trial / "result.json").read_text().splitlines()
    silent = json.loads(lines[-1]) | {"done": False, "timestamp": 0}
    (trial / "result.json").write_text("\n".join([*lines[:-1], json.dumps(silent)]) + "\n")
    shown = rllib_here("status", folder)
    assert shown.status == 0
    grid, single = (line for line in shown.out.splitlines() if "Hopper-v5" in line)
    assert grid.split()[:5] == ["grid", "GeoffPAC", "Hopper-v5", "4", "done"] and "J_pi" in grid
    assert "1 interrupted, 2 done" in single and "kB" in single


def test_status_of_an_empty_folder_says_so_and_of_a_missing_one_is_an_error(rllib_here, tmp_path):
    empty = rllib_here("status", tmp_path)
    assert empty.status == 0 and "no runs" in empty.out
    missing = rllib_here("status", tmp_path / "nowhere")
    assert missing.status == 2 and "does not exist" in missing.err
    (tmp_path / "file").write_text("")
    file = rllib_here("status", tmp_path / "file")
    assert file.status == 2 and "is a file" in file.err


def test_watch_shows_the_table_of_a_run_that_is_elsewhere(rllib_here, folder):
    shown = rllib_here("watch", folder / "grid")
    assert shown.status == 0
    assert "4 trials: 4 done" in shown.out and "2,000/2,000" in shown.out
    assert "█" in shown.out, "no sparkline"


def test_compare_names_the_settings_and_pairs_the_seeds(rllib_here, folder):
    write_sweep(folder / "other", [{"gamma_hat": 0.5}], seeds=2)
    shown = rllib_here("compare", folder / "single", folder / "other")
    assert shown.status == 0
    assert "gamma_hat  0.9  0.5" in shown.out
    row = next(line for line in shown.out.splitlines() if line.startswith("Hopper-v5"))
    assert row.split()[1] == "2" and "2 of 2" in row  # the same numbers, so the same digests


def test_compare_refuses_a_sweep_and_runs_without_a_common_seed(rllib_here, folder):
    refused = rllib_here("compare", folder / "grid", folder / "single")
    assert refused.status == 2 and "differ in gamma_hat" in refused.err
    seeds = [next(folder.glob(f"single/*_{seed}")) for seed in (0, 1)]
    apart = rllib_here("compare", *seeds)
    assert apart.status == 2 and "no seed" in apart.err
    assert refused.out == apart.out == "", "it refuses before it prints"


def test_the_paired_p_value_is_that_of_all_swaps():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=6), rng.normal(0.8, size=6)
    found = statistics.paired_difference(first, second)
    difference = second - first
    swaps = [np.mean(difference * signs) for signs in itertools.product((1, -1), repeat=6)]
    share = np.mean(np.abs(swaps) >= abs(difference.mean()) - 1e-12)
    assert found.p == pytest.approx(share)
    assert found.low < found.mean < found.high


def test_pairs_that_are_all_equal_differ_by_nothing():
    assert statistics.paired_difference(np.ones(3), np.ones(3)) == (0.0, 0.0, 0.0, 1.0)
    assert statistics.paired_difference(np.ones(1), np.zeros(1)) is None


def test_final_values_are_paired_by_seed_and_not_by_order(tmp_path):
    write_sweep(tmp_path / "a", [{}], seeds=3)
    write_sweep(tmp_path / "b", [{}], seeds=3)
    first, second = (reading.load([str(tmp_path / name)]) for name in "ab")
    (row,) = compared.compare(first, second[::-1], "evaluation/env_runners/j_pi")
    assert np.array_equal(row.first, row.second) and row.difference.p == 1.0


def test_a_sparkline_spans_the_lowest_and_the_highest_value():
    assert sparkline([0, 7, 3.5]) == "▁█▅"
    assert sparkline([1.0]) == "" and sparkline([2.0, 2.0]) == "▁▁"
    assert len(sparkline(list(range(100)))) == 10 and sparkline(list(range(100)))[-1] == "█"


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ({"learners/default_policy/rho_clipped_mean": 0.05}, "overlap"),
        ({"learners/default_policy/density_ratio_mean": 1.9}, "density ratio"),
        (
            {
                "evaluation/env_runners/episode_return_mean": -300.0,
                "evaluation/env_runners/episode_return_stderr": 5.0,
                "env_runners/episode_return_mean": -250.0,
            },
            "worse than the behaviour policy",
        ),
    ],
)
def test_what_goes_badly_is_said(result, says):
    (sentence,) = diagnose(result)
    assert says in sentence and "docs/troubleshooting.md#" in sentence


def test_nothing_is_said_of_a_run_that_goes_well():
    well = {
        "learners/default_policy/rho_clipped_mean": 0.4,
        "learners/default_policy/density_ratio_mean": 1.02,
        "evaluation/env_runners/episode_return_mean": 100.0,
        "evaluation/env_runners/episode_return_stderr": 5.0,
        "env_runners/episode_return_mean": 20.0,
    }
    assert diagnose(well) == [] and diagnose({}) == []


@pytest.mark.parametrize("live", [False, True])
def test_a_run_that_goes_badly_says_so_once_while_it_runs(live):
    out = io.StringIO()
    console = Console(file=out, width=200, force_terminal=live)
    progress = Progress(console, {}, 1, [], live=live, quiet=False, diagnose=diagnose)
    bad = {"learners": {"default_policy": {"rho_clipped_mean": 0.02}}}
    with contextlib.closing(progress):
        progress.start()
        for iteration in (1, 2):
            progress.on_result("1", "00000", bad | {"training_iteration": iteration})
    assert out.getvalue().count("warning: the overlap with the data has collapsed") == 1
    assert "docs/troubleshooting.md#overlap" in out.getvalue()
