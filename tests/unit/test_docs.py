"""The pages: short where they should be, linked, and about things that exist."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pages
import pytest
import typer
from pages import PAGES, ROOT

from rllib_cli.app import app

README = ROOT / "README.md"
every_page = pytest.mark.parametrize("page", PAGES, ids=pages.name)
# The changelog also speaks of what there was.
every_page_about_now = pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=pages.name
)
FILES = (".csv", ".json", ".md", ".npz", ".png", ".py", ".yaml")


def test_the_readme_is_short():
    lines = pages.text(README).splitlines()
    assert len(lines) <= 200
    assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []


@every_page
def test_no_line_outside_a_table_is_longer_than_150_characters(page):
    long = [line for line in pages.text(page).splitlines() if len(line) > 150]
    assert [line for line in long if not line.lstrip().startswith("|")] == []


def test_the_first_two_blocks_of_the_quick_start_train_and_test_in_a_fresh_clone():
    start = pages.text(README).partition("\n## Quick start\n")[2].partition("\n## ")[0]
    train, test = re.findall(r"^```bash\n(.*?)^```$", start, re.DOTALL | re.MULTILINE)[:2]
    form = (
        r"python3\.11 -m venv \.venv && \.venv/bin/pip install -q -c constraints\.txt "
        r"-e '\.\[([\w,]+)\]' && (\.venv/bin/.+)"
    )
    extras = set(re.findall(r"^        \"(\w+)\": \[", (ROOT / "setup.py").read_text(), re.M))
    ends = []
    for command in (train, test):
        match = re.fullmatch(form, " ".join(command.replace("\\\n", " ").split()))
        assert match, command
        assert set(match[1].split(",")) <= extras
        ends.append(match[2])
    verb, example = ends[0].rsplit(" ", 1)
    assert verb == ".venv/bin/rllib example run"
    assert (ROOT / "tuned_examples" / f"{example}.yaml").is_file()
    assert ends[1] == ".venv/bin/python -m pytest"


@every_page
def test_links_lead_to_files_and_headings_that_exist(page):
    for link in pages.links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in pages.anchors(target), link


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set(), [README]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        targets = [(page.parent / link.partition("#")[0]).resolve() for link in pages.links(page)]
        waiting += [t for t in targets if t.suffix == ".md" and t not in reached]
    assert set(PAGES) <= reached


def test_every_block_says_its_language():
    assert [str(b) for b in pages.blocks() if b.language not in pages.LANGUAGES] == []


@every_page_about_now
def test_paths_in_backticks_exist(page):
    top = {path.name for path in ROOT.iterdir()} | {"results"}
    for code in pages.inline_code(page):
        for word in re.findall(r"[\w.\-*<>/]+", code):
            if word.partition("/")[0] in top and "/" in word:
                pattern = re.sub(r"<\w+>|\b(?:FILE|NAME)\b", "*", word).rstrip("/.")
                assert list(ROOT.glob(pattern)), word


@pytest.mark.parametrize("block", pages.blocks("text"), ids=str)
def test_paths_in_diagrams_exist(block):
    for path in re.findall(r"(?<=\s)\w+/(?:\w+\.py)?(?=[,\s])", block.text):
        assert (ROOT / "rllib_geoffpac" / path).exists(), path


@every_page_about_now
def test_names_of_our_modules_classes_and_functions_in_backticks_exist(page):
    for code in pages.inline_code(page):
        reference = code.partition("(")[0].replace(":", ".")
        if re.fullmatch(r"\w+(\.\w+)+", reference) and not reference.endswith(FILES):
            assert _exists(reference), code


def _exists(reference: str) -> bool:
    """Whether a dotted name is there, or is none of ours."""
    *scope, last = reference.split(".")
    modules = pages.modules()
    if scope[0] in pages.PACKAGES:
        path = modules.get(".".join(scope))
        return reference in modules or (path is not None and last in pages.defined(path))
    named = [path for dotted, path in modules.items() if dotted.split(".")[-1] == scope[-1]]
    owners = [pages.defined(path) for path in (named or modules.values())]
    members = [inside for names in owners for name, inside in names.items()
               if inside and (named or name == scope[-1])]  # fmt: skip
    known = any(last in names for names in owners) if named else not members
    return known or any(last in inside for inside in members)


@every_page_about_now
def test_identifiers_in_backticks_occur_in_the_code(page):
    for code in pages.inline_code(page):
        without_paths = re.sub(r"\S+\.py\b", "", code)
        for word in re.findall(r"\b[a-z]+(?:_[a-z0-9]+)+\b", without_paths):
            assert word in pages.words(), f"{word} in `{code}`"


@every_page_about_now
def test_commands_in_backticks_are_spelled_as_the_command_knows_them(page):
    for code in pages.inline_code(page):
        words = code.split()
        if words[0] in ("python", ".venv/bin/python") and len(words) > 1:
            module = words[1:3][-1] if words[1] == "-m" else words[1]
            known = module in ("pytest", "mypy") or module in pages.modules()
            assert known or (ROOT / module).is_file(), code
        elif words[0] == "rllib" and len(words) > 1:
            _check_spelling(code)


@pytest.mark.parametrize("block", pages.blocks("console"), ids=str)
def test_commands_that_are_only_shown_are_spelled_as_the_command_knows_them(block):
    for command in pages.commands(block):
        words = command.removeprefix("$ ").split()
        if words[0] == "rllib":
            _check_spelling(command.removeprefix("$ "))


def _check_spelling(text: str) -> None:
    """Verb and options of an rllib command exist; its values may be placeholders."""
    words = shlex.split(text.replace("...", " "), comments=True)[1:]
    command = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    placeholder = not words or words[0].isupper() or words[0].startswith("-")
    assert placeholder or not hasattr(command, "commands"), f"no such verb: {text}"
    known = {name for p in command.params for name in [*p.opts, *p.secondary_opts]} | {"--help"}
    options = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    assert set(options) <= known, text


def test_the_api_reference_names_modules_and_classes_that_exist():
    named = re.findall(r"^::: ([\w.]+)$", pages.text(ROOT / "docs" / "api.md"), re.MULTILINE)
    assert [name for name in named if not _exists(name)] == []


def test_the_changelog_has_the_version_that_the_package_states():
    stated = re.search(r"__version__ = \"(.+)\"", (ROOT / "rllib_geoffpac/__init__.py").read_text())
    versions = re.findall(r"^## \[(.+?)\]", pages.text(ROOT / "CHANGELOG.md"), re.MULTILINE)
    assert stated[1] in versions


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="extra docs")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    site = tmp_path / "site"
    assert (site / "results.html").is_file() and (site / "CONTRIBUTING.html").is_file()
    assert (site / "paper/data/figures/figure2.png").is_file()
    reference = (site / "api.html").read_text(encoding="utf-8")
    rooms = ("rllib_geoffpac.maths.", "rllib_geoffpac.lanes.")
    modules = [name for name in pages.modules() if name.startswith(rooms)]
    assert [name for name in modules if f'id="{name}"' not in reference] == []
    _check_site_links(site)


def _check_site_links(site: Path) -> None:
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # served from anywhere, so its links are absolute
            continue
        for link in re.findall(r"(?:href|src)=\"([^\"#?]+)", page.read_text(encoding="utf-8")):
            if not re.match(r"\w+:|//", link):
                assert (page.parent / link).exists(), f"{page.name}: {link}"
