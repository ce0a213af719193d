"""Private names of Ray and torch stand in `rllib_geoffpac/compat.py`, and nowhere else."""

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rllib_geoffpac import compat

ROOT = Path(__file__).parents[2]
COMPAT = ROOT / "rllib_geoffpac" / "compat.py"
PACKAGES = ("rllib_geoffpac", "rllib_cli")
EVERYTHING = (*PACKAGES, "paper", "benchmarks", "tests")
OURS = {"rllib_geoffpac", "rllib_cli", "paper"}
# Of named tuples, of `os`, and what `abc` gives every abstract class.
PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_exit", "_abc_impl"}
ON_ITSELF = ("self", "cls", "super()")


def files(*folders: str) -> list[Path]:
    return [f for folder in folders for f in sorted((ROOT / folder).rglob("*.py")) if f != COMPAT]


def parse(file: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def own_names() -> set[str]:
    """Private names that our code defines: functions, classes, attributes, variables."""
    names = set()
    for node in (node for file in files(*EVERYTHING) for node in parse(file)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names - set(compat.INHERITED)


OWN = own_names()


def private_imports(nodes: list[ast.AST]) -> Iterator[str]:
    """Imports of private modules, or of private names, of other packages."""
    for node in nodes:
        if isinstance(node, ast.Import):
            paths = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            paths = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for path in paths:
            parts = path.split(".")
            if parts[0] not in OURS and any(map(is_private, parts)):
                yield f"line {node.lineno}: import of {path}"


def private_attributes(nodes: list[ast.AST]) -> Iterator[str]:
    """Foreign private attributes: of other objects, or inherited ones that are not listed."""
    for node in nodes:
        if isinstance(node, ast.keyword) and is_private(node.arg or "") and node.arg not in OWN:
            yield f"line {node.lineno}: argument {node.arg}"
        if not (isinstance(node, ast.Attribute) and is_private(node.attr)) or node.attr in OWN:
            continue
        owner = ast.unparse(node.value)
        if owner not in ON_ITSELF or node.attr not in compat.INHERITED:
            yield f"line {node.lineno}: {owner}.{node.attr}"


@pytest.mark.parametrize("file", files(*EVERYTHING), ids=lambda file: str(file.relative_to(ROOT)))
def test_no_private_name_of_others_is_touched(file):
    nodes = parse(file)
    assert [*private_imports(nodes), *private_attributes(nodes)] == []


@pytest.mark.parametrize("file", files(*PACKAGES), ids=lambda file: str(file.relative_to(ROOT)))
def test_no_private_name_hides_in_a_text(file):
    listed = {*compat.SETTING_ATTRIBUTES.values(), *compat.INHERITED}
    listed |= {compat.BATCH_SIZE_ATTRIBUTE, compat.FROZEN_ATTRIBUTE}
    texts = {node.value for node in parse(file) if isinstance(node, ast.Constant)}
    assert listed & {text for text in texts if isinstance(text, str)} == set()


def test_such_names_are_found():
    code = "from ray._private import x\nimport torch._C\ngroup._worker_manager\nself._unlisted()"
    code += "\nray.init(_temp_dir='x')"
    nodes = list(ast.walk(ast.parse(code)))
    assert len([*private_imports(nodes), *private_attributes(nodes)]) == 5
    assert [*private_attributes(list(ast.walk(ast.parse("self._check_component(x)"))))] == []


def test_our_classes_override_no_other_private_name_of_their_foreign_bases():
    overridden = {name for base, name in overrides() if base not in ("enum", "typing")}
    assert overridden <= set(compat.INHERITED)


def test_the_list_holds_only_what_is_used():
    used = {name for _, name in overrides()}
    for node in (node for file in files(*PACKAGES) for node in parse(file)):
        if isinstance(node, ast.Attribute):
            used.add(node.attr)
    assert set(compat.INHERITED) - used == set()


def overrides() -> set[tuple[str, str]]:
    """(package of the foreign base, name) of every private name that a class of ours overrides."""
    found = set()
    for package in PACKAGES:
        for module in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if module.name.endswith(".__main__") or "tuned_examples" in module.name:
                continue
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and value.__module__ == module.name:
                    found |= set(_overrides_of(value))
    return found


def _overrides_of(cls: type) -> Iterator[tuple[str, str]]:
    for base in cls.__mro__[1:]:
        package = base.__module__.partition(".")[0]
        if package not in OURS | {"builtins", "abc"}:
            shared = vars(cls).keys() & vars(base).keys()
            yield from ((package, name) for name in shared if is_private(name))
