"""Writes the page: template, style, script, charting library and data in one file."""

import base64
import html
import importlib.util
import json
import zlib
from importlib import resources
from pathlib import Path
from typing import Any

from rllib_cli import out_files, storage
from rllib_cli.errors import UserError
from rllib_cli.report.contents import contents, title_of
from rllib_cli.results import reading

DEFAULT_NAME = "report.html"
_ENDINGS = (".html", ".htm")
# Larger videos would make a page that nobody can send.
_VIDEO_BYTES = 3_000_000
_VIDEOS = 6
_MEDIA = {".mp4": "video/mp4", ".gif": "image/gif"}


def report_command(paths: list[str], out: str | None) -> None:
    """Writes the report and says where it is."""
    target = target_of(paths, out)
    check_installed()
    page = render(paths)
    out_files.make_room(target)
    target.write_text(page, encoding="utf-8")
    print(f"Wrote {target} ({len(page) / 1e6:.1f} MB). Open it in a browser.")


def target_of(paths: list[str], out: str | None) -> Path:
    """Where the page goes.

    Raises:
        UserError: If its name is no page's, or it can't be written.
    """
    return out_files.in_results(paths, out, DEFAULT_NAME, _ENDINGS, "page")


def check_installed() -> None:
    """Refuses to write a report without the charting library, which is optional.

    Raises:
        UserError: If it is missing.
    """
    if importlib.util.find_spec("plotly") is None:
        raise UserError(
            "A report needs plotly, which is not installed: pip install 'rllib_geoffpac[report]'."
        )


def render(paths: list[str]) -> str:
    """The page of the results below some folders or URIs, as text.

    Raises:
        UserError: If a folder is missing or holds no results.
    """
    from plotly.offline import get_plotlyjs

    title = title_of(
        [path if storage.is_uri(path) else str(Path(path).resolve()) for path in paths]
    )
    data = contents(reading.load(paths), title) | {"videos": _videos(paths)}
    parts = {
        "TITLE": html.escape(title),
        "STYLE": _part("page.css"),
        "DATA": _packed(data),
        "PLOTLY": get_plotlyjs(),
        "SCRIPT": _part("page.js"),
    }
    page = _part("page.html")
    for name, text in parts.items():
        page = page.replace(f"%{name}%", text)
    return page


def _part(name: str) -> str:
    return (resources.files("rllib_cli.report") / name).read_text(encoding="utf-8")


def _packed(data: dict[str, Any]) -> str:
    """Deflated, because the curves of 200 trials are megabytes of digits."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _videos(paths: list[str]) -> list[dict[str, str]]:
    """The newest small videos that lie below the folders, as data URIs."""
    found = [
        file
        for path in paths
        if not storage.is_uri(path)
        for file in Path(path).expanduser().rglob("*")
        if file.suffix in _MEDIA and file.stat().st_size <= _VIDEO_BYTES
    ]
    newest = sorted(found, key=lambda file: file.stat().st_mtime, reverse=True)[:_VIDEOS]
    return [
        {
            "name": file.name,
            "source": f"data:{_MEDIA[file.suffix]};base64,"
            + base64.b64encode(file.read_bytes()).decode(),
        }
        for file in newest
    ]
