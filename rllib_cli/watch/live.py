"""Reads a results folder again and again, and shows it as `rllib train` does."""

import sys
import time
from typing import Any

from rllib_cli import interruption
from rllib_cli.results import reading
from rllib_cli.results.reading import TrialResult
from rllib_cli.run.progress import Progress
from rllib_cli.screen import plain_console


def watch_command(path: str, interval: float, once: bool) -> None:
    """Shows the table until every trial has ended, or until Ctrl-C; once where nobody looks on."""
    from rich.live import Live

    console = plain_console(sys.stdout)
    trials = reading.load([path])
    if once or not console.is_terminal:
        console.print(table_of(trials, console).render())
        return
    shown = table_of(trials, console).render()
    try:
        with interruption.unwinding(), Live(shown, console=console, auto_refresh=False) as live:
            while any(trial.status() == "running" for trial in trials):
                time.sleep(interval)
                trials = reading.load([path])
                live.update(table_of(trials, console).render(), refresh=True)
    except KeyboardInterrupt:
        interruption.answered()
        console.print("Stopped watching; the run goes on.")


def table_of(trials: list[TrialResult], console: Any) -> Progress:
    """The progress of trials as their folders tell it."""
    metrics = reading.headline_metrics()
    progress = Progress(console, trials[0].stop, len(trials), metrics, live=False, quiet=True)
    for trial in trials:
        for report in trial.reports:
            progress.on_result(trial.place, trial.name, report)
        view = progress.views[trial.place]
        view.status = trial.status()
        # The reports of a folder all come at once: the time left follows from their own clock.
        passed, done = trial.reports[-1].get("time_total_s", 0.0), _done(trial)
        view.seconds_left = passed * (1 - done) / done if 0 < done < 1 else None
    passed = max(trial.reports[-1].get("time_total_s", 0.0) for trial in trials)
    progress.started = time.monotonic() - passed
    return progress


def _done(trial: TrialResult) -> float:
    """The share of the nearest stop criterion."""
    last = trial.reports[-1]
    return max((last[key] / end for key, end in trial.stop.items() if last.get(key)), default=0.0)
