"""Runs experiments with Ray Tune (Ray is imported inside the functions that need it)."""

import dataclasses
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rllib_cli import folders, plugins, storage
from rllib_cli.errors import UserError, exception_summary
from rllib_cli.experiment import checks, result_keys, search_space
from rllib_cli.experiment.parse import Experiment, env_names
from rllib_cli.report import page
from rllib_cli.screen import Screen
from rllib_geoffpac.metrics import headlines

if TYPE_CHECKING:
    from rllib_cli.experiment.rllib_checks import Trial
    from rllib_cli.run.session import Session
    from rllib_cli.run.summary import Outcome

OK, FAILED = 0, 1


@dataclass(frozen=True)
class RunOptions:
    """How to run, as opposed to what.

    Attributes:
        resume: Continue the experiments' folders; finished trials are not run again.
        dry_run: Print the resolved trials and start nothing.
        ray_address: Address of a running cluster, or ``auto``; None starts a local Ray.
        num_cpus: CPUs of the local Ray; None for all.
        num_gpus: GPUs of the local Ray; None for all.
        wandb_project: Weights & Biases project to log to.
        report: Keep a page of the results up to date.
        show: Compare with a random agent at the end, draw and record.
        verbosity: -1 only the result, 0 normal, 1 also where the log is.
        name_is_given: The user chose the folder's name, so an existing one is an error.
        command: The command line without ``--resume``, to print how to continue.
    """

    resume: bool = False
    dry_run: bool = False
    ray_address: str | None = None
    num_cpus: int | None = None
    num_gpus: int | None = None
    wandb_project: str | None = None
    report: bool = False
    show: bool = False
    verbosity: int = 0
    name_is_given: bool = False
    command: Sequence[str] = ("rllib", "train")


def train(experiments: list[Experiment], options: RunOptions | None = None) -> int:
    """Checks and runs experiments, one after the other.

    Returns:
        The exit status: 0, 1 if a trial failed, 130 after Ctrl-C, 143 after SIGTERM.

    Raises:
        UserError: For a mistake in the input, before any Ray process starts.
    """
    options = options or RunOptions()
    checks.check_resources(options.num_cpus, options.num_gpus, options.ray_address)
    checks.check_wandb(options.wandb_project)
    if options.report:
        page.check_installed()
    checks.check_experiments(experiments)
    checks.check_address(options.ray_address)
    experiments, renamed = folders.choose_folders(
        experiments, options.resume, options.name_is_given
    )
    if options.show:
        from rllib_cli.run import show

        show.check(experiments)
    if renamed:
        options = dataclasses.replace(
            options, command=[*options.command, "--experiment-name", renamed]
        )
    with Screen(options.verbosity) as screen:
        try:
            return _train(experiments, options, screen)
        except (UserError, KeyboardInterrupt):
            raise
        except Exception as error:
            log = screen.keep_log(error)
            screen.console.print(
                f"rllib train failed: {type(error).__name__}: {exception_summary(error)}\n"
                f"The details are in {log}.",
                markup=False,
            )
            return FAILED


@dataclass(frozen=True)
class Plan:
    """A checked experiment with its trials, and its description as the user gave it."""

    experiment: Experiment
    trials: "list[Trial]"
    spec: dict[str, Any]
    note: str = ""


def _train(experiments: list[Experiment], options: RunOptions, screen: Screen) -> int:
    if (note := checks.oversubscription(options.num_cpus)) and options.verbosity >= 0:
        screen.console.print(f"Warning: {note}", markup=False)
    plans = [make_plan(experiment, options) for experiment in experiments]
    if options.dry_run:
        _print_plans(plans, screen)
        return OK
    for plan in plans:
        checks.check_data(plan.experiment.config)
    import ray

    from rllib_cli.experiment import rllib_checks
    from rllib_cli.run import cluster

    envs = [env for plan in plans for env in env_names(plan.experiment)]
    resources = cluster.local_resources(options.num_cpus, options.num_gpus)
    references = [r for plan in plans for r in rllib_checks.references(plan.experiment)]
    for plan in plans:
        # Whether one may write behind a URI shows only now: an attempt that is taken back would
        # leave the empty objects that stand for folders.
        if storage.is_uri(plan.experiment.folder):
            folders.write_spec(plan.experiment.folder, plan.spec)
    status = OK
    finished: list[tuple[Experiment, Outcome]] = []
    with cluster.ray_session(options.ray_address, resources, envs, references):
        if options.ray_address is not None:
            for plan in plans:
                rllib_checks.check_trial_resources(
                    plan.trials, ray.cluster_resources(), of_cluster=True
                )
        for plan in plans:
            ended, outcome = _run(plan, options, screen)
            finished.append((plan.experiment, outcome))
            status = max(status, ended)
            if ended > FAILED:
                break
    if options.show and status == OK:
        from rllib_cli.run import show

        show.show(finished, screen.console)
    return status


def make_plan(experiment: Experiment, options: RunOptions) -> Plan:
    """Checks one experiment with RLlib's help and resolves its trials."""
    # RLlib takes seconds to import: everything cheap was checked before.
    from rllib_cli.experiment import rllib_checks
    from rllib_cli.run import cluster

    spec = folders.spec_of(experiment) | {"command": shlex.join(options.command)}
    note = ""
    trials = rllib_checks.check_experiment(experiment)
    if options.ray_address is None:
        resources = cluster.local_resources(options.num_cpus, options.num_gpus)
        fitted, note = rllib_checks.fit_env_runners(experiment, trials, resources["CPU"])
        if fitted is not experiment:
            experiment, trials = fitted, rllib_checks.check_experiment(fitted)
        rllib_checks.check_trial_resources(trials, resources)
    return Plan(experiment, trials, spec, note)


def _run(plan: Plan, options: RunOptions, screen: Screen) -> "tuple[int, Outcome]":
    """Runs one experiment; returns the exit status and how its trials ended."""
    from rllib_cli.run import summary
    from rllib_cli.run.live_report import LiveReport
    from rllib_cli.run.progress import Progress
    from rllib_cli.run.session import Session
    from rllib_cli.run.tuner import make_tuner

    folder = plan.experiment.folder
    screen.log_to(_log_path(plan.experiment))
    if not storage.is_uri(folder):
        folders.write_spec(folder, plan.spec)
    live = screen.stream.isatty() and options.verbosity >= 0
    progress = Progress(
        screen.console,
        plan.experiment.stop,
        total=len(plan.trials),
        metrics=headlines(result_keys.metrics_of(plan.experiment)),
        live=live,
        quiet=options.verbosity < 0,
        diagnose=partial(plugins.diagnose, plan.experiment.run),
    )
    report = LiveReport(folder) if options.report else None
    with Session(progress, report) as session:
        if options.verbosity >= 0:
            screen.console.print(_headline(plan), markup=False)
        if options.verbosity > 0:
            screen.console.print(f"Log of Ray and RLlib: {screen.log_path}", markup=False)
        if options.verbosity >= 0 and not options.resume:
            _say_how_long(plan, screen, session)
        if stopped := session.heard():
            screen.console.print("\nStopped before the first trial began; nothing to resume.")
            return 128 + stopped, summary.Outcome()
        tuner = make_tuner(plan.experiment, options.resume, options.wandb_project)
        results = tuner.fit()
    if report is not None:
        report.write()
    metric, mode = folders.metric_and_mode(plan.experiment)
    outcome = summary.collect(results, folder, metric, mode, session.ended)
    summary.show(outcome, folder, metric, mode, screen.console)
    if report is not None and report.path.exists():
        screen.console.print(f"Report:\n  {report.path}", markup=False)
    stopped = session.heard()
    if stopped is None:
        return (FAILED if outcome.failed else OK), outcome
    if outcome.unfinished:
        name = "Ctrl-C" if stopped == 2 else "SIGTERM"
        screen.console.print(
            f"\nStopped by {name} with {outcome.unfinished} unfinished trials; {outcome.saved} of "
            "them have a checkpoint, the others will start from their beginning. Continue with:\n"
            f"  {shlex.join([*options.command, '--resume'])}",
            markup=False,
        )
    return 128 + stopped, outcome


def _say_how_long(plan: Plan, screen: Screen, session: "Session") -> None:
    """Measures, before the trials of a long run start, what they will take."""
    from rllib_cli.run import forecast

    if forecast.is_worth_it(plan.experiment, plan.trials):
        screen.console.print("Measuring how fast they are on this machine ...")
        if said := forecast.forecast(
            plan.experiment, plan.trials, is_stopped=lambda: session.heard() is not None
        ):
            screen.console.print(said, markup=False)


def _log_path(experiment: Experiment) -> Path:
    """Beside the results; in the temporary folder if those are behind a URI."""
    if not storage.is_uri(experiment.folder):
        return Path(experiment.folder, folders.LOG_FILE)
    name = experiment.name.replace("/", "-")
    handle, path = tempfile.mkstemp(prefix=f"rllib-{name}-", suffix=".log")
    os.close(handle)
    return Path(path)


def _headline(plan: Plan) -> str:
    experiment, trials = plan.experiment, plan.trials
    env = "" if not env_names(experiment) else " on " + ", ".join(env_names(experiment))
    count = f"{len(trials)} trial{'s' * (len(trials) != 1)}"
    until = ", ".join(f"{key} = {value:,}" for key, value in experiment.stop.items())
    lines = [
        f"{experiment.name}: {experiment.run}{env}, {count}, "
        + (f"until {until}" if until else "until Ctrl-C (no stop criterion)"),
        f"Results: {experiment.folder}",
    ]
    if experiment.search_algorithm is not None:
        lines.append(f"{experiment.search_algorithm} chooses the values of the trials as they end")
    elif experiment.num_samples > 1 and not search_space.is_search_space(
        experiment.config.get("seed")
    ):
        first = experiment.config.get("seed") or 0
        lines.append(
            f"num_samples {experiment.num_samples}: "
            f"seeds {first} to {first + experiment.num_samples - 1} (one seed: --num-samples 1)"
        )
    return "\n".join([*lines, plan.note] if plan.note else lines)


def _print_plans(plans: list[Plan], screen: Screen) -> None:
    """The resolved trials, for ``--dry-run``."""
    from rich.table import Table

    for plan in plans:
        screen.console.print(_headline(plan), markup=False)
        table = Table(box=None, pad_edge=False)
        keys = list(dict.fromkeys(key for trial in plan.trials for key in trial.params))
        for title in ("trial", *keys, "CPUs", "GPUs"):
            table.add_column(title)
        for number, trial in enumerate(plan.trials):
            table.add_row(
                f"{number:05d}",
                *(str(trial.params.get(key, "")) for key in keys),
                f"{trial.resources['CPU']:g}",
                f"{trial.resources['GPU']:g}",
            )
        screen.console.print(table)
        if plan.experiment.search_algorithm is not None:
            screen.console.print("These values are examples.")
    screen.console.print("Dry run: nothing was started.")


def command_line() -> list[str]:
    """This process's command line, as the user would type it again."""
    program = "rllib" if shutil.which("rllib") else f"{sys.executable} -m rllib_cli"
    return [*shlex.split(program), *(a for a in sys.argv[1:] if a != "--resume")]
