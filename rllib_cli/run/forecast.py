"""How long a run of many trials will take on this machine, from a measured speed (imports Ray)."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.util import remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rllib_cli.errors import exception_summary
from rllib_cli.experiment.algorithms import algorithm_class, register_env
from rllib_cli.experiment.parse import Experiment, env_names, flatten
from rllib_cli.experiment.result_keys import STEPS, STEPS_OFFLINE
from rllib_cli.experiment.rllib_checks import Trial
from rllib_cli.experiment.settings import Settings
from rllib_cli.run.progress import duration

logger = logging.getLogger(__name__)

MANY_STEPS = 100_000
"""Steps of all trials together from which on the time is worth measuring."""
_PATIENCE_S = 300.0
_LISTEN_S = 0.1
_ENOUGH_S = 20.0
"""A first iteration that takes so long tells the speed alone."""
_LEAVES_SOMETHING = ("callbacks", "output")
"""Settings of RLlib with which the measurement could leave something behind."""
_LEARNING_STARTS = "num_steps_sampled_before_learning_starts"
"""RLlib's: sampling alone would look faster than it will be."""


@dataclass(frozen=True)
class Speed:
    """What the first iterations of a trial showed.

    Attributes:
        start: Seconds from nothing to the end of the first iteration.
        first_steps: Environment steps of the first iteration.
        seconds: Of an iteration after the first.
        steps: Environment steps of that iteration.
    """

    start: float
    first_steps: float
    seconds: float
    steps: float

    def of_trial(self, stop: dict[str, float]) -> float:
        """Seconds that a trial takes until the first of its steady stop criteria."""
        after = {
            key: self.seconds * max(stop[key] - self.first_steps, 0) / max(self.steps, 1)
            for key in (STEPS, STEPS_OFFLINE)
            if key in stop
        }
        if "training_iteration" in stop:
            after["training_iteration"] = self.seconds * (stop["training_iteration"] - 1)
        found = [self.start + seconds for seconds in after.values()]
        if "time_total_s" in stop:
            found.append(stop["time_total_s"])
        return min(found)


def is_worth_it(experiment: Experiment, trials: Sequence[Trial]) -> bool:
    """Whether there are several trials, of many steps in all."""
    steps = max(experiment.stop.get(key, 0) for key in (STEPS, STEPS_OFFLINE))
    return len(trials) > 1 and len(trials) * steps >= MANY_STEPS


def forecast(
    experiment: Experiment,
    trials: Sequence[Trial],
    is_stopped: Callable[[], bool] = lambda: False,
) -> str:
    """Trains the first trials for two iterations, as many as will run at a time, and reckons.

    Nothing of it is kept: the trials start from their beginning, so that they are what they would
    be without the measurement.

    Args:
        experiment: A checked experiment.
        trials: Its trials.
        is_stopped: Whether the user does not want to wait for it any more.

    Returns:
        A sentence for the user; empty if nothing could be measured, for whatever reason: the
        trials themselves will show it.
    """
    at_once = trials_at_once(experiment, trials, ray.cluster_resources())
    speeds = _measure(experiment, trials[:at_once], is_stopped)
    if not speeds:
        return ""
    each = max(speed.of_trial(experiment.stop) for speed in speeds)
    rate = sum(speed.steps / speed.seconds for speed in speeds) / len(speeds)
    total = each * math.ceil(len(trials) / at_once)
    about = "About" if experiment.tune_config.get("scheduler") is None else "At most about"
    return (
        f"{about} {duration(total)} for the {len(trials)} trials: {at_once} at a time, "
        f"{duration(each)} each at the {rate:,.0f} steps/s that were measured here just now."
    )


def trials_at_once(
    experiment: Experiment, trials: Sequence[Trial], available: dict[str, float]
) -> int:
    """How many trials will run at a time."""
    limits = [len(trials), experiment.tune_config.get("max_concurrent_trials") or len(trials)]
    for kind in ("CPU", "GPU"):
        if needed := max(trial.resources[kind] for trial in trials):
            limits.append(int(available.get(kind, 0) // needed))
    return max(min(limits), 1)


def _measure(
    experiment: Experiment, trials: Sequence[Trial], is_stopped: Callable[[], bool]
) -> list[Speed]:
    """The speeds of trials that run side by side; empty if that fails, is stopped or too slow."""
    for env in env_names(experiment):
        register_env(env)
    algorithm = experiment.algorithm or algorithm_class(experiment.run)
    groups, running = [], []
    try:
        for trial in trials:
            kept = {k: v for k, v in trial.config.items() if k not in _LEAVES_SOMETHING}
            default = algorithm.get_default_config()
            given = Settings(default, experiment.run).for_rllib(kept)
            config = default.copy(copy_frozen=False).update_from_dict(given)
            if hasattr(config, _LEARNING_STARTS):
                setattr(config, _LEARNING_STARTS, 0)
            if hasattr(config, "for_measuring"):
                config = config.for_measuring()
            group = algorithm.default_resource_request(given).to_placement_group()
            groups.append(group)
            where = PlacementGroupSchedulingStrategy(group, 0, True)
            head = group.bundle_specs[0]
            measure = ray.remote(
                num_cpus=head.get("CPU", 0),
                num_gpus=head.get("GPU", 0),
                max_retries=0,
                max_calls=1,
                scheduling_strategy=where,
            )(_first_iterations)
            running.append(measure.remote(config, time.time()))
        late, until = running, time.monotonic() + _PATIENCE_S
        while late and time.monotonic() < until and not is_stopped():
            _, late = ray.wait(running, num_returns=len(running), timeout=_LISTEN_S)
        return [] if late else ray.get(running)
    except Exception as error:
        logger.warning("The speed could not be measured: %s", exception_summary(error))
        return []
    finally:
        # This ends the tasks as well. Cancelling one just as it ends makes Ray abort the process.
        for group in groups:
            remove_placement_group(group)


def _first_iterations(config: Any, asked: float) -> Speed:
    """Runs in a process of its own, which was ``asked`` for at that time: as a trial's is."""
    algorithm = config.build_algo()
    begun = time.monotonic()
    first = steps = _steps(algorithm.train())
    start, seconds = time.time() - asked, time.monotonic() - begun
    if seconds < _ENOUGH_S:
        begun = time.monotonic()
        steps = _steps(algorithm.train()) - first
        seconds = time.monotonic() - begun
    algorithm.stop()
    return Speed(start, first, seconds, steps)


def _steps(result: dict[str, Any]) -> float:
    figures = flatten({key: value for key, value in result.items() if key != "config"})
    return figures.get(STEPS, figures.get(STEPS_OFFLINE)) or 0
