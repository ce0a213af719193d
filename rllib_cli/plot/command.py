"""The options of `rllib plot`."""

from typing import Annotated

import typer

from rllib_cli.options import option


def plot(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Folders or URIs of experiments or trials."),
    ],
    metric: Annotated[
        str | None,
        option(
            "Result key to plot (default: J_pi if it was measured, else the episode return).",
            "--metric",
        ),
    ] = None,
    x: Annotated[
        str | None,
        option(
            "Result key that the horizontal axis counts, such as training_iteration (default: "
            "environment steps; for algorithms that sample none, those they were trained on).",
            "--x",
            metavar="METRIC",
        ),
    ] = None,
    by: Annotated[
        str | None,
        option(
            "Config keys that distinguish the curves, separated by commas (default: what differs "
            "between the trials, except the seed).",
            "--by",
        ),
    ] = None,
    out: Annotated[
        str | None,
        option(
            "Picture to write, .png, .pdf or .svg (default: plot.png in the folder; of a URI, in "
            "the working folder).",
            "--out",
        ),
    ] = None,
) -> None:
    """Draw learning curves, or a heat map over two grid keys, and print a table of results.

    Runs on several environments get a panel each.
    """
    from rllib_cli.plot import plots

    plots.plot_command(paths, metric, by, out, x)
