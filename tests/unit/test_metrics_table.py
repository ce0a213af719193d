"""The table of metrics: what the command, the plots and the glossary read in it."""

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import rllib_cli
from rllib_cli import plugins
from rllib_cli.errors import UserError
from rllib_cli.experiment.code_references import is_kept_as_text
from rllib_cli.experiment.names import RLLIB_ALGORITHMS
from rllib_cli.experiment.parse import Experiment
from rllib_cli.experiment.result_keys import check_result_key, default_metric, metrics_of
from rllib_cli.plot.plots import metric_label, short
from rllib_geoffpac.metrics import ALGORITHMS, METRICS, Metric, glossary

EVALUATE = {"evaluation_interval": 1}


def test_no_two_rows_of_an_algorithm_have_one_key():
    for algorithm in ALGORITHMS:
        keys = [metric.key for metric in METRICS if algorithm in metric.algorithms]
        assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("name", "key", "matches"),
    [
        ("j_pi", "j_pi", True),
        ("j_pi", "j_pi_stderr", False),
        ("evaluation/<count>", "evaluation/num_healthy_workers", True),
        ("evaluation/<count>", "evaluation/env_runners/j_pi", False),
        ("timers/<part...>", "timers/connectors/first", True),
        ("<network>_learning_rate", "pi_learning_rate", True),
        ("<network>_learning_rate", "learning_rate", False),
    ],
)
def test_angle_brackets_stand_for_a_key_and_with_dots_for_a_path(name, key, matches):
    assert Metric(name, "", "").matches(key) == matches


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_number_of_a_result_can_stop_a_run(algorithm):
    experiment = Experiment("x", algorithm, EVALUATE)
    for metric in metrics_of(experiment):
        if metric.is_number and not metric.is_open:
            check_result_key(metric.key, "stop", experiment)
    check_result_key("evaluation/env_runners/evaluated_at_env_steps", "stop", experiment)
    check_result_key("env_runners/recorded_chunks_damaged", "stop", experiment)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("weights_digest", "is no number, but text"),
        ("diverged", "is no number, but yes or no"),
        ("env_runners/j_pi", "Did you mean 'evaluation/env_runners/j_pi'?"),
        ("j_pi", "Did you mean 'evaluation/env_runners/j_pi'?"),
        ("learners/default_policy/rho_meen", "'learners/default_policy/rho_mean'"),
        ("learners/default_policy/critic_loss", "no result of GeoffPAC will contain"),
        ("env_runners/episode_len_median", "no result of GeoffPAC will contain"),
        ("two_circle/pi_outer", "no result of GeoffPAC will contain"),
    ],
)
def test_what_no_result_holds_as_a_number_is_refused(key, says):
    with pytest.raises(UserError) as error:
        check_result_key(key, "stop", Experiment("x", "GeoffPAC", EVALUATE))
    assert says in str(error.value)


@pytest.mark.parametrize("own_code", [{"callbacks": "m:C"}, {"learner_class": "m:L"}])
def test_code_of_the_users_own_may_report_what_it_likes(own_code):
    experiment = Experiment("x", "GeoffPAC", own_code)
    check_result_key("two_circle/pi_outer", "stop", experiment)
    check_result_key("learners/default_policy/mine", "stop", experiment)
    with pytest.raises(UserError):
        check_result_key("training_iterations", "stop", experiment)


def test_what_is_best_follows_from_the_table():
    j_pi = "evaluation/env_runners/j_pi"
    for algorithm in ALGORITHMS:
        assert default_metric(Experiment("x", algorithm, EVALUATE)) == j_pi
        training = default_metric(Experiment("x", algorithm))
        assert training == "env_runners/episode_return_mean"
    for algorithm in RLLIB_ALGORITHMS:
        best = default_metric(Experiment("x", algorithm, EVALUATE))
        assert best == "evaluation/env_runners/episode_return_mean"


def test_an_algorithm_of_ones_own_reports_what_its_ancestor_does():
    from rllib_geoffpac import TD3

    experiment = Experiment("x", "MyTD3", EVALUATE, algorithm=type("MyTD3", (TD3,), {}))
    assert default_metric(experiment) == "evaluation/env_runners/j_pi"
    check_result_key("learners/default_policy/q_mean", "stop", experiment)


def test_plots_take_their_labels_from_the_table():
    assert metric_label("evaluation/env_runners/j_pi") == r"$J_\pi$ (target policy)"
    assert metric_label("learners/default_policy/rho_mean") == "rho mean"
    assert short("gamma_hat") == r"$\hat\gamma$"


def test_the_glossary_explains_every_row_and_needs_no_ray():
    code = "import sys, runpy; runpy.run_module('rllib_geoffpac.metrics', run_name='__main__'); "
    code += "assert not {'ray', 'torch'} & set(sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout == glossary()
    for metric in METRICS:
        assert f"`{metric.name}`" in printed.stdout
        assert metric.meaning in printed.stdout


def test_another_package_is_served_by_naming_its_module(monkeypatch):
    other = ModuleType("other_package")
    other.ALGORITHMS = ("Other",)
    other.METRICS = (
        Metric("score", "points", "what Other wants", headline="score", algorithms=("Other",)),
    )
    other.metrics_of = lambda name: other.METRICS
    other.CODE_KEYS, other.SETTING_LABELS = frozenset({"teacher"}), {"alpha": r"$\alpha$"}
    monkeypatch.setitem(sys.modules, "other_package", other)
    monkeypatch.setattr(plugins, "PLUGINS", (*plugins.PLUGINS, "other_package"))
    experiment = Experiment("x", "Other")
    assert default_metric(experiment) == "score"
    check_result_key("score", "stop", experiment)
    assert {"Other", *ALGORITHMS} == set(plugins.algorithms())
    assert is_kept_as_text("teacher") and plugins.setting_labels()["alpha"] == r"$\alpha$"


def test_the_command_knows_no_algorithm_of_a_plugin_by_name():
    for path in Path(rllib_cli.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        constants = {node.value for node in nodes if isinstance(node, ast.Constant)}
        assert not constants & set(ALGORITHMS), path
        imported = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        assert not any(name.startswith("rllib_geoffpac.algorithms") for name in imported), path
