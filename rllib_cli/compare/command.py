"""The options of `rllib compare`."""

from typing import Annotated

import typer

from rllib_cli.options import option


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="Folder or URI of a run.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Folder or URI of another one.")],
    metric: Annotated[
        str | None,
        option("Result key to compare (default: what both reported first).", "--metric"),
    ] = None,
) -> None:
    """Say what differs between two runs, in settings and in results.

    Runs with equal seeds learn from equal data, so their results are compared pair by pair.
    """
    from rllib_cli.compare import runs

    runs.compare_command(first, second, metric)
