"""What the committed results promise: curves, summary, tables, pages and headers agree."""

import importlib
import json
import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from paper import collect, curves, levels, publish, summary, tables, variants
from paper.entries import MEASURED_TASKS, Entry, entries
from paper.places import DATA, EXAMPLES, PUBLISHED, ROOT
from rllib_cli.experiment import parse as experiments

FIGURES = "# One command per figure\n"


@pytest.fixture(scope="module")
def committed() -> list[Entry]:
    return entries(curves.read())


@pytest.mark.slow
def test_every_committed_result_has_its_curve_and_its_command():
    runs = curves.read()[["algo", "task", "variant", "budget", "experiment"]].drop_duplicates()
    known = {
        (run.algo, run.task, variants.shown(run.algo, run.variant, run.budget), run.experiment)
        for run in runs.itertuples()
    }
    table = pd.read_csv(DATA / "summary.csv")
    assert len(table)
    for row in table.itertuples():
        prefix, _, file = row.command.rpartition(" ")
        assert prefix == "rllib train file"
        result = row.algo, row.task, row.variant
        names = [experiment.name for experiment in experiments.load(ROOT / file)]
        assert any((*result, name) in known for name in names), f"{result}: no curve"


def test_the_summary_has_the_robust_settings_on_every_task():
    table = pd.read_csv(DATA / "summary.csv")
    robust = table[(table["algo"] == "GeoffPAC") & (table["variant"] == variants.ROBUST)]
    assert set(robust["task"]) == set(MEASURED_TASKS)


@pytest.mark.slow
def test_the_summary_was_made_from_the_committed_curves(committed):
    table = pd.read_csv(DATA / "summary.csv")
    pd.testing.assert_frame_equal(table, summary.summary(committed, collect.commands()))


@pytest.mark.slow
def test_the_tables_were_made_from_the_committed_curves(committed):
    text = (DATA / "tables.md").read_text(encoding="utf-8")
    assert text == tables.tables(committed, levels.read())


@pytest.mark.slow
@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.name)
def test_a_page_has_the_tables_of_the_committed_results(committed, path):
    text = path.read_text(encoding="utf-8")
    assert publish.BLOCK.search(text), f"{path} shows no results"
    assert text == publish.page(path, tables.sections(committed, levels.read()))


def test_the_headers_state_the_committed_results(committed):
    stated = 0
    for path in sorted(EXAMPLES.glob("*/*.yaml")):
        text = publish.header(path, committed, levels.read()[levels.RANDOM])
        if text is not None:
            assert text == path.read_text(encoding="utf-8"), path
            stated += 1
    assert stated >= 30


def test_the_commands_per_figure_name_files_and_experiments_that_exist():
    text = next(text for path in PUBLISHED if FIGURES in (text := path.read_text(encoding="utf-8")))
    table = text.partition(FIGURES)[2].partition("\n## ")[0]
    figures = EXAMPLES / "figures"
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    files = re.findall(r"`(.+?)`", " ".join(row.split("|")[2] for row in rows))
    assert len(files) >= 11
    for file in files:
        assert list(figures.glob(f"{file.replace('<task>', '*')}.yaml")), file
    known = set(collect.commands())
    commands = re.findall(r"`(rllib plot .+?)`", table)
    assert len(commands) >= 8
    for command in commands:
        words = subprocess.run(["bash", "-c", f"echo {command}"], capture_output=True, text=True)
        folders = [Path(word).name for word in words.stdout.split() if "/ray_results/" in word]
        assert folders and set(folders) <= known, command


def test_experiment_names_are_unique():
    names = [e.name for path in EXAMPLES.glob("*/*.yaml") for e in experiments.load(path)]
    assert len(names) == len(set(names))


def test_the_table_of_offline_evaluation_is_that_of_its_numbers(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    benchmark = importlib.import_module("offline_evaluation")
    results = json.loads(benchmark.RESULTS.read_text())
    assert list(results) == list(benchmark.STEPS)
    assert f"\n{benchmark.table(results.values())}\n" in benchmark.PAGE.read_text()
