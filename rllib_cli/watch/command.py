"""The options of `rllib watch`."""

from typing import Annotated

import typer

from rllib_cli.options import option


def watch(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder or URI of an experiment.")],
    interval: Annotated[
        float, option("Seconds between two looks (default: 5).", "--interval", min=0.5)
    ] = 5.0,
    once: Annotated[bool, option("Show the table once and end.", "--once")] = False,
) -> None:
    """Show the live table of a run that goes on elsewhere, until all its trials have ended.

    It reads the results folder: the run may be in another terminal or on a cluster.
    """
    from rllib_cli.watch import live

    live.watch_command(path, interval, once)
