"""Every Python block of the pages runs, and what is generated in them is up to date."""

import subprocess
import sys

import pages
import pytest

pytestmark = pytest.mark.slow
# The loop over an exported policy has a test of its own, which exports one.
BLOCKS = [
    block
    for block in pages.blocks("python")
    if not block.text.startswith("# my_lab.py") and "onnxruntime" not in block.text
]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_python_of_the_pages_runs(block, ray, tmp_path, monkeypatch):
    (tmp_path / "my_lab.py").write_text(pages.my_lab())
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    if "minari:" in block.text:
        pytest.importorskip("minari", reason="extra offline")
    # A reader's run takes a minute; one iteration shows that it would.
    text = block.text.replace("range(50)", "range(1)")
    namespace: dict = {}
    exec(compile(text, str(block), "exec"), namespace)
    if "config" in namespace:
        namespace["config"].validate()
    if "algorithm" in namespace:
        assert len(namespace["result"]["weights_digest"]) == 12
        namespace["algorithm"].stop()


def test_the_extensions_of_the_pages_learn(ray, tmp_path, monkeypatch):
    (tmp_path / "my_lab.py").write_text(pages.my_lab())
    monkeypatch.syspath_prepend(tmp_path)
    (block,) = [b for b in BLOCKS if b.page == "docs/extending.md" and "GeoffPACConfig" in b.text]
    namespace: dict = {}
    exec(compile(block.text, str(block), "exec"), namespace)
    algorithm = namespace["config"].build_algo()
    result = algorithm.train()
    algorithm.stop()
    assert result["num_env_steps_sampled_lifetime"] >= 2000
    assert not result["diverged"]


def test_settings_options_and_metrics_of_the_pages_are_those_of_the_code():
    done = subprocess.run(
        [sys.executable, pages.ROOT / "docs" / "generate.py", "--check"],
        cwd=pages.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
