"""What the user sees when an experiment ends (imports Ray)."""

import os
import shlex
from dataclasses import dataclass, field
from typing import Any

from rllib_cli import storage
from rllib_cli.errors import UserError, exception_summary
from rllib_cli.experiment.parse import flatten
from rllib_cli.experiment.result_keys import STEPS, STEPS_OFFLINE
from rllib_cli.run.progress import duration, number
from rllib_cli.run.session import trial_label
from rllib_geoffpac.compat import trials_of


@dataclass(frozen=True)
class TrialOutcome:
    """One row of the final table."""

    label: str
    status: str
    steps: float | None
    seconds: float
    last: float | None
    best: float | None
    checkpoint: str | None
    error_file: str | None


@dataclass(frozen=True)
class Outcome:
    """How an experiment ended."""

    trials: list[TrialOutcome] = field(default_factory=list)
    best_trial: str | None = None
    best_value: float | None = None
    best_checkpoint: str | None = None

    @property
    def failed(self) -> list[TrialOutcome]:
        """The trials that ended with an error."""
        return [trial for trial in self.trials if trial.status == "failed"]

    @property
    def unfinished(self) -> int:
        """How many trials were interrupted or never started."""
        return sum(trial.status in ("interrupted", "waiting") for trial in self.trials)

    @property
    def saved(self) -> int:
        """How many of the unfinished trials have a checkpoint."""
        return sum(
            trial.status in ("interrupted", "waiting") and trial.checkpoint is not None
            for trial in self.trials
        )


def collect(
    results: Any, folder: str, metric: str, mode: str, ended: set[str] | None = None
) -> Outcome:
    """Reads Tune's ``ResultGrid``.

    Args:
        results: What ``tuner.fit()`` returned.
        folder: The experiment's folder or URI.
        metric: Flat result key that says what is best.
        mode: ``max`` or ``min``.
        ended: Ids of the trials that had ended when the user stopped the run; None if nobody did.
    """
    sign = 1 if mode == "max" else -1
    rows, candidates = [], []
    trials = trials_of(results)
    for trial, result in zip(trials, results, strict=True):
        metrics = flatten({k: v for k, v in (result.metrics or {}).items() if k != "config"})
        analysis = trial.metric_analysis.get(metric, {})
        label = trial_label(trial)
        rows.append(
            TrialOutcome(
                label=label,
                status=_status(trial, metrics, ended),
                steps=metrics.get(STEPS, metrics.get(STEPS_OFFLINE)),
                seconds=metrics.get("time_total_s", 0.0),
                last=analysis.get("last"),
                best=analysis.get(mode),
                checkpoint=_location(result.checkpoint, folder),
                error_file=_error_file(trial, storage.location_of(result.path, folder)),
            )
        )
        for checkpoint, saved in result.best_checkpoints or []:
            # Without an evaluation in that very iteration, the trial's latest value stands in.
            value = flatten({metric: saved.get(metric)} if metric in saved else saved).get(
                metric, analysis.get("last")
            )
            if value is not None and value == value:
                candidates.append((sign * value, label, value, _location(checkpoint, folder)))
    if not candidates:
        # No trial got as far as the metric: any checkpoint is better than none.
        saved = [row for row in rows if row.checkpoint]
        return Outcome(rows, saved[0].label, None, saved[0].checkpoint) if saved else Outcome(rows)
    _, label, value, path = max(candidates, key=lambda candidate: candidate[0])
    return Outcome(rows, label, value, path)


def _status(trial: Any, metrics: dict[str, Any], ended: set[str] | None) -> str:
    if ended is not None and trial.trial_id not in ended:
        return "interrupted" if metrics.get("training_iteration") else "waiting"
    if trial.status == "ERROR":
        return "failed"
    return "diverged" if metrics.get("diverged") else "done"


def _location(checkpoint: Any, folder: str) -> str | None:
    return storage.location_of(checkpoint.path, folder) if checkpoint else None


def _error_file(trial: Any, folder: str) -> str | None:
    """The copy beside the results rather than the one in Ray's temporary session folder."""
    if trial.error_file is None:
        return None
    kept = storage.join(folder, os.path.basename(trial.error_file))
    return kept if storage.exists(kept) else trial.error_file


def _last_line(path: str) -> str:
    """The exception itself, which stands at the end of an error file."""
    try:
        text = storage.read_text(path) or ""
    except (OSError, UserError):
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return exception_summary(Exception(lines[-1]), 200) if lines else ""


def show(outcome: Outcome, folder: str, metric: str, mode: str, console: Any) -> None:
    """Prints the table of trials, the best checkpoint and the commands to go on with."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("trial")
    table.add_column("status")
    for title in ("env steps", "time", "last", "best"):
        table.add_column(title, justify="right")
    for trial in sorted(outcome.trials, key=lambda row: row.label):
        table.add_row(
            trial.label,
            trial.status,
            "" if trial.steps is None else f"{int(trial.steps):,}",
            duration(trial.seconds),
            number(trial.last),
            number(trial.best),
        )
    console.print()
    console.print(table)
    console.print(f"last and best: {metric} ({mode})", markup=False, style="dim")
    for trial in outcome.failed:
        where = trial.error_file or "no error file was written"
        console.print(f"Trial {trial.label} failed, see {where}", markup=False)
        if trial.error_file:
            console.print(f"  {_last_line(trial.error_file)}", markup=False)
    if outcome.best_checkpoint:
        if outcome.best_value is None:
            title = f"Checkpoint (trial {outcome.best_trial}; no trial reported {metric})"
        else:
            value = number(outcome.best_value)
            title = f"Best checkpoint (trial {outcome.best_trial}, {metric} {value})"
        console.print(f"\n{title}:\n  {outcome.best_checkpoint}", markup=False)
        console.print(
            f"\nEvaluate it:\n  rllib evaluate {shlex.quote(outcome.best_checkpoint)} "
            "--episodes 10",
            markup=False,
        )
    if any(trial.steps for trial in outcome.trials):
        console.print(f"Plot it:\n  rllib plot {shlex.quote(folder)}", markup=False)
