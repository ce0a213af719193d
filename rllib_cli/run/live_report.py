"""Keeps the report of a run that goes on up to date, for `rllib train --report`."""

import time
from pathlib import Path

from rllib_cli.errors import UserError
from rllib_cli.report import page

# Reading and writing the page may take no more than about a twentieth of the run's time.
_SECONDS = 20.0
_SHARE = 20


class LiveReport:
    """Writes the report of one experiment now and then.

    Args:
        folder: The experiment's folder or URI.

    Raises:
        UserError: If the charting library is missing.
    """

    def __init__(self, folder: str):
        page.check_installed()
        self.folder = folder
        self.path: Path = page.target_of([folder], None)
        self._due = time.monotonic() + _SECONDS

    def refresh(self) -> None:
        """Writes it if it is time again."""
        if time.monotonic() >= self._due:
            self.write()

    def write(self) -> None:
        """Writes it now; a run that has reported nothing yet has none."""
        started = time.monotonic()
        try:
            text = page.render([self.folder])
        except UserError:
            return
        finally:
            ended = time.monotonic()
            self._due = ended + max(_SECONDS, _SHARE * (ended - started))
        # Whoever reloads the page meanwhile sees a whole one.
        temporary = self.path.with_suffix(".html.part")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.path)
