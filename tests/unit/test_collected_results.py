"""From runs to results: collecting them, summing them up, and stating them."""

import json

import numpy as np
import pandas as pd
import pytest
from paper_runs import COMMANDS, LEVELS, STEPS, collected, write_trial

from paper import cells, collect, curves, entries, paired, publish, summary, tables
from paper.levels import RANDOM
from rllib_cli.errors import UserError
from rllib_cli.results import reading


def test_interquartile_mean_leaves_out_the_outer_quarters():
    found = entries.interval((-100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 900.0))
    assert found.iqm == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert found.low < found.iqm < found.high


def test_interval_is_the_same_every_time_and_leaves_the_global_generator_alone():
    values = (-5.0, -7.0, -6.0, -30.0, -6.5)
    np.random.seed(1)
    first = entries.interval.__wrapped__(values)
    drawn = np.random.random()
    np.random.seed(1)
    assert drawn == np.random.random()
    assert entries.interval.__wrapped__(values) == first


def test_two_seeds_give_a_mean_without_an_interval():
    found = entries.interval((1.0, 2.0))
    assert found.iqm == 1.5
    assert np.isnan(found.low)
    assert np.isnan(found.high)


def test_parts_are_taken_away_on_equal_seeds_and_at_equal_steps(tmp_path):
    whole = {"value_baseline": "ema", "overlap_coeff": 2.0}
    whole["policy_distribution"] = "truncated_gaussian"
    for seed, (with_all, with_less) in enumerate([(-6.0, -7.0), (-8.0, -9.0), (-7.0, -5.0)]):
        write_trial(tmp_path, seed, [-9.0, with_all, -1.0], **whole)
        write_trial(tmp_path, seed, [-9.0, with_less], **{**whole, "overlap_coeff": 0.0})
    table = paired.one_taken_away(entries.entries(collected(tmp_path)))
    assert table[2:] == [
        "| without value_baseline=ema |  |",
        "| without overlap_coeff=2 | -7 and -7, 2 of 3 |",
        "| without truncated_gaussian |  |",
    ]


def test_numbers_have_three_digits_or_all_before_the_point():
    shown = [cells.number(value) for value in (-0.03741, 91.48, 999.4, 999.6, -12345.6)]
    assert shown == ["-0.0374", "91.5", "999", "1,000", "-12,346"]


def test_repeated_evaluations_are_one_point_of_the_curve(tmp_path):
    write_trial(tmp_path, 0, [-20.0, -10.0])
    file = next(tmp_path.glob("*/*/result.json"))
    last = json.loads(file.read_text().splitlines()[-1])
    last |= {"training_iteration": 3, STEPS: 1200}  # no evaluation here: RLlib repeats the last
    file.write_text(file.read_text() + json.dumps(last) + "\n")
    table = collected(tmp_path)
    assert list(table["env_steps"]) == [400, 800]
    assert list(table["j_pi"]) == [-20, -10]
    assert list(table["return"]) == [-40, -20]
    assert list(table.columns) == curves.COLUMNS


def test_summary_has_the_promised_columns_and_the_last_evaluation(tmp_path):
    for seed, last in enumerate([-6.0, -5.0, -7.0, -6.0]):
        write_trial(tmp_path, seed, [-20.0, -4.0, last])
    table = summary.summary(entries.entries(collected(tmp_path)), COMMANDS)
    assert ",".join(table.columns) == (
        "algo,task,variant,seeds,steps,j_pi_iqm,j_pi_low,j_pi_high,return_iqm,return_low,"
        "return_high,diverged,hours,command"
    )
    row = table.iloc[0]
    assert (row["algo"], row["variant"], row["seeds"], row["steps"]) == (
        "GeoffPAC",
        "paper",
        4,
        1200,
    )
    assert row["j_pi_iqm"] == -6.0
    assert row["return_iqm"] == -12.0
    assert row["hours"] == pytest.approx(4 * 3 * 0.01)
    best = entries.entries(collected(tmp_path))[0].interval("j_pi", "best")
    assert best.iqm == -4.0


def test_a_diverged_run_is_counted_with_its_last_evaluation(tmp_path):
    write_trial(tmp_path, 0, [-20.0, -6.0, -5.0, -5.0, -5.0])
    write_trial(tmp_path, 1, [-90.0], diverged=True)
    (entry,) = entries.entries(collected(tmp_path))
    row = summary.summary([entry], COMMANDS).iloc[0]
    assert (row["seeds"], row["diverged"], row["steps"]) == (2, 1, 2000)
    assert row["j_pi_iqm"] == (-5 - 90) / 2


def test_a_run_that_has_hardly_begun_is_named_but_not_counted(tmp_path):
    write_trial(tmp_path, 0, [-20.0, -6.0, -5.0])
    write_trial(tmp_path, 1, [-21.0])
    (entry,) = entries.entries(collected(tmp_path))
    assert (len(entry.runs), entry.unfinished) == (1, 1)
    assert "Reacher-v5, GeoffPAC, paper: 1 runs" in tables.tables([entry], LEVELS)


def test_equal_force_is_compared_on_the_seeds_that_both_have(tmp_path):
    for seed, (geoff_pac, ace) in enumerate([(-6.0, -7.0), (-8.0, -9.0), (-7.0, -5.0)]):
        write_trial(tmp_path, seed, [-9.0, geoff_pac], value_baseline="ema")
        write_trial(tmp_path, seed, [-9.0, ace], experiment="reacher-variants-ace", run="ACE")
    write_trial(tmp_path, 3, [-9.0, -1.0], experiment="reacher-variants-ace", run="ACE")
    write_trial(tmp_path, 0, [-9.0, -1.0])  # the paper's Geoff-PAC: another force
    found = entries.entries(collected(tmp_path))
    table = tables.sections(found, LEVELS)["Geoff-PAC and ACE with the same force"]
    assert table[0] == "| overlap_coeff, policy | Reacher-v5 |"
    assert table[2:] == [
        "| none, gaussian | -7 and -7, 2 of 3 |",
        "| none, truncated_gaussian |  |",
        "| 2, gaussian |  |",
        "| 2, truncated_gaussian |  |",
    ]


def test_trials_that_differ_in_nothing_that_is_learned_from_are_not_mixed(tmp_path):
    write_trial(tmp_path, 0, [-6.0], num_env_runners=1)
    write_trial(tmp_path, 0, [-7.0], num_env_runners=2)
    with pytest.raises(UserError, match=r"variant 'paper', seed 0"):
        collected(tmp_path)


def test_runs_without_their_description_are_refused(tmp_path):
    write_trial(tmp_path, 0, [-6.0])
    next(tmp_path.glob("*/experiment.json")).unlink()
    with pytest.raises(UserError, match=r"step budget is not known.*experiment\.json"):
        collected(tmp_path)


def test_runs_are_collected_from_a_uri(tmp_path):
    write_trial(tmp_path, 0, [-20.0, -6.0])
    assert collected(tmp_path.as_uri()).equals(collected(tmp_path))


def test_a_folder_that_is_not_there_ends_the_command_with_status_2(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["collect", str(tmp_path / "missing")])
    with pytest.raises(SystemExit) as stopped:
        collect.main()
    assert stopped.value.code == 2
    assert "missing' does not exist" in capsys.readouterr().err


def test_seeds_that_come_later_join_the_committed_ones(tmp_path):
    committed, later = tmp_path / "committed", tmp_path / "later"
    for seed, j_pis in enumerate([[-20.0, -6.0], [-20.0, -7.0], [-20.0, -8.0]]):
        write_trial(committed, seed, j_pis)
    write_trial(later, 0, [-20.0, -6.5])  # as far: the new run counts
    write_trial(later, 1, [-21.0])  # not as far: still going on
    write_trial(later, 3, [-20.0, -9.0])
    folder = tmp_path / "curves"
    for runs in (committed, later):
        curves.write(curves.of_trials(reading.load([str(runs)])), folder)
    merged = curves.read(folder)
    assert list(merged["seed"]) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert list(merged["j_pi"]) == [-20, -6.5, -20, -7, -20, -8, -20, -9]
    (file,) = folder.glob("*.csv")
    before = file.read_text()
    curves.write({file.stem: pd.read_csv(file)}, folder)
    assert file.read_text() == before


def test_the_same_run_in_two_experiments_counts_once_and_the_longer_one(tmp_path):
    write_trial(tmp_path, 0, [-20.0, -6.0], experiment="reacher-geoffpac")
    write_trial(tmp_path, 1, [-20.0, -6.0, -5.0], experiment="reacher-geoffpac")
    write_trial(tmp_path, 0, [-20.0, -6.0, -4.0])
    write_trial(tmp_path, 1, [-20.0, -8.0])
    with pytest.warns(UserWarning, match="'paper', seed 1.* differ"):
        (entry,) = entries.entries(collected(tmp_path))
    assert entry.experiment == "reacher-geoffpac"
    assert entry.steps == [1200, 1200]
    assert entry.interval("j_pi", "last").iqm == -4.5


def test_a_header_states_what_the_settings_reached(tmp_path):
    for seed, last in enumerate([-6.0, -5.0, -19.0]):
        write_trial(tmp_path, seed, [-20.0, last], value_baseline="ema")
    write_trial(tmp_path, 0, [-90.0, -90.0])  # another variant
    example = tmp_path / "geoffpac" / "reacher.yaml"
    example.parent.mkdir()
    settings = f"{{value_baseline: ema, num_lanes: 10}}\n  stop: {{{STEPS}: 2000}}\n"
    body = f"example:\n  run: GeoffPAC\n  env: Reacher-v5\n  config: {settings}"
    example.write_text(f"# Title.\n# Reaches: nothing yet.\n# Took:    a while.\n{body}")
    text = publish.header(example, entries.entries(collected(tmp_path)), LEVELS[RANDOM])
    words = " ".join(text.replace("#", " ").split())
    assert text.startswith("# Title.\n# Reaches: J_pi -10 [-19, -5]") and text.endswith(body)
    assert "after 800 of the 2,000 steps (interquartile mean of 3 seeds" in words
    assert "a random agent has J_pi -18, and 1 of the 3 seeds ends worse" in words
    assert "nothing yet" not in text and "a while" not in text


def test_a_header_states_the_value_at_its_own_budget(tmp_path):
    write_trial(tmp_path, 0, [-20.0, -7.0, -6.0], run="DDPG")
    example = tmp_path / "ddpg" / "reacher.yaml"
    example.parent.mkdir()
    body = f"example:\n  run: DDPG\n  env: Reacher-v5\n  stop: {{{STEPS}: 800}}\n"
    example.write_text(f"# Title.\n# Reaches: nothing yet.\n{body}")
    text = publish.header(example, entries.entries(collected(tmp_path)), LEVELS[RANDOM])
    assert "J_pi -7, return -14 after 800 steps (one seed)" in text
    assert "Took:    72 s a trial" in text


def test_a_page_s_marks_are_filled_even_if_nothing_is_between_them(tmp_path):
    page, end = tmp_path / "page.md", "<!-- end of results -->"
    page.write_text(
        f"a\n<!-- results: x -->\n{end}\nb\n<!-- results: y -->\n\n| old |\n\n{end}\nc\n"
    )
    text = publish.page(page, {"x": ["| 1 |"], "y": ["| 2 |"]})
    assert text == (
        f"a\n<!-- results: x -->\n\n| 1 |\n\n{end}\nb\n<!-- results: y -->\n\n| 2 |\n\n{end}\nc\n"
    )


def test_a_mark_that_names_no_table_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- results: z -->\n<!-- end of results -->\n")
    with pytest.raises(UserError, match=r"no results 'z'.*only 'x'"):
        publish.page(page, {"x": []})
