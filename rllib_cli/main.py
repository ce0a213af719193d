"""The ``rllib`` command: parsing only. Nothing of Ray, torch or gymnasium is imported for it.

Every verb's options stand in the ``command`` module of its room.
"""

import sys

import typer

from rllib_cli import plugins
from rllib_cli.compare.command import compare
from rllib_cli.errors import UserError
from rllib_cli.evaluate.command import evaluate
from rllib_cli.example.command import example_app
from rllib_cli.export.command import export
from rllib_cli.plot.command import plot
from rllib_cli.record.command import record
from rllib_cli.report.command import report
from rllib_cli.run.command import train_app
from rllib_cli.status.command import status
from rllib_cli.watch.command import watch

app = typer.Typer(
    name="rllib",
    help="Train, evaluate and plot RLlib algorithms: "
    f"{', '.join(plugins.algorithms())} and all that RLlib has.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(train_app, name="train")
app.command(no_args_is_help=True)(record)
app.command(no_args_is_help=True)(evaluate)
app.command(no_args_is_help=True)(export)
app.command(no_args_is_help=True)(plot)
app.command(no_args_is_help=True)(report)
app.command(no_args_is_help=True)(watch)
app.command()(status)
app.command(no_args_is_help=True)(compare)
app.add_typer(example_app, name="example")


def main() -> None:
    """Entry point of the console script."""
    try:
        app()
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nStopped before training began; nothing to resume.", file=sys.stderr)
        sys.exit(130)
