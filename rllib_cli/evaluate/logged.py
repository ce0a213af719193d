"""Evaluates a checkpoint's target policy on logged data, without a simulator."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rllib_cli import interruption, out_files, storage
from rllib_cli.errors import UserError, exception_summary
from rllib_cli.evaluate import checkpoints
from rllib_cli.evaluate.measure import TRUST_NOTE
from rllib_cli.screen import Screen

if TYPE_CHECKING:
    from rllib_geoffpac.offline_evaluation.evaluation import OfflineEvaluation


@dataclass(frozen=True)
class LoggedOptions:
    """How to evaluate on data.

    Attributes:
        data: Name of the data set.
        gamma_hat: Of J_gamma_hat; None: the checkpoint's.
        behavior: mu, as the setting; None: the checkpoint's.
        deterministic: Take the mean or most likely action instead of sampling pi.
        updates: Learning steps of each network that is fitted; None: as many as usual.
        seed: Seed of what is fitted.
        weights_only: Read only arrays from the checkpoint, see `checkpoints`.
    """

    data: str
    gamma_hat: float | None = None
    behavior: str | None = None
    deterministic: bool = False
    updates: int | None = None
    seed: int = 0
    weights_only: bool = False


def check_options(checkpoint: str | Path, options: LoggedOptions, only_played: list[str]) -> str:
    """The checks that need no RLlib; returns the checkpoint's folder or URI.

    Args:
        checkpoint: As it was given.
        options: The options.
        only_played: Flags that were given and mean something for played episodes alone.
    """
    if only_played:
        raise UserError(
            f"{only_played[0]} is for episodes that are played; with --data none are. Leave one "
            "of the two out."
        )
    if options.seed < 0:
        raise UserError(f"--seed is {options.seed}; it must be at least 0.")
    if options.updates is not None and options.updates < 1:
        raise UserError(f"--updates is {options.updates}; it must be at least 1.")
    if options.gamma_hat is not None and not 0 <= options.gamma_hat <= 1:
        raise UserError(f"--gamma-hat is {options.gamma_hat}; it must be from 0 to 1.")
    return checkpoints.find_checkpoint(checkpoint)


def evaluate_logged(checkpoint: str, options: LoggedOptions) -> "tuple[Any, OfflineEvaluation]":
    """Estimates the objectives of a checkpoint's policy; returns its config, too.

    Raises:
        UserError: If the checkpoint, the data or an option is wrong.
    """
    with interruption.unwinding(), storage.local_copy(checkpoint) as folder:
        config = checkpoints.load_config(folder, options.weights_only)
        weights = checkpoints.load_weights(folder, options.weights_only)
        estimate = getattr(config, "evaluate_on_data", None)
        if estimate is None:
            raise UserError(
                f"--data can't evaluate a checkpoint of {config.algo_class.__name__}: the "
                "estimators need the densities of this package's policies. Evaluate it in its "
                "environment, without --data."
            )
        given = {
            name: value
            for name in ("gamma_hat", "behavior", "deterministic", "updates", "seed")
            if (value := getattr(options, name)) is not None
        }
        if options.weights_only:
            checkpoints.check_connectors_are_stateless(folder)
        else:
            given["checkpoint"] = folder
        try:
            found = estimate(weights, options.data, **given)
        except ValueError as error:
            raise UserError(exception_summary(error)) from error
    return config, found


def evaluate_logged_command(
    checkpoint: str, options: LoggedOptions, only_played: list[str], out: str | None
) -> None:
    """``rllib evaluate --data``: estimates, prints, and writes JSON."""
    target = None if out is None else out_files.checked(out)
    place = check_options(checkpoint, options, only_played)
    with Screen() as screen:
        if not options.weights_only:
            screen.console.print(TRUST_NOTE, style="dim", markup=False)
        try:
            config, found = evaluate_logged(place, options)
        except (UserError, KeyboardInterrupt):
            raise
        except Exception as error:
            log = screen.keep_log(error)
            raise UserError(
                f"The checkpoint cannot be evaluated on {options.data!r}: "
                f"{type(error).__name__}: {exception_summary(error)} (details: {log})"
            ) from error
        name = config.algo_class.__name__
        screen.console.print(_heading(name, options, found), markup=False)
        screen.console.print(_table(found))
        for warning in found.warnings:
            screen.console.print(f"Warning: {warning}", style="yellow", markup=False)
        if target is not None:
            report = {"algorithm": name, "checkpoint": place, **asdict(options), **asdict(found)}
            out_files.make_room(target)
            target.write_text(json.dumps(report, indent=2) + "\n")
            screen.console.print(f"Written: {out}", markup=False)


def _heading(name: str, options: LoggedOptions, found: "OfflineEvaluation") -> str:
    left_out = f", {found.num_left_out} without an end left out" * bool(found.num_left_out)
    return (
        f"{name} on {options.data}: {found.num_episodes:,} episodes, "
        f"{found.num_transitions:,} transitions{left_out}\n"
        f"overlap {_number(found.overlap)}, mean of rho {_number(found.mean_rho)}"
    )


def _table(found: "OfflineEvaluation") -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    titles = ("objective", "estimator", "estimate", f"{found.confidence:.0%} interval", "effective")
    for title in (*titles, ""):
        table.add_column(
            title, justify="left" if title in ("objective", "estimator", "") else "right"
        )
    names = {"j_pi": "J_pi", "j_mu": "J_mu", "j_gamma_hat": f"J_gamma_hat {found.gamma_hat}"}
    before = ""
    for row in found.estimates:
        table.add_row(
            names[row.objective] if row.objective != before else "",
            row.estimator,
            _number(row.value),
            f"[{_number(row.low)}, {_number(row.high)}]".replace("[", r"\["),
            "-" if math.isnan(row.effective_sample_size) else f"{row.effective_sample_size:,.0f}",
            "" if row.trusted else "not to be trusted",
        )
        before = row.objective
    return table


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"
