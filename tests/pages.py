"""The project's pages as data: which there are, their code blocks, links, headings and words."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "paper").glob("*.md")],
    key=str,
)
LANGUAGES = ("bash", "python", "yaml", "text", "console")
"""Blocks of the first three are run; `text` and `console` say that a block can't be."""

PACKAGES = ("rllib_geoffpac", "rllib_cli", "paper")
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def name(page: Path) -> str:
    """A page's path from the root."""
    return page.relative_to(ROOT).as_posix()


@functools.cache
def text(page: Path) -> str:
    """A page as it stands."""
    return page.read_text(encoding="utf-8")


def blocks(language: str | None = None) -> list[Block]:
    """All fenced blocks of all pages, of one language or of any."""
    found = [
        Block(name(page), text(page)[: match.start()].count("\n") + 1, match[2], match[3])
        for page in PAGES
        for match in _FENCE.finditer(text(page))
    ]
    return [block for block in found if language in (None, block.language)]


def prose(page: Path) -> str:
    """A page without its fenced blocks and comments."""
    return _COMMENT.sub("", _FENCE.sub("", text(page)))


def commands(block: Block) -> list[str]:
    """The commands of a shell block, with continued lines joined."""
    joined = block.text.replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip()]


def inline_code(page: Path) -> list[str]:
    """Everything in backticks."""
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose(page))


def links(page: Path) -> list[str]:
    """Targets of the page's links and pictures, without those to the web."""
    found = re.findall(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"", prose(page))
    return [link or other for link, other in found if not re.match(r"\w+:", link or other)]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs name them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.strip().replace(" ", "-") for heading in plain}


@functools.cache
def modules() -> dict[str, Path]:
    """Dotted name -> file of every module of ours."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            dotted = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[dotted] = path
    return found


@functools.cache
def defined(path: Path) -> dict[str, set[str]]:
    """Top-level names of a module -> what is defined inside, for classes.

    A lazily importing package names what it offers in strings, so these count as well.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.update({alias.asname or alias.name: set() for alias in node.names})
        elif path.name == "__init__.py" and isinstance(node, ast.Constant):
            found.setdefault(str(node.value), set())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = _members(node) if isinstance(node, ast.ClassDef) else set()
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update({t.id: set() for t in targets if isinstance(t, ast.Name)})
    return found


def _members(node: ast.ClassDef) -> set[str]:
    inside = {child.name for child in node.body if isinstance(child, ast.FunctionDef)}
    fields = {
        child.target.id
        for child in node.body
        if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name)
    }
    return inside | fields


@functools.cache
def source() -> str:
    """All code, settings and examples of the repository and its pages, to look words up in."""
    folders = (*PACKAGES, "benchmarks", "tests", "tuned_examples", "deploy", ".ci")
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".yaml", "") and path.is_file() and "pages" not in path.name
    ]
    files += [ROOT / "setup.py", ROOT / "constraints.txt", *ROOT.glob("*.toml")]
    texts = [path.read_text(encoding="utf-8", errors="ignore") for path in files]
    return "\n".join([*texts, *(block.text for block in blocks())])


@functools.cache
def words() -> frozenset[str]:
    """The words of `source`."""
    return frozenset(re.findall(r"\w+", source()))


def my_lab() -> str:
    """The module that docs/extending.md writes, block by block."""
    return "\n\n".join(
        block.text for block in blocks("python") if block.text.startswith("# my_lab.py")
    )
