"""The options that several verbs of the command share."""

import functools
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

# What the help text calls an option's value, by the last word of its name.
_VALUES = {"run": "NAME", "config": "MAPPING"}
_VALUES |= {"dir": "FOLDER", "out": "FILE", "by": "KEYS", "hat": "NUMBER", "interval": "SECONDS"}
_VALUES |= dict.fromkeys(
    ("seed", "samples", "steps", "freq", "num", "failures", "cpus", "gpus", "episodes"), "N"
)


def option(text: str, *flags: str, **more: Any) -> Any:
    """An option whose help text says the default itself."""
    word = flags[-1].rpartition("-")[2]
    more.setdefault("metavar", _VALUES.get(word, word.upper()))
    return typer.Option(*flags, help=text, show_default=False, **more)


Set = Annotated[
    list[str] | None,
    option(
        "Override one config key; the value is YAML, dots go into nested mappings. Repeatable: "
        "--set lr=1e-3 --set env_config.size=5",
        "--set",
        metavar="KEY=VALUE",
    ),
]
Env = Annotated[
    str | None,
    option("Environment: a gymnasium id, or package.module:name.", "--env", metavar="ENV"),
]
Data = Annotated[
    str | None,
    option(
        "Learn from this data set instead of a simulation ('input_'): a folder or URI of parquet "
        "files, or minari:DATASET-ID.",
        "--data",
        metavar="DATA",
    ),
]
Stop = Annotated[
    str | None,
    option(
        "When a trial ends: a JSON or YAML mapping from result keys to values, for instance "
        "'{\"num_env_steps_sampled_lifetime\": 100000}'.",
        "--stop",
        metavar="MAPPING",
    ),
]
Seed = Annotated[int | None, option("Seed of the first sample.", "--seed", min=0)]
NumSamples = Annotated[
    int | None,
    option(
        "Runs per grid point. Equal seeds give equal runs, so sample k gets seed + k "
        "(unless seed itself is a search space).",
        "--num-samples",
        min=1,
    ),
]
StoragePath = Annotated[
    str | None,
    option("Folder or URI for the results (default: ~/ray_results).", "--storage-path"),
]
ExperimentName = Annotated[
    str | None, option("Name of the results folder below the storage path.", "--experiment-name")
]
Resume = Annotated[
    bool,
    option(
        "Continue an interrupted run; give the same options. Finished trials are not run again.",
        "--resume",
    ),
]
CheckpointFreq = Annotated[
    int | None,
    option("Save a checkpoint every N iterations (0: only at the end).", "--checkpoint-freq"),
]
CheckpointAtEnd = Annotated[
    bool | None,
    option(
        "Save a checkpoint when a trial ends (default: yes).",
        "--checkpoint-at-end/--no-checkpoint-at-end",
    ),
]
KeepCheckpoints = Annotated[
    int | None, option("Keep only the newest N checkpoints of a trial.", "--keep-checkpoints-num")
]
MaxFailures = Annotated[
    int | None,
    option(
        "How often a failed trial is restored from its last checkpoint (default: 0; -1: always).",
        "--max-failures",
        min=-1,
    ),
]
RayAddress = Annotated[
    str | None,
    option("Run on this Ray cluster ('auto': the one of this machine).", "--ray-address"),
]
RayCpus = Annotated[
    int | None,
    option(
        "CPUs of the local Ray (default: those of this machine; with more, processes share them).",
        "--ray-num-cpus",
    ),
]
RayGpus = Annotated[int | None, option("GPUs of the local Ray (default: all).", "--ray-num-gpus")]
Wandb = Annotated[
    str | None, option("Also log to this Weights & Biases project.", "--wandb-project")
]
Report = Annotated[
    bool,
    option(
        "Keep a page of curves and tables up to date while training: report.html in the results "
        "folder (see 'rllib report').",
        "--report",
    ),
]
Show = Annotated[
    bool,
    option(
        "After training, print J_pi beside a random agent's, and write a picture of the curves and "
        "a video of the policy.",
        "--show",
    ),
]
DryRun = Annotated[
    bool,
    option("Print the resolved trials, resources and folder, and start nothing.", "--dry-run"),
]
Verbose = Annotated[bool, option("Also say where Ray's log is.", "-v", "--verbose")]
Quiet = Annotated[bool, option("Print only the final result.", "-q", "--quiet")]


# The options of every verb that trains, in the order of the help text: name -> type, default.
TRAIN_OPTIONS: dict[str, tuple[Any, Any]] = {
    "env": (Env, None),
    "data": (Data, None),
    "set_": (Set, None),
    "stop": (Stop, None),
    "seed": (Seed, None),
    "num_samples": (NumSamples, None),
    "storage_path": (StoragePath, None),
    "experiment_name": (ExperimentName, None),
    "resume": (Resume, False),
    "checkpoint_freq": (CheckpointFreq, None),
    "checkpoint_at_end": (CheckpointAtEnd, None),
    "keep_checkpoints_num": (KeepCheckpoints, None),
    "max_failures": (MaxFailures, None),
    "ray_address": (RayAddress, None),
    "ray_num_cpus": (RayCpus, None),
    "ray_num_gpus": (RayGpus, None),
    "wandb_project": (Wandb, None),
    "report": (Report, False),
    "show": (Show, False),
    "dry_run": (DryRun, False),
    "verbose": (Verbose, False),
    "quiet": (Quiet, False),
}


_GROUPS = {
    "What to train": ("algo", "config", "env", "set_", "stop", "seed", "num_samples"),
    "Results": (
        "storage_path",
        "experiment_name",
        "resume",
        "checkpoint_freq",
        "checkpoint_at_end",
        "keep_checkpoints_num",
        "wandb_project",
        "report",
        "show",
    ),
    "Resources and faults": ("ray_address", "ray_num_cpus", "ray_num_gpus", "max_failures"),
}


_TYPE = re.compile(r" <[^>]+>")
_CONSTRAINT = re.compile(r"  \[(required|x[<>]=?[^]]*)\]$")


class _Plain:
    """Help without the names of Python's types, and with the options of training in groups."""

    def collect_usage_pieces(self, context: Any) -> list[str]:
        pieces = super().collect_usage_pieces(context)  # type: ignore[misc]
        return [piece.translate({ord("{"): None, ord("}"): None}) for piece in pieces]

    def format_options(self, context: Any, formatter: Any) -> None:
        parameters = self.get_params(context)  # type: ignore[attr-defined]
        group_of: dict[str, str] = {}
        if {parameter.name for parameter in parameters} >= set(TRAIN_OPTIONS):
            group_of = {name: group for group, names in _GROUPS.items() for name in names}
        rest = "Other options" if group_of else "Options"
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{g: [] for g in _GROUPS}}
        for parameter in parameters:
            record = parameter.get_help_record(context)
            if record is None:
                continue
            kind = "Arguments" if parameter.param_type_name == "argument" else rest
            row = (_TYPE.sub("", record[0]), _CONSTRAINT.sub("", record[1]))
            groups.setdefault(group_of.get(parameter.name, kind), []).append(row)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Verb(_Plain, TyperCommand):
    """A verb of the command."""


class VerbGroup(_Plain, TyperGroup):
    """A verb that has verbs below it."""

    def format_options(self, context: Any, formatter: Any) -> None:
        super().format_options(context, formatter)
        self.format_commands(context, formatter)


def takes_train_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command all of ``TRAIN_OPTIONS``; it receives them as the dictionary ``given``."""
    parameters = inspect.signature(command).parameters.values()
    own = [parameter for parameter in parameters if parameter.name != "given"]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in TRAIN_OPTIONS.items()
    ]

    @functools.wraps(command)
    def with_options(*arguments: Any, **keywords: Any) -> None:
        given = {name: keywords.pop(name) for name in TRAIN_OPTIONS}
        command(*arguments, given=given, **keywords)

    del with_options.__wrapped__  # typer must see this signature
    signature = inspect.Signature([*own, *shared])
    vars(with_options)["__signature__"] = signature
    with_options.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    return with_options
