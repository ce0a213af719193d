"""The options of `rllib status`."""

from typing import Annotated

import typer


def status(
    path: Annotated[
        str,
        typer.Argument(metavar="PATH", help="Folder or URI with results (default: ~/ray_results)."),
    ] = "~/ray_results",
) -> None:
    """List the runs below a storage path, with their state and last result."""
    from rllib_cli.status import runs

    runs.status_command(path)
