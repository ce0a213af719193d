"""Who imports whom: no cycles, the maths at the bottom, and a command that answers at once."""

import ast

import pytest
from import_graph import cycles, graph_of, modules_of, reachable

GRAPH = graph_of("rllib_geoffpac", "rllib_cli", "paper")
HEAVY = {"ray", "torch", "jax", "gymnasium", "scipy", "matplotlib", "pandas"}


def docstring(module: str) -> str:
    """The first line of a module's docstring."""
    path = modules_of(module.partition(".")[0])[module]
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def roots(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def test_no_modules_import_each_other():
    assert cycles(GRAPH) == []


def test_cycles_are_found():
    graph = {"a": {"b", "numpy"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert cycles(graph) == [["a", "b", "c"]]


def test_the_plugin_does_not_know_the_command():
    plugin = {name: arrows for name, arrows in GRAPH.items() if name.startswith("rllib_geoffpac")}
    assert {name: arrows for name, arrows in plugin.items() if "rllib_cli" in roots(arrows)} == {}


MATHS = [name for name in GRAPH if name.startswith("rllib_geoffpac.maths.")]


@pytest.mark.parametrize("module", MATHS)
def test_the_maths_knows_neither_ray_nor_the_rooms_above_it(module):
    own = {name for name in GRAPH[module] if name.startswith("rllib_")}
    assert all(name.startswith("rllib_geoffpac.maths.") for name in own), own
    assert "ray" not in roots(GRAPH[module])


QUICK = [
    name for name in GRAPH if name.startswith("rllib_cli") and "(imports " not in docstring(name)
]


@pytest.mark.parametrize("module", ["rllib_geoffpac", *QUICK])
def test_what_must_answer_at_once_imports_nothing_heavy(module):
    """Modules of the command may import Ray if the first line of their docstring says so."""
    assert roots(reachable(GRAPH, module)) & HEAVY == set()


def test_the_command_s_own_modules_are_quick():
    assert {"rllib_cli.app", "rllib_cli.options", "rllib_cli.experiment.parse"} <= set(QUICK)
