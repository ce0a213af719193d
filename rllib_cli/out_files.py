"""The file behind ``--out``: checked before the work begins, its folder made when it is written."""

import os
import tempfile
from pathlib import Path

from rllib_cli import interruption, storage
from rllib_cli.errors import UserError


def checked(out: str | Path, endings: tuple[str, ...] = (), what: str = "file") -> Path:
    """The file to write.

    Args:
        out: What the user said, or the default place.
        endings: Those that its name may have; empty for all.
        what: What the file is, for the message.

    Raises:
        UserError: If its name ends otherwise, or it can't be written.
    """
    target = Path(out).expanduser()
    if endings and target.suffix not in endings:
        allowed = " or ".join([", ".join(endings[:-1]), endings[-1]] if endings[1:] else endings)
        raise UserError(f"--out {str(out)!r}: the {what} must end in {allowed}.")
    if why := _obstacle(target):
        raise UserError(
            f"The {what} {str(out)!r} can't be written: {why}. Give another place with --out."
        )
    return target


def in_results(
    paths: list[str], out: str | None, default: str, endings: tuple[str, ...], what: str
) -> Path:
    """The file that is made of results: in their folder (of a URI, here) unless the user says so.

    Args:
        paths: Folders or URIs of results.
        out: What the user said.
        default: The file's name if that is nothing.
        endings: As for `checked`.
        what: As for `checked`.

    Raises:
        UserError: As `checked`.
    """
    if out is not None:
        return checked(out, endings, what)
    folder = Path() if storage.is_uri(paths[0]) else Path(paths[0]).expanduser()
    # Whoever reads the results says what is wrong with another thing than a folder.
    return checked(folder / default, endings, what) if folder.is_dir() else folder / default


def make_room(target: Path) -> None:
    """Makes the folder that the file goes into."""
    target.parent.mkdir(parents=True, exist_ok=True)


def obstacle_to_folder(folder: Path) -> str | None:
    """Why nothing can be written into a folder, which need not be there; nothing is left behind."""
    ancestor = folder.absolute()
    while not ancestor.exists() and ancestor != ancestor.parent:
        ancestor = ancestor.parent
    if not ancestor.is_dir():
        return f"{str(ancestor)!r} is a file"
    try:
        with (
            interruption.postponed(),
            tempfile.TemporaryDirectory(dir=ancestor, prefix=".rllib-"),
        ):
            pass
    except OSError as error:
        return f"{str(ancestor)!r} is not writable ({error.strerror})"
    return None


def _obstacle(target: Path) -> str | None:
    if target.is_dir():
        return "it is a folder"
    if target.exists():
        return None if os.access(target, os.W_OK) else "it is not writable"
    return obstacle_to_folder(target.parent)
