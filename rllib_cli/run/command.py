"""The options of `rllib train`."""

from typing import Annotated, Any

import typer

from rllib_cli.errors import UserError
from rllib_cli.experiment import parse as experiments
from rllib_cli.options import Verb, VerbGroup, option, takes_train_options

train_app = typer.Typer(
    cls=VerbGroup,
    help="Train an algorithm: from options (--algo, --env ...) or from an experiment file.",
    rich_markup_mode=None,
)


@train_app.callback(invoke_without_command=True, no_args_is_help=True)
@takes_train_options
def train_options(
    context: typer.Context,
    algo: Annotated[str | None, option("Name of the algorithm.", "--algo", "--run")] = None,
    config: Annotated[
        str | None,
        option("Settings of the algorithm: a JSON or YAML mapping.", "--config", metavar="MAPPING"),
    ] = None,
    *,
    given: dict[str, Any],
) -> None:
    """Train an algorithm: rllib train --algo GeoffPAC --env HalfCheetah-v5 --stop '{...}'."""
    if context.invoked_subcommand is not None:
        if any(value not in (None, False, []) for value in (algo, config, *given.values())):
            raise UserError(
                "With an experiment file the options come after it: "
                "rllib train file EXPERIMENT.yaml --set key=value ..."
            )
        return
    if algo is None:
        raise UserError(
            "Give an algorithm with --algo (and --env), or an experiment file: "
            "rllib train file EXPERIMENT.yaml."
        )
    env = given["env"]
    name = "-".join(part for part in (algo, env) if part).replace("/", "_").replace(":", "_")
    train_all([experiments.from_command_line(algo, env, config, name)], given)


@train_app.command("file", cls=Verb, no_args_is_help=True)
@takes_train_options
def train_file(
    path: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A .yaml file, or a .py file with 'config' and 'stop'."
        ),
    ],
    *,
    given: dict[str, Any],
) -> None:
    """Train what an experiment file describes: rllib train file EXPERIMENT.yaml."""
    train_all(experiments.load(path), given)


def train_all(loaded: list[experiments.Experiment], given: dict[str, Any]) -> None:
    """Common end of all verbs that train; ``given`` holds the shared options by name."""
    from rllib_cli.run import train

    overrides = experiments.Overrides(
        set=tuple(given["set_"] or ()),
        **{
            key: given[key]
            for key in experiments.Overrides.__dataclass_fields__
            if key in given and key != "set"
        },
    )
    options = train.RunOptions(
        resume=given["resume"],
        dry_run=given["dry_run"],
        ray_address=given["ray_address"],
        num_cpus=given["ray_num_cpus"],
        num_gpus=given["ray_num_gpus"],
        wandb_project=given["wandb_project"],
        report=given["report"],
        show=given["show"],
        verbosity=int(given["verbose"]) - int(given["quiet"]),
        name_is_given=given["experiment_name"] is not None,
        command=train.command_line(),
    )
    raise typer.Exit(train.train(experiments.override(loaded, overrides), options))
