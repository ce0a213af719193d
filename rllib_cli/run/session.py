"""Connects Tune's run to the user: reports, and a clean stop on Ctrl-C or SIGTERM (imports Ray)."""

import os
import signal
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.result import SHOULD_CHECKPOINT

from rllib_cli.run.live_report import LiveReport
from rllib_cli.run.progress import Progress


class Session:
    """What one ``tuner.fit()`` shares with the signal handlers and the progress view.

    On the first signal every running trial is asked to save a checkpoint with its next result;
    when all have, Tune is told to stop. On the second signal it stops at once.
    """

    current: "Session | None" = None

    def __init__(self, progress: Progress, report: LiveReport | None = None):
        self.progress = progress
        self.report = report
        self._heard: int | None = None
        # Trials that had ended when Tune was stopped; afterwards it calls all of them ended.
        self.ended: set[str] | None = None
        self._running: set[str] | None = None
        self._stopped = False
        self._in_tune = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "Session":
        Session.current = self
        # After ray.init, which installs handlers of its own.
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._on_signal)
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.close()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        Session.current = None

    def heard(self) -> int | None:
        """The first signal, if there was one."""
        return self._heard

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._heard is None:
            self._heard = number
            return
        if self._in_tune:
            self._stop_tune()
        else:
            raise KeyboardInterrupt

    def _stop_tune(self) -> None:
        if not self._stopped:
            self._stopped = True
            os.kill(os.getpid(), signal.SIGUSR1)  # Tune ends its loop and writes its state

    def on_step(self, trials: list[Trial]) -> None:
        """Tune is about to handle its next event."""
        self._in_tune = True
        if self._heard is None:
            return
        running = {trial.trial_id for trial in trials if trial.status == Trial.RUNNING}
        if self._running is None:
            self._running = set(running)
            note = (
                f"Stopping: {len(running)} running trial{'s' * (len(running) != 1)} will end "
                "the current iteration and save a checkpoint (Ctrl-C again: stop at once)."
            )
            if running:
                self.progress.announce(note)
        self._running &= running
        if not self._running:
            self._stop_tune()

    def after_step(self, trials: list[Trial]) -> None:
        """Tune has handled an event; it may have been the last."""
        if self.report is not None:
            self.report.refresh()
        if self._stopped:
            self.ended = {trial.trial_id for trial in trials if trial.is_finished()}

    def on_result(self, trial: Trial, result: dict) -> None:
        """A trial reported; ``result`` may be changed."""
        if self._running is not None:
            # Also one that is saved already and has gone on, waiting for the others.
            self._running.add(trial.trial_id)
            result[SHOULD_CHECKPOINT] = True
        self.progress.on_result(trial.trial_id, trial_label(trial), result)

    def on_save(self, trial: Trial) -> None:
        """A trial's checkpoint is complete."""
        if self._running is not None:
            self._running.discard(trial.trial_id)

    def on_status(self, trial: Trial, status: str) -> None:
        """A trial started, ended or failed."""
        if status == "done" and (trial.last_result or {}).get("diverged"):
            status = "diverged"
        self.progress.on_status(trial.trial_id, trial_label(trial), status)


class SessionCallback(Callback):
    """Hands Tune's events to the session of this process.

    It has no state, because Tune pickles it into the experiment's folder and a resumed run gets
    that copy.
    """

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Lets a stop request take effect."""
        if Session.current:
            Session.current.on_step(trials)

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Notes which trials have ended."""
        if Session.current:
            Session.current.after_step(trials)

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Shows the trial as running."""
        if Session.current:
            Session.current.on_status(trial, "running")

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict, **info: Any
    ) -> None:
        """Reports, and asks for a checkpoint while stopping."""
        if Session.current:
            Session.current.on_result(trial, result)

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Notes a complete checkpoint."""
        if Session.current:
            Session.current.on_save(trial)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Shows the trial as done."""
        if Session.current:
            Session.current.on_status(trial, "done")

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Shows the trial as failed."""
        if Session.current:
            Session.current.on_status(trial, "failed")


def trial_params(trial: Trial) -> str:
    """What distinguishes a trial, as ``lambda_1=0.7,seed=1``."""
    return ",".join(
        f"{key.split('/')[-1]}={f'{value:.4g}' if isinstance(value, float) else value}"
        for key, value in (trial.evaluated_params or {}).items()
    )


def trial_label(trial: Trial) -> str:
    """How a trial is called on the screen."""
    index = trial.trial_id.split("_")[-1]
    return f"{index} {trial_params(trial).replace(',', ' ')}".strip()


def trial_dirname(trial: Trial) -> str:
    """The name of a trial's folder: its number and what distinguishes it."""
    safe = "".join(c if c.isalnum() or c in "=,.-_" else "_" for c in trial_params(trial))
    return f"{trial.trial_id.split('_')[-1]}_{safe}"[:100].rstrip("_,.")
