"""The options of `rllib report`."""

from typing import Annotated

import typer

from rllib_cli.options import option


def report(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Folders or URIs of experiments or trials."),
    ],
    out: Annotated[
        str | None,
        option(
            "Page to write (default: report.html in the folder; of a URI, in the working folder).",
            "--out",
        ),
    ] = None,
) -> None:
    """Write one page with curves, heat maps, tables and commands, to open in any browser.

    It needs no server and no network. Videos that lie beside the results are part of it.
    """
    from rllib_cli.report import page

    page.report_command(paths, out)
