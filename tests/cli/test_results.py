"""Reading Tune's folders, the statistics over seeds, and what a checkpoint is trusted with."""

import json
import os
import pickle

import numpy as np
import pytest
import yaml
from result_folders import write_sweep

from rllib_cli import folders
from rllib_cli.errors import UserError
from rllib_cli.evaluate import checkpoints
from rllib_cli.experiment import parse as experiments
from rllib_cli.plot import drawing, plots
from rllib_cli.results import reading, statistics
from rllib_geoffpac.checkpoints import FORMAT

J_PI = "evaluation/env_runners/j_pi"


def write_trial(folder, params, reports):
    folder.mkdir(parents=True)
    (folder / "params.json").write_text(json.dumps(params))
    (folder / "result.json").write_text("".join(json.dumps(report) + "\n" for report in reports))


def report(iteration, value, evaluated_at=None, **more):
    steps = iteration * 100
    evaluation = {"env_runners": {"j_pi": value}}
    if evaluated_at is not None:
        evaluation["env_runners"]["evaluated_at_env_steps"] = evaluated_at
    return {
        "training_iteration": iteration,
        "num_env_steps_sampled_lifetime": steps,
        "time_total_s": 36.0 * iteration,
        "evaluation": evaluation,
        "config": {"evaluation": 3},
        **more,
    }


def test_of_an_iteration_that_was_repeated_after_a_resume_the_later_report_counts(tmp_path):
    write_trial(tmp_path / "e" / "t", {}, [report(1, 1.0), report(2, 9.0), report(2, 2.0)])
    (trial,) = reading.load([str(tmp_path)])
    steps, values = trial.curve(J_PI)
    assert steps.tolist() == [100, 200] and values.tolist() == [1.0, 2.0]


def test_a_repeated_evaluation_counts_once_and_where_it_was_made(tmp_path):
    lines = [report(1, 1.0, 100), report(2, 1.0, 100), report(3, 5.0, 300)]
    write_trial(tmp_path / "e" / "t", {}, lines)
    (trial,) = reading.load([str(tmp_path)])
    steps, values = trial.curve(J_PI)
    assert steps.tolist() == [100, 300] and values.tolist() == [1.0, 5.0]


def test_steps_can_be_counted_by_any_number_in_the_results(tmp_path):
    lines = [report(1, 1.0, 100), report(2, 1.0, 100), report(3, 5.0, 300)]
    write_trial(tmp_path / "e" / "t", {"env": "X"}, [{**line, "date": "today"} for line in lines])
    (trial,) = reading.load([str(tmp_path)])
    steps, values = trial.curve(J_PI, "training_iteration")
    assert steps.tolist() == [1, 3] and values.tolist() == [1.0, 5.0]
    drawn = plots.plot([str(tmp_path)], out=str(tmp_path / "p.png"), x="training_iteration")
    assert drawn.rows[0].last == 5.0
    for wrong, hint in (
        ("training_iterations", "training_iteration"),
        ("date", "no number 'date'"),
    ):
        with pytest.raises(UserError, match=hint):
            plots.plot([str(tmp_path)], out=str(tmp_path / "p.png"), x=wrong)


def test_every_evaluation_of_an_algorithm_that_samples_nothing_counts(tmp_path):
    trained = {"learners": {"__all_modules__": {"num_env_steps_trained_lifetime": 0}}}
    lines = [{**report(k, k / 2), "num_env_steps_sampled_lifetime": 0} for k in (1, 2, 3)]
    for line in lines:
        trained["learners"]["__all_modules__"]["num_env_steps_trained_lifetime"] += 256
        line.update(json.loads(json.dumps(trained)))
    write_trial(tmp_path / "e" / "t", {}, lines)
    (trial,) = reading.load([str(tmp_path)])
    assert trial.curve(J_PI)[0].tolist() == [256, 512, 768]
    assert trial.curve(J_PI, "training_iteration")[1].tolist() == [0.5, 1.0, 1.5]


def test_what_was_not_measured_yet_is_left_out(tmp_path):
    write_trial(tmp_path / "e" / "t", {}, [report(1, float("nan")), report(2, 2.0)])
    (trial,) = reading.load([str(tmp_path)])
    assert trial.curve(J_PI)[0].tolist() == [200]


def test_a_line_cut_by_a_crash_is_left_out(tmp_path):
    write_trial(tmp_path / "e" / "t", {}, [report(1, 1.0)])
    with open(tmp_path / "e" / "t" / "result.json", "a") as file:
        file.write('{"training_iteration": 2, "eval')
    assert len(reading.load([str(tmp_path)])[0].reports) == 1


def test_curves_are_grouped_by_what_differs_but_the_seed(tmp_path):
    for number, (lr, seed) in enumerate([(0.1, 0), (0.1, 1), (0.01, 0), (0.01, 1)]):
        params = {"lr": lr, "seed": seed, "env": "X", "model_config": {"fcnet_hiddens": [8]}}
        write_trial(tmp_path / "e" / str(number), params, [report(1, lr + seed)])
    drawn = plots.plot([str(tmp_path)], out=str(tmp_path / "p.png"))
    assert drawn.by == ["lr"] and drawn.kind == "learning curves" and drawn.metric == J_PI
    assert [(row.label, row.seeds) for row in drawn.rows] == [
        ("learning rate = 0.01", 2),
        ("learning rate = 0.1", 2),
    ]
    assert drawn.rows[0].last == pytest.approx(0.51)
    assert drawn.rows[0].last_error == pytest.approx(0.5)
    assert drawn.rows[0].hours == pytest.approx(0.02)


def write_two_tasks(folder, grid=({"lr": 0.1}, {"lr": 0.01})):
    """Runs on X and on Y, whose values and iterations differ; two seeds of each setting."""
    for env, scale, size in (("X", 1, 100), ("Y", 1000, 400)):
        for number, setting in enumerate(grid):
            for seed in (0, 1):
                params = {"env": env, "seed": seed, "iteration_size": size, **setting}
                reports = [report(1, 0.0), report(2, scale * (number + 1.0))]
                write_trial(folder / env / f"{number}_{seed}", params, reports)


@pytest.mark.parametrize("by", [None, ["lr"]])
def test_runs_on_several_environments_are_not_taken_for_seeds(tmp_path, by):
    write_two_tasks(tmp_path)
    drawn = plots.plot([str(tmp_path)], by=by, out=str(tmp_path / "p.png"))
    assert drawn.by == ["lr"] and drawn.kind == "learning curves"
    assert [(row.panel, row.keys, row.last, row.seeds) for row in drawn.rows] == [
        ("X", (0.01,), 2, 2),
        ("X", (0.1,), 1, 2),
        ("Y", (0.01,), 2000, 2),
        ("Y", (0.1,), 1000, 2),
    ]


def test_environments_share_a_panel_when_asked_to(tmp_path):
    write_two_tasks(tmp_path)
    drawn = plots.plot([str(tmp_path)], by=["env", "lr"], out=str(tmp_path / "p.png"))
    assert len(drawn.rows) == 4 and {row.panel for row in drawn.rows} == {""}


def test_a_grid_on_several_environments_gives_a_heat_map_each(tmp_path):
    grid = [{"lr": lr, "gamma": gamma} for lr in (0.1, 0.01) for gamma in (0.9, 0.99)]
    write_two_tasks(tmp_path, grid)
    drawn = plots.plot([str(tmp_path)], out=str(tmp_path / "p.png"))
    assert drawn.kind == "heat maps" and drawn.by == ["lr", "gamma"]


def test_every_panel_has_its_curves_and_all_share_one_legend():
    run = (np.array([1.0, 10.0]), np.array([0.0, 2.0]))
    long_run = (np.array([1.0, 100.0]), np.array([0.0, 3.0]))
    panels = {f"task {k}": {"a": [run, run]} for k in range(6)}
    panels["task 5"]["b"] = [long_run]
    heights = dict.fromkeys(panels, -1.0)
    figure = drawing.curve_panels(panels, "y", "x", levels={"chance": heights})
    assert [axes.get_title() for axes in figure.axes[4:]] == [
        "task 4 (2 seeds)",
        "task 5 (1 to 2 seeds)",
    ]
    assert [len(axes.lines) for axes in figure.axes] == [2, 2, 2, 2, 2, 3]
    # Runs of very different length can only be seen together on a logarithmic axis.
    assert [axes.get_xscale() for axes in figure.axes[4:]] == ["linear", "log"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b", "chance"]


def test_of_too_many_settings_the_best_in_all_panels_are_drawn():
    def row(panel, label, last):
        return plots.Row(label, (), last, 0.0, last, (last,), 0.0, None, panel)

    panels = [[row(panel, str(k), float(k)) for k in range(20)] for panel in "XY"]
    panels[0].append(row("X", "among the best 12 of X, not run on Y", 9.5))
    assert plots._best_labels(panels) == {str(k) for k in range(8, 20)}


def test_final_performance_is_the_mean_over_the_last_tenth(tmp_path):
    write_trial(tmp_path / "e" / "t", {}, [report(k, float(k)) for k in range(1, 21)])
    (trial,) = reading.load([str(tmp_path)])
    assert statistics.final_mean(*trial.curve(J_PI)) == pytest.approx((18 + 19 + 20) / 3)


def test_seeds_of_different_length_are_compared_where_all_have_data():
    short = (np.array([0.0, 10.0]), np.array([0.0, 10.0]))
    long = (np.array([0.0, 5.0, 20.0]), np.array([0.0, 5.0, 20.0]))
    steps, values = statistics.common_grid([short, long])
    assert steps.tolist() == [0, 5, 10]
    assert values.tolist() == [[0, 5, 10], [0, 5, 10]]


def test_mean_and_standard_error_over_seeds():
    mean, error = statistics.mean_and_error(np.array([[1.0], [2.0], [6.0]]))
    assert mean[0] == 3 and error[0] == pytest.approx(np.std([1, 2, 6], ddof=1) / np.sqrt(3))
    assert statistics.mean_and_error(np.array([[4.0]]))[1][0] == 0


def test_the_interquartile_mean_ignores_an_outlier():
    iqm, low, high = statistics.interquartile_mean(np.array([1.0, 2.0, 2.0, 3.0, 1000.0, 2.0]))
    assert iqm < 10 and low <= iqm <= high


class _Attack:
    def __reduce__(self):
        return os.mkdir, ("owned",)


@pytest.mark.parametrize("attack", [_Attack(), {"pi": _Attack()}, [np.zeros(2), _Attack()]])
def test_weights_only_runs_no_code_of_a_checkpoint(tmp_path, monkeypatch, attack):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "c" / "learner_group" / "learner" / "rl_module" / "default_policy"
    folder.mkdir(parents=True)
    (folder / "module_state.pkl").write_bytes(pickle.dumps(attack))
    with pytest.raises(UserError, match="refused"):
        checkpoints.load_weights(tmp_path / "c", weights_only=True)
    assert not (tmp_path / "owned").exists()


def test_a_checkpoint_that_differs_from_its_checksums_is_not_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "class_and_ctor_args.pkl").write_bytes(pickle.dumps(_Attack()))
    files = {"class_and_ctor_args.pkl": [3, "0"]}
    manifest = {"format": FORMAT, "algorithm": ["ACE"], "files": files}
    (tmp_path / "geoffpac_manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="damaged"):
        checkpoints.load_config(tmp_path, weights_only=False)
    assert not (tmp_path / "owned").exists()


def test_weights_only_reads_arrays(tmp_path):
    folder = tmp_path / "learner_group" / "learner" / "rl_module" / "default_policy"
    folder.mkdir(parents=True)
    weights = {"pi": np.arange(6, dtype=np.float32).reshape(2, 3), "v": np.float32(2)}
    (folder / "module_state.pkl").write_bytes(pickle.dumps(weights))
    loaded = checkpoints.load_weights(tmp_path, weights_only=True)
    assert np.array_equal(loaded["pi"], weights["pi"]) and loaded["v"] == 2


def test_weights_only_unpickles_nothing_where_there_are_plain_arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "learner_group" / "learner" / "rl_module" / "default_policy"
    folder.mkdir(parents=True)
    (folder / "module_state.pkl").write_bytes(pickle.dumps(_Attack()))
    weights = {"pi.0.weight": np.arange(6, dtype=np.float64).reshape(2, 3)}
    np.savez(tmp_path / "weights.npz", **weights)
    loaded = checkpoints.load_weights(tmp_path, weights_only=True)
    np.testing.assert_array_equal(loaded["pi.0.weight"], weights["pi.0.weight"])
    np.savez(tmp_path / "weights.npz", pi=np.array([_Attack()], dtype=object))
    with pytest.raises(UserError, match=r"weights\.npz' is damaged"):
        checkpoints.load_weights(tmp_path, weights_only=True)
    assert not (tmp_path / "owned").exists()


def test_a_damaged_checkpoint_is_named(tmp_path):
    folder = tmp_path / "learner_group" / "learner" / "rl_module" / "default_policy"
    folder.mkdir(parents=True)
    (folder / "module_state.pkl").write_bytes(b"\x80\x04half")
    for weights_only in (False, True):
        with pytest.raises(UserError, match="damaged"):
            checkpoints.load_weights(tmp_path, weights_only)


def test_integer_keys_of_an_environment_survive_json(tmp_path):
    env_config = {"rooms": {1: "kitchen", "two": [{2: 3}]}, 7: 8}
    settings = {"env": "CartPole-v1", "env_config": env_config}
    (experiment,) = experiments.parse(
        yaml.dump({"run": {"run": "ACE", "config": settings}}), "file"
    )
    folders.write_spec(str(tmp_path), folders.spec_of(experiment))
    (tmp_path / "trial" / "checkpoint").mkdir(parents=True)
    (tmp_path / "trial" / "params.json").write_text(json.dumps(settings))  # as Tune does
    config = checkpoints.load_config(tmp_path / "trial" / "checkpoint", weights_only=True)
    assert config.env_config == env_config


def test_without_an_evaluation_the_estimated_objective_or_the_loss_is_shown(tmp_path):
    trials = reading.load([str(write_sweep(tmp_path / "learning", [{}], evaluated=False))])
    assert reading.common_metric(trials, None) == "learners/default_policy/total_loss"
    objective = "learners/default_policy/objective_estimate"
    assert reading.stand_in([objective, "learners/default_policy/total_loss"]) == objective
    assert reading.stand_in(["time_total_s", "pid"]) == "pid"
