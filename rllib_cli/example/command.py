"""The options of `rllib example`."""

from typing import Annotated, Any

import typer

from rllib_cli.example import catalog
from rllib_cli.experiment import parse as experiments
from rllib_cli.options import takes_train_options
from rllib_cli.run.command import train_all

example_app = typer.Typer(
    help="The tuned examples that come with this package.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@example_app.command("list")
def example_list() -> None:
    """List the tuned examples."""
    for example in catalog.list_examples():
        typer.echo(f"{example.id:<44} {example.summary}")


@example_app.command("get", no_args_is_help=True)
def example_get(
    example_id: Annotated[str, typer.Argument(metavar="ID", help="As 'example list' shows it.")],
) -> None:
    """Print the YAML of a tuned example."""
    typer.echo(catalog.get_example(example_id).text, nl=False)


@example_app.command("run", no_args_is_help=True)
@takes_train_options
def example_run(
    example_id: Annotated[str, typer.Argument(metavar="ID", help="As 'example list' shows it.")],
    *,
    given: dict[str, Any],
) -> None:
    """Train a tuned example; takes the options of 'rllib train file'."""
    example = catalog.get_example(example_id)
    given["show"] = given["show"] or example.id == catalog.QUICK_START
    train_all(experiments.parse(example.text, source=example.id), given)
