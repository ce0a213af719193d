"""The verbs of the ``rllib`` command. Nothing of Ray, torch or gymnasium is imported for them.

Every verb's options stand in the ``command`` module of its room.
"""

import platform
from importlib import metadata
from typing import Annotated

import typer

from rllib_cli import plugins
from rllib_cli.compare.command import compare
from rllib_cli.evaluate.command import evaluate
from rllib_cli.example.command import example_app
from rllib_cli.export.command import export
from rllib_cli.options import Verb, VerbGroup, option
from rllib_cli.plot.command import plot
from rllib_cli.record.command import record
from rllib_cli.report.command import report
from rllib_cli.run.command import train_app
from rllib_cli.status.command import status
from rllib_cli.watch.command import watch

app = typer.Typer(
    name="rllib",
    cls=VerbGroup,
    help="Train, evaluate and plot RLlib algorithms: "
    f"{', '.join(plugins.algorithms())} and all that RLlib has.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_versions(asked: bool) -> None:
    if asked:
        parts = [f"{name} {metadata.version(name)}" for name in ("rllib_geoffpac", "ray")]
        typer.echo(", ".join([*parts, f"Python {platform.python_version()}"]))
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        option(
            "Print the versions of this package, of Ray and of Python.",
            "--version",
            callback=_print_versions,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Answers what is asked of the command itself."""


app.add_typer(train_app, name="train")
app.command(cls=Verb, no_args_is_help=True)(record)
app.command(cls=Verb, no_args_is_help=True)(evaluate)
app.command(cls=Verb, no_args_is_help=True)(export)
app.command(cls=Verb, no_args_is_help=True)(plot)
app.command(cls=Verb, no_args_is_help=True)(report)
app.command(cls=Verb, no_args_is_help=True)(watch)
app.command(cls=Verb)(status)
app.command(cls=Verb, no_args_is_help=True)(compare)
app.add_typer(example_app, name="example")
