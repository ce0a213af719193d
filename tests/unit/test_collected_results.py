"""The committed results: collecting runs, summing them up, and what the summary promises."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "paper"))

pd = pytest.importorskip("pandas")
pytest.importorskip("rliable")

import collect  # noqa: E402
import publish  # noqa: E402
import report  # noqa: E402

from rllib_cli.experiment import parse as experiments  # noqa: E402
from rllib_cli.plot import results  # noqa: E402

EXPERIMENT = "reacher-variants-geoffpac"
COMMANDS = {EXPERIMENT: "rllib train file tuned_examples/figures/reacher_variants.yaml"}
GRID, LINE = "halfcheetah-grid-lambdas", "halfcheetah-grid-gamma-hat"
STEPS = "num_env_steps_sampled_lifetime"
RANDOM_AGENT = pd.DataFrame(
    [{"task": "Reacher-v5", "episodes": 10, "j_pi": -18.0, "return": -43.0}]
)


def write_trial(
    folder, seed, j_pis, diverged=False, experiment=EXPERIMENT, run="GeoffPAC", **params
):
    """A trial's folder as Tune writes it; one evaluation every 400 steps."""
    trial = folder / experiment / f"{seed}_{len(list(folder.glob('*/*')))}"
    trial.mkdir(parents=True)
    spec = {"run": run, "stop": {STEPS: 2000}}
    (trial.parent / "experiment.json").write_text(json.dumps(spec))
    params = {"env": "Reacher-v5", "seed": seed, **params}
    (trial / "params.json").write_text(json.dumps(params))
    lines = []
    for number, j_pi in enumerate(j_pis, start=1):
        evaluation = {"j_pi": j_pi, "episode_return_mean": 2 * j_pi}
        evaluation["evaluated_at_env_steps"] = 400 * number
        report_ = {
            "training_iteration": number,
            STEPS: 400 * number,
            "time_total_s": 36.0 * number,
            "evaluation": {"env_runners": evaluation},
            "learners": {"default_policy": {"policy_std": 0.5}},
            "diverged": diverged and number == len(j_pis),
        }
        lines.append(json.dumps(report_))
    (trial / "result.json").write_text("\n".join(lines) + "\n")


def collected(folder):
    frames = collect.collect(results.load([str(folder)]))
    return pd.concat(frames.values(), ignore_index=True)


def test_interquartile_mean_leaves_out_the_outer_quarters():
    found = report.interval((-100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 900.0))
    assert found.iqm == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert found.low < found.iqm < found.high


def test_interval_is_the_same_every_time_and_leaves_the_global_generator_alone():
    values = (-5.0, -7.0, -6.0, -30.0, -6.5)
    np.random.seed(1)
    first = report.interval.__wrapped__(values)
    drawn = np.random.random()
    np.random.seed(1)
    assert drawn == np.random.random()
    assert report.interval.__wrapped__(values) == first


def test_two_seeds_give_a_mean_without_an_interval():
    found = report.interval((1.0, 2.0))
    assert found.iqm == 1.5
    assert np.isnan(found.low)
    assert np.isnan(found.high)


def test_numbers_have_three_digits_or_all_before_the_point():
    shown = [report.number(value) for value in (-0.03741, 91.48, 999.4, 999.6, -12345.6)]
    assert shown == ["-0.0374", "91.5", "999", "1,000", "-12,346"]


def test_repeated_evaluations_are_one_point_of_the_curve(tmp_path):
    write_trial(tmp_path, 0, [-20.0, -10.0])
    file = next(tmp_path.glob("*/*/result.json"))
    last = json.loads(file.read_text().splitlines()[-1])
    last |= {"training_iteration": 3, STEPS: 1200}  # no evaluation here: RLlib repeats the last
    file.write_text(file.read_text() + json.dumps(last) + "\n")
    curves = collected(tmp_path)
    assert list(curves["env_steps"]) == [400, 800]
    assert list(curves["j_pi"]) == [-20, -10]
    assert list(curves["return"]) == [-40, -20]
    assert list(curves.columns) == collect.COLUMNS


def test_summary_has_the_promised_columns_and_the_last_evaluation(tmp_path):
    for seed, last in enumerate([-6.0, -5.0, -7.0, -6.0]):
        write_trial(tmp_path, seed, [-20.0, -4.0, last])
    table = report.summary(report.entries(collected(tmp_path)), COMMANDS)
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
    best = report.entries(collected(tmp_path))[0].interval("j_pi", "best")
    assert best.iqm == -4.0


def test_a_diverged_run_is_counted_with_its_last_evaluation(tmp_path):
    write_trial(tmp_path, 0, [-20.0, -6.0, -5.0, -5.0, -5.0])
    write_trial(tmp_path, 1, [-90.0], diverged=True)
    (entry,) = report.entries(collected(tmp_path))
    row = report.summary([entry], COMMANDS).iloc[0]
    assert (row["seeds"], row["diverged"], row["steps"]) == (2, 1, 2000)
    assert row["j_pi_iqm"] == (-5 - 90) / 2


def test_a_run_that_has_hardly_begun_is_named_but_not_counted(tmp_path):
    write_trial(tmp_path, 0, [-20.0, -6.0, -5.0])
    write_trial(tmp_path, 1, [-21.0])
    (entry,) = report.entries(collected(tmp_path))
    assert (len(entry.runs), entry.unfinished) == (1, 1)
    assert "Reacher-v5, GeoffPAC, paper: 1 runs" in report.tables([entry], RANDOM_AGENT)


def test_variants_are_named_by_their_departure_from_the_paper(tmp_path):
    settings = {"value_baseline": "ema", "overlap_coeff": 2.0}
    write_trial(tmp_path, 0, [-6.0], policy_distribution="truncated_gaussian", **settings)
    write_trial(tmp_path, 0, [-7.0], policy_distribution="gaussian", overlap_coeff=0.0)
    variants = sorted(collected(tmp_path)["variant"])
    assert variants == ["paper", "value_baseline=ema, overlap_coeff=2, truncated_gaussian"]
    found = collect.variant_settings("GeoffPAC", variants[1])
    paper = collect.PAPER_SETTINGS["GeoffPAC"]
    assert found == {**paper, **settings, "policy_distribution": "truncated_gaussian"}


def test_equal_force_is_compared_on_the_seeds_that_both_have(tmp_path):
    for seed, (geoff_pac, ace) in enumerate([(-6.0, -7.0), (-8.0, -9.0), (-7.0, -5.0)]):
        write_trial(tmp_path, seed, [-9.0, geoff_pac], value_baseline="ema")
        write_trial(tmp_path, seed, [-9.0, ace], experiment="reacher-variants-ace", run="ACE")
    write_trial(tmp_path, 3, [-9.0, -1.0], experiment="reacher-variants-ace", run="ACE")
    write_trial(tmp_path, 0, [-9.0, -1.0])  # the paper's Geoff-PAC: another force
    found = report.entries(collected(tmp_path))
    table = report.sections(found, RANDOM_AGENT)["Geoff-PAC and ACE with the same force"]
    assert table[0] == "| overlap_coeff, policy | Reacher-v5 |"
    assert table[2:] == [
        "| none, gaussian | -7 and -7, 2 of 3 |",
        "| none, truncated_gaussian |  |",
        "| 2, gaussian |  |",
        "| 2, truncated_gaussian |  |",
    ]


def test_the_cells_of_a_grid_are_summed_up_but_are_no_variants(tmp_path):
    write_trial(tmp_path, 0, [-9.0])
    write_trial(tmp_path, 0, [-6.0], value_baseline="ema")
    write_trial(tmp_path, 0, [-5.0], experiment="reacher-grid", lambda_1=0.0, lambda_2=0.0)
    found = report.entries(collected(tmp_path))
    cell = "lambda_1=0, lambda_2=0"
    assert [e.variant for e in found] == ["paper", cell, "value_baseline=ema"]
    assert [e.variant for e in report.variant_entries(found)] == ["paper", "value_baseline=ema"]


def test_figure_6_shows_every_seed(tmp_path):
    pictures = pytest.importorskip("pictures")
    for cell, (lambda_1, lambda_2) in enumerate([(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]):
        for seed in (0, 1):
            settings = {"lambda_1": lambda_1, "lambda_2": lambda_2}
            write_trial(tmp_path, seed, [0.0, cell - 9.0 * seed], **settings, experiment=GRID)
    for seed in (0, 1):
        write_trial(tmp_path, seed, [0.0, 2.0 + 4.0 * seed], experiment=LINE, gamma_hat=0.4)
    figure = pictures.grids(collected(tmp_path), RANDOM_AGENT.set_index("task"))
    line, heat_map = figure.axes[:2]
    assert list(line.lines[0].get_ydata()) == [2.0, 6.0]
    shown = {text.get_text(): text for text in heat_map.texts}
    assert list(shown) == ["-4.5", "0  -9", "-2.5", "2  -7", "-3.5", "1  -8", "-1.5", "3  -6"]
    assert [shown[name].xy for name in ("1  -8", "2  -7")] == [(0, 1), (1, 0)]


def test_trials_that_differ_in_an_unknown_setting_are_not_mixed(tmp_path):
    write_trial(tmp_path, 0, [-6.0], rho_clip=2.0)
    write_trial(tmp_path, 0, [-7.0], rho_clip=5.0)
    with pytest.raises(collect.UserError, match=r"variant 'paper', seed 0.*PAPER_SETTINGS"):
        collected(tmp_path)


def test_seeds_that_come_later_join_the_committed_ones(tmp_path):
    committed, later = tmp_path / "committed", tmp_path / "later"
    for seed, j_pis in enumerate([[-20.0, -6.0], [-20.0, -7.0], [-20.0, -8.0]]):
        write_trial(committed, seed, j_pis)
    write_trial(later, 0, [-20.0, -6.5])  # as far: the new run counts
    write_trial(later, 1, [-21.0])  # not as far: still going on
    write_trial(later, 3, [-20.0, -9.0])
    curves = tmp_path / "curves"
    for runs in (committed, later):
        collect.write_curves(collect.collect(results.load([str(runs)])), curves)
    merged = collect.read_curves(curves)
    assert list(merged["seed"]) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert list(merged["j_pi"]) == [-20, -6.5, -20, -7, -20, -8, -20, -9]
    (file,) = curves.glob("*.csv")
    before = file.read_text()
    collect.write_curves({file.stem: pd.read_csv(file)}, curves)
    assert file.read_text() == before


def test_the_same_run_in_two_experiments_counts_once_and_the_longer_one(tmp_path):
    write_trial(tmp_path, 0, [-20.0, -6.0], experiment="reacher-geoffpac")
    write_trial(tmp_path, 1, [-20.0, -6.0, -5.0], experiment="reacher-geoffpac")
    write_trial(tmp_path, 0, [-20.0, -6.0, -4.0])
    write_trial(tmp_path, 1, [-20.0, -8.0])
    with pytest.warns(UserWarning, match="'paper', seed 1.* differ"):
        (entry,) = report.entries(collected(tmp_path))
    assert entry.experiment == "reacher-geoffpac"
    assert entry.steps == [1200, 1200]
    assert entry.interval("j_pi", "last").iqm == -4.5


def test_every_committed_result_has_its_curve_and_its_command():
    table = pd.read_csv(ROOT / "paper" / "data" / "summary.csv")
    curves = collect.read_curves()
    assert list(table.columns) == report.SUMMARY_COLUMNS
    assert len(table)
    for row in table.itertuples():
        prefix, _, file = row.command.rpartition(" ")
        assert prefix == "rllib train file"
        names = {experiment.name for experiment in experiments.load(ROOT / file)}
        same = (curves["algo"] == row.algo) & (curves["task"] == row.task)
        own = curves[same & (curves["variant"] == row.variant) & curves["experiment"].isin(names)]
        assert own["seed"].nunique() > 0, f"{row.algo}, {row.task}, {row.variant}: no curve"


def test_the_summary_was_made_from_the_committed_curves():
    table = pd.read_csv(ROOT / "paper" / "data" / "summary.csv")
    entries = report.entries(collect.read_curves())
    # The intervals take a while: counts, steps and plain means tell whether it is up to date.
    assert [(e.algo, e.task, e.variant, len(e.runs), e.diverged) for e in entries] == list(
        table[["algo", "task", "variant", "seeds", "diverged"]].itertuples(index=False, name=None)
    )


def test_a_header_states_what_the_settings_reached(tmp_path):
    for seed, last in enumerate([-6.0, -5.0, -19.0]):
        write_trial(tmp_path, seed, [-20.0, last], value_baseline="ema")
    write_trial(tmp_path, 0, [-90.0, -90.0])  # another variant
    example = tmp_path / "geoffpac" / "reacher.yaml"
    example.parent.mkdir()
    settings = f"{{value_baseline: ema, num_lanes: 10}}\n  stop: {{{STEPS}: 2000}}\n"
    body = f"example:\n  run: GeoffPAC\n  env: Reacher-v5\n  config: {settings}"
    example.write_text(f"# Title.\n# Reaches: nothing yet.\n# Took:    a while.\n{body}")
    text = publish.header(example, report.entries(collected(tmp_path)), RANDOM_AGENT)
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
    text = publish.header(example, report.entries(collected(tmp_path)), RANDOM_AGENT)
    assert "J_pi -7, return -14 after 800 steps (one seed)" in text
    assert "Took:    72 s a trial" in text


def test_the_readme_has_the_tables_of_the_committed_results():
    tables = (ROOT / "paper" / "data" / "tables.md").read_text(encoding="utf-8")
    blocks = publish.BLOCK.findall(publish.README.read_text(encoding="utf-8"))
    assert [title for _, title, _, _ in blocks]
    for _, title, table, _ in blocks:
        assert f"## {title}\n{table}" in tables, f"run paper/collect.py: {title!r} is out of date"


def test_the_readme_s_commands_per_figure_name_files_and_experiments_that_exist():
    text = publish.README.read_text(encoding="utf-8")
    table = text.partition("### One command per figure")[2].partition("\n## ")[0]
    figures = collect.EXAMPLES / "figures"
    named = [name for line in table.splitlines()[6:] for name in line.split("|")[2:3]]
    files = re.findall(r"`(.+?)`", " ".join(named))
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


def test_the_headers_state_the_committed_results():
    table = pd.read_csv(ROOT / "paper" / "data" / "summary.csv").sort_values("steps")
    reached = {(row.algo, row.task, row.variant): row for row in table.itertuples()}
    entries = report.entries(collect.read_curves())
    longest = {e[:3]: e for e in sorted(entries, key=lambda entry: entry.budget)}
    stated = 0
    for path in sorted(collect.EXAMPLES.glob("*/*.yaml")):
        if path.parent.name in publish.OTHER_HEADERS:
            continue
        for experiment in experiments.load(path):
            variant = collect.variant_name(experiment.run, experiment.config)
            key = experiment.run, experiment.config["env"], variant
            if key in reached and experiment.config["env"] in publish.MEASURED_TASKS:
                found = re.search(r"# Reaches: J_pi (-?[\d.]*\d)", path.read_text(encoding="utf-8"))
                expected, budget = reached[key].j_pi_iqm, experiment.stop[STEPS]
                if reached[key].steps > budget:
                    expected = longest[key].until(budget).interval("j_pi", "last").iqm
                # Rounded to 3 digits here, to 4 there.
                assert found and float(found[1]) == pytest.approx(expected, rel=0.006), path
                stated += 1
    assert stated >= 7


def test_experiment_names_are_unique():
    names = [e.name for path in collect.EXAMPLES.glob("*/*.yaml") for e in experiments.load(path)]
    assert len(names) == len(set(names))
