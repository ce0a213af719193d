"""What the user sees while trials run: a live table on a terminal, plain lines elsewhere."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rllib_cli.experiment.parse import flatten
from rllib_cli.experiment.result_keys import EVALUATED_AT, STEADY_KEYS, STEPS, STEPS_OFFLINE
from rllib_geoffpac.metrics import Metric

_MAX_ROWS = 20
_BARS = "▁▂▃▄▅▆▇█"
_SPARKLINE = 10
"""Characters of a sparkline."""


@dataclass
class TrialView:
    """The latest figures of one trial."""

    name: str
    status: str = "waiting"
    steps: int | None = None
    rate: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    history: dict[float, float] = field(default_factory=dict)  # steps -> the first headline
    warnings: list[str] = field(default_factory=list)
    source: str = ""
    seconds_left: float | None = None
    first: tuple[float, float] | None = None  # (fraction done, time) at the first report


class Progress:
    """Follows the trials of one experiment.

    Args:
        console: A rich console for the user's lines.
        stop: The experiment's stop criteria, for targets and the time left.
        total: Number of trials.
        metrics: What to show of a result: those with a headline.
        live: Draw a table that is updated in place.
        quiet: Print nothing on the way.
        diagnose: What the algorithm's package says of a flat result that looks bad.
    """

    def __init__(
        self,
        console: Any,
        stop: dict[str, float],
        total: int,
        metrics: Sequence[Metric],
        live: bool,
        quiet: bool,
        diagnose: Callable[[Mapping[str, Any]], Sequence[str]] = lambda result: (),
    ):
        self.console = console
        self.stop = stop
        self.total = total
        self.metrics = metrics
        self.quiet = quiet
        self.diagnose = diagnose
        self.views: dict[str, TrialView] = {}
        self.started = time.monotonic()
        self.note = ""
        self._live: Any = None
        if live and not quiet:
            from rich.live import Live

            self._live = Live(
                console=console, get_renderable=self.render, refresh_per_second=4, transient=True
            )

    def start(self) -> None:
        """Begins to draw."""
        if self._live:
            self._live.start()

    def close(self) -> None:
        """Removes the live table."""
        if self._live:
            self._live.stop()

    def say(self, text: str) -> None:
        """Prints a line above the live table."""
        self.console.print(text, markup=False)

    def announce(self, text: str) -> None:
        """Shows a line below the live table, or prints it."""
        self.note = text
        if self._live is None:
            self.say(text)

    def on_status(self, trial_id: str, name: str, status: str) -> None:
        """A trial started, ended or failed."""
        view = self.views.setdefault(trial_id, TrialView(name))
        view.status = status
        if self._live is None and not self.quiet and status == "failed":
            self.say(f"{name}  failed")

    def on_result(self, trial_id: str, name: str, result: dict[str, Any]) -> None:
        """A trial reported."""
        view = self.views.setdefault(trial_id, TrialView(name))
        view.status = "diverged" if result.get("diverged") else "running"
        figures = flatten({k: v for k, v in result.items() if k != "config"})
        steps = figures.get(STEPS, figures.get(STEPS_OFFLINE))
        seconds = figures.get("time_this_iter_s") or 0.0
        if steps is not None and seconds > 0:
            view.rate = (steps - (view.steps or 0)) / seconds if view.steps is not None else None
            if view.rate is None and figures.get("iterations_since_restore") == 1:
                before = 0 if figures.get("training_iteration") == 1 else None
                view.rate = None if before is None else steps / seconds
        view.steps = None if steps is None else int(steps)
        for metric in self.metrics:
            if _is_number(figures.get(metric.key)):
                view.metrics[metric.key] = figures[metric.key]
        self._remember(view, figures)
        view.source = str(result.get("data_source") or "")
        self._estimate_time_left(view, figures)
        if self._live is None and not self.quiet:
            self.say(self.line(view))

    def _remember(self, view: TrialView, figures: dict[str, Any]) -> None:
        """Keeps the first headline for the sparkline, and says once what looks bad."""
        headline = next((m for m in self.metrics if m.key in view.metrics), None)
        if headline is not None:
            at = figures.get(EVALUATED_AT) if headline.needs_evaluation else None
            view.history[view.steps or 0 if at is None else at] = view.metrics[headline.key]
        for warning in self.diagnose(figures):
            if warning not in view.warnings:
                view.warnings.append(warning)
                if not self.quiet:
                    self.say(f"{view.name}  warning: {warning}")

    def _estimate_time_left(self, view: TrialView, figures: dict[str, Any]) -> None:
        fractions = [
            figures[key] / self.stop[key]
            for key in STEADY_KEYS
            if key in self.stop and _is_number(figures.get(key)) and self.stop[key] > 0
        ]
        if not fractions:
            return
        done, now = max(fractions), time.monotonic()
        if done >= 1:
            view.seconds_left = 0.0
            return
        # Measured from the first report on, so that start-up and a resume do not count.
        if view.first is None:
            view.first = (done, now)
            since = figures.get("time_since_restore")
            if figures.get("training_iteration") == 1 and since and done > 0:
                view.seconds_left = since * (1 - done) / done
        elif done > view.first[0]:
            view.seconds_left = (now - view.first[1]) * (1 - done) / (done - view.first[0])

    def line(self, view: TrialView) -> str:
        """One report as one plain line."""
        parts = [view.name, self.steps_text(view)]
        if view.rate is not None:
            parts.append(f"{view.rate:,.0f} steps/s")
        for metric in self._reported([view]):
            parts.append(f"{metric.headline} {number(view.metrics[metric.key])}")
        if len(view.history) > 1:
            parts.append(sparkline(list(view.history.values())))
        if view.source:
            parts.append(view.source)
        if view.status == "diverged":
            parts.append("diverged")
        elif view.seconds_left is not None:
            parts.append(f"{duration(view.seconds_left)} left")
        return "  ".join(parts)

    def _reported(self, views: Iterable[TrialView]) -> list[Metric]:
        known = {key for view in views for key in view.metrics}
        return [metric for metric in self.metrics if metric.key in known]

    def steps_text(self, view: TrialView) -> str:
        """``12,000/20,000 steps``, or without a target what was done."""
        if view.steps is None:
            return "no steps yet"
        target = self.stop.get(STEPS)
        return f"{view.steps:,}" + (f"/{int(target):,}" if target else "") + " steps"

    def render(self) -> Any:
        """The live table: running trials first, then the latest others."""
        from rich.console import Group, RenderableType
        from rich.table import Table
        from rich.text import Text

        views = sorted(self.views.values(), key=lambda view: view.status != "running")
        table = Table(box=None, pad_edge=False)
        table.add_column("trial", overflow="fold")
        table.add_column("status")
        shown = self._reported(views)
        for title in ("env steps", "steps/s", *(metric.headline for metric in shown), "left"):
            table.add_column(title, justify="right")
        table.add_column(shown[0].headline if shown else "")
        for view in views[:_MAX_ROWS]:
            table.add_row(
                view.name,
                f"{view.status} {view.source}".strip(),
                self.steps_text(view).removesuffix(" steps"),
                "" if view.rate is None else f"{view.rate:,.0f}",
                *(number(view.metrics.get(metric.key)) for metric in shown),
                duration(view.seconds_left) if view.status == "running" else "",
                sparkline(list(view.history.values())),
            )
        counts = {
            status: sum(view.status == status for view in views)
            for status in ("running", "done", "diverged", "failed", "interrupted")
        }
        counts["waiting"] = self.total - sum(counts.values())
        summary = ", ".join(f"{count} {status}" for status, count in counts.items() if count > 0)
        elapsed = duration(time.monotonic() - self.started)
        if len(views) > _MAX_ROWS:
            summary += f" ({_MAX_ROWS} shown)"
        lines: list[RenderableType] = [
            table,
            Text(f"{self.total} trials: {summary}; {elapsed} passed", style="dim"),
        ]
        if self.note:
            lines.append(Text(self.note, style="bold"))
        return Group(*lines)


def sparkline(values: Sequence[float]) -> str:
    """A curve in a few characters: its values [N] as bars between its lowest and its highest.

    Example:
        >>> sparkline([0.0, 1.0, 4.0, 8.0])
        '▁▂▄█'
    """
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < 2:
        return ""
    count = min(_SPARKLINE, len(finite))
    chosen = [finite[round(k * (len(finite) - 1) / (count - 1))] for k in range(count)]
    low, high = min(finite), max(finite)
    top = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((value - low) * top)] for value in chosen)


def number(value: float | None) -> str:
    """Four significant digits, or nothing."""
    return "" if value is None else f"{value:,.4g}"


def duration(seconds: float | None) -> str:
    """``0:01:05``; nothing if unknown."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    minutes, secs = divmod(int(seconds + 0.5), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{secs:02}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
