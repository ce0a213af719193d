"""Hooks of mkdocs: pages may link to any file of the repository, as they do on GitHub.

A page links by a path relative to itself, `../paper/data/figures/figure2.png` for instance. The
site's root is docs/, so a file outside of it is copied into the site under its path from the
repository's root, and the link is rewritten to it.

The API reference names the modules that belong together; `<!-- the rest of package.room -->` stands
for those of a room that are named nowhere, so that a new module appears by itself.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "paper/README.md")
"""Pages of the site that stand outside docs/, where GitHub's readers look for them."""

_REST = re.compile(r"<!-- the rest of ([\w.]+) -->")
_LINK = re.compile(r"(\]\(|<img src=\"|<a href=\")([^)\"\s#]+)")


def repository_path(source: str) -> str:
    """The path from the repository's root of a page or file with the site's path `source`."""
    return source if source in PAGES else f"docs/{source}"


def site_path(path: str) -> str:
    """The site's path of a file with the path `path` from the repository's root."""
    return path.removeprefix("docs/")


def relative_links(markdown: str, path: str) -> list[str]:
    """Paths from the repository's root of what a page at `path` links to, without web links."""
    targets = [link for _, link in _LINK.findall(markdown) if not re.match(r"[a-z]+:", link)]
    return [posixpath.normpath(posixpath.join(posixpath.dirname(path), t)) for t in targets]


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages at the root, and every file that a page links to."""
    for name in PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for page in list(files.documentation_pages()):
        for path in relative_links(page.content_string, repository_path(page.src_uri)):
            source = site_path(path)
            outside = not path.startswith("docs/") and (ROOT / path).is_file()
            if outside and files.get_file_from_path(source) is None:
                files.append(File.generated(config, source, abs_src_path=str(ROOT / path)))
    return files


def rest_of_room(room: str, markdown: str) -> str:
    """Directives for the modules of a package that a page does not name."""
    folder = ROOT / room.replace(".", "/")
    modules = [f"{room}.{path.stem}" for path in sorted(folder.glob("[!_]*.py"))]
    named = re.findall(r"^::: ([\w.]+)$", markdown, re.MULTILINE)
    return "\n\n".join(f"::: {module}" for module in modules if module not in named)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrites links as from docs/ to links as from the site's root, and completes rooms."""
    here = repository_path(page.file.src_uri)

    def rewrite(match: re.Match[str]) -> str:
        opening, link = match.groups()
        if re.match(r"[a-z]+:", link):
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), link))
        from_here = posixpath.dirname(page.file.src_uri)
        return opening + posixpath.relpath(site_path(target), from_here or ".")

    markdown = _LINK.sub(rewrite, markdown)
    return _REST.sub(lambda match: rest_of_room(match[1], markdown), markdown)
