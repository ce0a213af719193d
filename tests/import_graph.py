"""The module-level imports of a package, read from its source with `ast`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def modules_of(package: str) -> dict[str, Path]:
    """The package's modules by name; a package's own module is its `__init__.py`."""
    modules = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def imports_of(module: str, path: Path, known: set[str]) -> set[str]:
    """The modules that importing `module` imports; of the `known` ones those that are meant.

    `from package import name` is an arrow to `package.name` where that is a module, otherwise to
    `package`. Imports inside functions and under TYPE_CHECKING do not count: they do not run.
    """
    arrows = set()
    for node in _executed(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Import):
            arrows |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, module, path)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                arrows.add(inner if inner in known else base)
    return arrows - {module}


def _executed(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that an import runs: not those of functions nor under TYPE_CHECKING."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _executed(node.orelse)
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from _executed(getattr(node, field, []))
        for handler in getattr(node, "handlers", []):
            yield from _executed(handler.body)


def _base(node: ast.ImportFrom, module: str, path: Path) -> str:
    if not node.level:
        return node.module or ""
    parents = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    parents = parents[: len(parents) - node.level + 1]
    return ".".join([*parents, *([node.module] if node.module else [])])


def graph_of(*packages: str) -> dict[str, set[str]]:
    """Arrows from every module of the packages to what it imports, foreign modules included."""
    modules = {name: path for package in packages for name, path in modules_of(package).items()}
    return {name: imports_of(name, path, set(modules)) for name, path in modules.items()}


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules that import each other, directly or not (Tarjan's components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for successor in sorted(graph[node] & graph.keys()):
            if successor not in index:
                visit(successor)
            if successor in stack:
                low[node] = min(low[node], low[successor])
        if low[node] == index[node]:
            component = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(component) > 1:
                found.append(sorted(component))

    for node in graph:
        if node not in index:
            visit(node)
    return found


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Everything that importing `start` imports through our own modules, parents included."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        parent = node.rpartition(".")[0]
        todo += [*graph.get(node, ()), *([parent] if parent in graph else [])]
    return seen
