"""The ``rllib`` command: parsing only. Nothing of Ray, torch or gymnasium is imported for it."""

import sys
from enum import Enum
from typing import Annotated, Any

import typer

from rllib_cli import plugins
from rllib_cli.errors import UserError
from rllib_cli.experiment import parse as experiments
from rllib_cli.options import Env, option, takes_train_options

app = typer.Typer(
    name="rllib",
    help="Train, evaluate and plot RLlib algorithms: "
    f"{', '.join(plugins.algorithms())} and all that RLlib has.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
train_app = typer.Typer(
    help="Train an algorithm: from options (--algo, --env ...) or from an experiment file.",
    rich_markup_mode=None,
)
example_app = typer.Typer(
    help="The tuned examples that come with this package.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(train_app, name="train")
app.add_typer(example_app, name="example")


@train_app.callback(invoke_without_command=True, no_args_is_help=True)
@takes_train_options
def train_options(
    context: typer.Context,
    algo: Annotated[str | None, option("Name of the algorithm.", "--algo", "--run")] = None,
    config: Annotated[
        str | None,
        option("Settings of the algorithm: a JSON or YAML mapping.", "--config"),
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
    _train([experiments.from_command_line(algo, env, config, name)], given)


@train_app.command("file", no_args_is_help=True)
@takes_train_options
def train_file(
    path: Annotated[
        str, typer.Argument(help="A .yaml file, or a .py file with 'config' and 'stop'.")
    ],
    *,
    given: dict[str, Any],
) -> None:
    """Train what an experiment file describes: rllib train file EXPERIMENT.yaml."""
    _train(experiments.load(path), given)


def _train(loaded: list[experiments.Experiment], given: dict[str, Any]) -> None:
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
        verbosity=int(given["verbose"]) - int(given["quiet"]),
        name_is_given=given["experiment_name"] is not None,
        command=train.command_line(),
    )
    raise typer.Exit(train.train(experiments.override(loaded, overrides), options))


class VideoFormat(str, Enum):
    """File formats of recorded episodes."""

    mp4 = "mp4"
    gif = "gif"


@app.command(no_args_is_help=True)
def evaluate(
    checkpoint: Annotated[str, typer.Argument(help="A checkpoint of a trial: folder or URI.")],
    episodes: Annotated[int, option("Number of episodes (default: 10).", "--episodes")] = 10,
    env: Env = None,
    deterministic: Annotated[
        bool,
        option(
            "Take the policy's mean or most likely action (default: sample).", "--deterministic"
        ),
    ] = False,
    seed: Annotated[int, option("Seed of episodes and actions (default: 0).", "--seed")] = 0,
    video_dir: Annotated[
        str | None, option("Record every episode into this folder.", "--video-dir")
    ] = None,
    video_format: Annotated[
        VideoFormat, option("Format of the videos: mp4 or gif.", "--video-format")
    ] = VideoFormat.mp4,
    out: Annotated[str | None, option("Write the result as JSON.", "--out")] = None,
    weights_only: Annotated[
        bool,
        option(
            "Do not unpickle the checkpoint: read only arrays from it, settings from params.json. "
            "Use it for checkpoints of strangers.",
            "--weights-only",
        ),
    ] = False,
) -> None:
    """Roll a checkpoint's target policy out, and print J_pi and return with standard errors."""
    from rllib_cli.evaluate import measure as evaluation

    evaluation.evaluate_command(
        checkpoint,
        evaluation.EvaluateOptions(
            episodes=episodes,
            env=env,
            deterministic=deterministic,
            seed=seed,
            video_dir=video_dir,
            video_format=video_format.value,
            weights_only=weights_only,
        ),
        out,
    )


@app.command(no_args_is_help=True)
def plot(
    paths: Annotated[list[str], typer.Argument(help="Folders or URIs of experiments or trials.")],
    metric: Annotated[
        str | None,
        option(
            "Result key to plot (default: J_pi if it was measured, else the episode return).",
            "--metric",
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

    plots.plot_command(paths, metric, by, out)


@example_app.command("list")
def example_list() -> None:
    """List the tuned examples."""
    from rllib_cli import examples

    for example in examples.list_examples():
        typer.echo(f"{example.id:<44} {example.summary}")


@example_app.command("get", no_args_is_help=True)
def example_get(
    example_id: Annotated[str, typer.Argument(metavar="ID", help="As 'example list' shows it.")],
) -> None:
    """Print the YAML of a tuned example."""
    from rllib_cli import examples

    typer.echo(examples.get_example(example_id).text, nl=False)


@example_app.command("run", no_args_is_help=True)
@takes_train_options
def example_run(
    example_id: Annotated[str, typer.Argument(metavar="ID", help="As 'example list' shows it.")],
    *,
    given: dict[str, Any],
) -> None:
    """Train a tuned example; takes the options of 'rllib train file'."""
    from rllib_cli import examples

    example = examples.get_example(example_id)
    _train(experiments.parse(example.text, source=example.id), given)


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
