"""Results behind a URI: read and written through pyarrow, whatever file system it is."""

import json
import shlex
import time
from pathlib import Path

import fsspec
import pytest

from rllib_cli import folders, storage
from rllib_cli.errors import UserError
from rllib_cli.evaluate import checkpoints
from rllib_cli.experiment.parse import Experiment
from rllib_cli.plot import plots
from rllib_cli.results import reading

SWEEP = (
    "example", "run", "smoke/two_circle_sweep", "--set", "gamma_hat=0.9", "--set", "lambda_2=1",
    "--num-samples", "1",
)  # fmt: skip


def printed(text: str, words: str) -> list[str]:
    """The arguments of a command that was printed to be copied."""
    line = next(line.strip() for line in text.splitlines() if line.strip().startswith(words))
    return shlex.split(line)[1:]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_run_behind_a_uri_is_trained_evaluated_plotted_and_kept_apart(rllib, rllib_here, home):
    # A name that a URI has to escape.
    uri = f"file://{home}/my%20results"
    trained = rllib(*SWEEP, "--storage-path", uri, "-v")
    assert trained.status == 0, trained.text
    folder = home / "my results" / "smoke-two-circle-sweep"
    assert json.loads((folder / "experiment.json").read_text())["run"] == "GeoffPAC"
    assert [path.name for path in home.iterdir()] == ["my results"]
    log = next(line for line in trained.out.splitlines() if line.startswith("Log of Ray"))
    Path(log.partition(": ")[2]).unlink()

    evaluate, plot = printed(trained.out, "rllib evaluate"), printed(trained.out, "rllib plot")
    assert evaluate[1].startswith(f"{uri}/smoke-two-circle-sweep/00000/checkpoint_")
    assert f"  {evaluate[1]}\n" in trained.out.partition("Best checkpoint")[2]
    for number, more in enumerate([[], ["--weights-only"]]):
        evaluated = rllib_here(*evaluate, "--out", f"{number}.json", *more)
        assert evaluated.status == 0, evaluated.text
    measured = [json.loads((home / f"{number}.json").read_text()) for number in (0, 1)]
    assert measured[0] == measured[1] and measured[0]["checkpoint"] == evaluate[1]
    plotted = rllib_here(*plot)
    assert plotted.status == 0, plotted.text
    assert (home / "plot.png").stat().st_size > 10_000

    again = rllib_here(*SWEEP, "--storage-path", uri, "--dry-run")
    assert f"{uri}/smoke-two-circle-sweep_2" in again.out
    other = rllib_here(*SWEEP, "--storage-path", uri, "--resume", "--stop", "{time_total_s: 1}")
    assert other.status == 2 and "'stop' differs" in other.err
    named = rllib_here(*SWEEP, "--storage-path", uri, "--experiment-name", "smoke-two-circle-sweep")
    assert named.status == 2 and "--resume" in named.err


def test_an_unwritable_uri_is_refused_before_ray_starts(rllib_here, home):
    import ray

    running = ray.is_initialized()
    result = rllib_here(*SWEEP, "--storage-path", "file:///proc/nowhere")
    assert result.status == 2 and result.out == ""
    assert "not writable" in result.err and "file:///proc/nowhere" in result.err
    assert ray.is_initialized() == running and list(home.iterdir()) == []


@pytest.fixture(params=["file", "fsspec+memory"])
def uri(request, tmp_path):
    """An empty place on two file systems: this machine's, and one in memory that is no folder."""
    if request.param == "file":
        return f"file://{tmp_path}/a%20b"
    return f"fsspec+memory://{tmp_path}/a b"


@pytest.mark.parametrize(
    "location, expected",
    [
        ("/results", "/results/a b/c"),
        ("s3://bucket", "s3://bucket/a%20b/c"),
        ("s3://bucket/p/?scheme=http&x=/", "s3://bucket/p/a%20b/c?scheme=http&x=/"),
        ("file:///", "file:///a%20b/c"),
    ],
)
def test_a_sub_path_of_a_uri_is_escaped_and_keeps_the_query_at_its_end(location, expected):
    assert storage.join(location, "a b", "c") == expected


def test_a_path_that_tune_reports_is_printed_as_a_uri():
    query = "?endpoint_override=127.0.0.1:9&scheme=http"
    uri = storage.location_of("bucket/a b/trial,seed=1/checkpoint_0", f"s3://bucket/a%20b{query}")
    assert uri == f"s3://bucket/a%20b/trial,seed=1/checkpoint_0{query}"
    assert storage.location_of("/results/trial", "/results") == "/results/trial"


def test_the_description_of_an_experiment_is_kept_behind_a_uri(uri):
    experiment = Experiment("run", "PPO", storage_path=uri)
    assert folders.read_spec(experiment.folder) == {} and not storage.exists(experiment.folder)
    folders.write_spec(experiment.folder, folders.spec_of(experiment))
    assert folders.read_spec(experiment.folder) == folders.spec_of(experiment)


def test_only_a_folder_with_results_is_taken(uri):
    experiment = Experiment("run", "PPO", storage_path=uri)
    with pytest.raises(UserError, match="no earlier run"):
        folders.choose_folders([experiment], resume=True, name_is_given=False)
    storage.write_text(storage.join(uri, "run", "experiment.json"), "{}")
    assert folders.choose_folders([experiment], False, False) == ([experiment], None)
    storage.write_text(storage.join(uri, "run", "tuner.pkl"), "")
    assert folders.choose_folders([experiment], False, False)[1] == "run_2"


def test_results_are_read_without_the_checkpoints(uri):
    trial = storage.join(uri, "run", "trial,seed=1")
    storage.write_text(storage.join(uri, "run", "experiment.json"), '{"run": "ACE"}')
    storage.write_text(storage.join(trial, "params.json"), '{"seed": 1}')
    storage.write_text(storage.join(trial, "result.json"), '{"training_iteration": 1, "x": 2}\n')
    storage.write_text(storage.join(trial, "checkpoint_000000", "big.pkl"), "")
    with storage.local_copy(uri, ("result.json",)) as folder:
        assert [path.name for path in folder.rglob("*.*")] == ["result.json"]
    assert not folder.exists()
    for place in (uri, trial):
        (loaded,) = reading.load([place])
        assert (loaded.run, loaded.experiment, loaded.params) == ("ACE", "run", {"seed": 1})
        assert loaded.reports == [{"training_iteration": 1, "x": 2}]
    with pytest.raises(UserError, match="no trial reported"):
        plots.plot([uri], metric="y")


def test_the_newest_checkpoint_of_a_trial_is_found_and_copied_with_its_settings(uri):
    trial = storage.join(uri, "run", "trial")
    storage.write_text(storage.join(uri, "run", "experiment.json"), '{"run": "ACE"}')
    storage.write_text(storage.join(trial, "params.json"), "{}")
    for name in ("checkpoint_000000", "checkpoint_000001"):
        storage.write_text(storage.join(trial, name, "rllib_checkpoint.json"), "{}")
    newest = storage.join(trial, "checkpoint_000001")
    assert checkpoints.find_checkpoint(trial) == newest
    with pytest.raises(UserError) as refused:
        checkpoints.find_checkpoint(storage.join(uri, "run"))
    assert repr(newest) in str(refused.value)
    with storage.local_copy(newest) as folder:
        assert (folder / "rllib_checkpoint.json").exists()
        assert (folder.parent / "params.json").exists()
        assert folders.read_spec(folder.parent.parent) == {"run": "ACE"}


def test_an_error_in_a_copy_names_the_uri(tmp_path):
    uri = f"file://{tmp_path}/checkpoint"
    storage.write_text(f"{uri}/rllib_checkpoint.json", "{}")
    with pytest.raises(UserError) as refused, storage.local_copy(uri) as folder:
        checkpoints.load_weights(folder, weights_only=True)
    assert f"{uri}/learner_group" in str(refused.value) and str(folder) not in str(refused.value)


def test_a_name_that_leads_out_of_the_copy_is_refused():
    memory = fsspec.filesystem("memory")
    memory.store["/evil/../../owned.json"] = memory.open("/evil/x.json", "wb")
    uri = "fsspec+memory:///evil"
    try:
        with pytest.raises(UserError, match="refused"), storage.local_copy(uri):
            pass
    finally:
        memory.store.clear()


@pytest.mark.parametrize(
    "uri, says",
    [
        ("s3a://bucket/runs", ["s3a://", "Did you mean", "s3://", "gs://", "file://"]),
        ("s3://", ["Missing bucket"]),
        ("s3://bucket?endpoint=x", ["query parameter", "'endpoint'"]),
        ("file://relative", ["relative"]),
    ],
)
def test_a_wrong_uri_is_one_sentence(rllib_here, home, uri, says):
    for arguments in ((*SWEEP, "--storage-path"), ("plot",), ("evaluate",)):
        result = rllib_here(*arguments, uri)
        assert result.status == 2 and result.out == "" and result.err.count("\n") == 1
        assert [words for words in [*says, uri[:5]] if words not in result.err] == []
    assert list(home.iterdir()) == []


def test_a_file_is_no_place_for_results(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(UserError, match="file"):
        storage.check(f"file://{tmp_path}/taken")


def test_waiting_for_a_file_system_is_not_silent(tmp_path, monkeypatch, capsys):
    uri = f"file://{tmp_path}"
    storage.check(uri)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(storage, "_SILENCE_S", 0.01)
    slow = storage._open(uri)[0]

    class Slow:
        def get_file_info(self, path):
            time.sleep(0.3)
            return slow.get_file_info(path)

    monkeypatch.setattr(storage, "_open", lambda uri: (Slow(), str(tmp_path)))
    storage.check(uri)
    assert capsys.readouterr().err == f"Waiting for {uri} ...\n"
