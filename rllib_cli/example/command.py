"""The options of `rllib example`."""

import itertools
from typing import Annotated, Any

import typer

from rllib_cli.example import catalog
from rllib_cli.experiment import parse as experiments
from rllib_cli.options import Verb, VerbGroup, takes_train_options
from rllib_cli.run.command import train_all

example_app = typer.Typer(
    cls=VerbGroup,
    help="The tuned examples that come with this package.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@example_app.command("list", cls=Verb)
def example_list(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORD", help="Only those whose line has all these words."),
    ] = None,
) -> None:
    """List the tuned examples, one line each: rllib example list hopper robust."""
    found = catalog.find_examples(words or [])
    for group, examples in itertools.groupby(found, key=lambda example: example.group):
        if group:
            typer.echo(f"\n{group}")
        for example in examples:
            typer.echo(f"  {example.id:<42} {example.summary}")


@example_app.command("get", cls=Verb, no_args_is_help=True)
def example_get(
    example_id: Annotated[str, typer.Argument(metavar="ID", help="As 'example list' shows it.")],
) -> None:
    """Print the YAML of a tuned example."""
    typer.echo(catalog.get_example(example_id).text, nl=False)


@example_app.command("run", cls=Verb, no_args_is_help=True)
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
