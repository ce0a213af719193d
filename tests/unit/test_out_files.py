"""What `--out` may name; nothing is made or changed by asking."""

import pytest

from rllib_cli import out_files
from rllib_cli.errors import UserError


def test_a_new_file_an_old_one_and_one_in_a_folder_that_is_not_there_yet(tmp_path):
    (tmp_path / "old.png").write_text("as it was")
    for name in ("new.png", "old.png", "not/there/yet.png"):
        assert out_files.checked(tmp_path / name, (".png",)) == tmp_path / name
    assert [path.name for path in tmp_path.iterdir()] == ["old.png"]
    assert (tmp_path / "old.png").read_text() == "as it was"
    out_files.make_room(tmp_path / "not/there/yet.png")
    assert (tmp_path / "not/there").is_dir()


def test_the_home_folder_has_its_short_name(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert out_files.checked("~/policy.pt") == tmp_path / "policy.pt"


def test_what_cannot_be_written_is_refused_with_the_reason(tmp_path):
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").touch()
    for name, says in [
        ("a.doc", "the picture must end in .png, .pdf or .svg"),
        ("folder.png", "can't be written: it is a folder"),
        ("file/a.png", "file' is a file. Give another place with --out"),
    ]:
        with pytest.raises(UserError, match=says):
            out_files.checked(tmp_path / name, (".png", ".pdf", ".svg"), "picture")


def test_a_folder_that_takes_no_files_is_refused():
    # Not even the superuser may make one there.
    with pytest.raises(UserError, match=r"'/proc' is not writable .*Give another place"):
        out_files.checked("/proc/a.png")


def test_results_have_theirs_beside_them_and_those_behind_a_uri_here(tmp_path):
    def asked(path, out=None):
        return out_files.in_results([str(path)], out, "plot.png", (".png",), "picture")

    assert asked(tmp_path) == tmp_path / "plot.png"
    assert str(asked("s3://bucket/run")) == "plot.png"
    assert asked(tmp_path, str(tmp_path / "other.png")) == tmp_path / "other.png"
    # That it is missing is for the reader of results to say.
    assert asked(tmp_path / "missing") == tmp_path / "missing" / "plot.png"
