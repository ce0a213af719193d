"""The notebook runs from its first cell to its last, with a smaller budget."""

import re

import pytest
from pages import ROOT

nbclient = pytest.importorskip("nbclient")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_tutorial_runs_and_its_sampled_gradient_is_the_exact_one(tmp_path):
    import nbformat

    notebook = nbformat.read(ROOT / "docs" / "tutorial.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("STEPS = 40_000", "STEPS = 5_000")
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=500, resources=resources).execute()
    printed = "".join(
        output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])
    )
    terms = re.findall(r"sampled ([-+.\d]+) \+- ([.\d]+), \s+exact +([-+.\d]+)", printed)
    assert len(terms) == 2
    for sampled, error, exact in terms:
        assert abs(float(sampled) - float(exact)) < 5 * float(error)
    assert "report.html" in printed
