"""Asks remote env runners so that a lost or hung one costs time and nothing else."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from rllib_geoffpac.compat import env_runner_actors
from rllib_geoffpac.lanes.events import ENV_RUNNERS_HUNG, ENV_RUNNERS_LOST, EventCounts

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_RETRIES = 0.2


class RemoteRunners:
    """The remote env runners of a group, and what happened to them.

    RLlib's own calls end an actor whose call raises, and can't wait for a single answer: so
    requests go to the actors directly. Their restarts are still Ray's and RLlib's. A request must
    carry all that any incarnation of its runner needs to answer it.

    Args:
        group: The training or the evaluation EnvRunnerGroup.
        config: The algorithm's config.
        events: Where losses are counted.
        recreated: Called with the index of a runner that was lost and answers again.
    """

    def __init__(
        self,
        group: EnvRunnerGroup,
        config: AlgorithmConfig,
        events: EventCounts,
        recreated: Callable[[int], None] = lambda runner: None,
    ):
        self._recreated = recreated
        self.group, self.config, self.events = group, config, events
        self._incarnations: dict[int, str] = {}  # who answered last, by worker index

    def actors(self) -> dict[int, Any]:
        """The actors by their RLlib worker index."""
        return env_runner_actors(self.group)

    def answer(
        self,
        runner: int,
        ask: Callable[[], ray.ObjectRef],
        *,
        forget: Callable[[], None] = lambda: None,
        time_limit: float,
    ) -> Any:
        """Waits for an answer, asking again for as long as the runner gets lost.

        Args:
            runner: Whom to ask.
            ask: Sends the request to `Incarnated.answer`, or returns one that is under way.
            forget: Called when the runner is lost: what was asked before will not be answered.
            time_limit: Seconds without an answer after which the runner counts as hung.

        Raises:
            Exception: What the runner raised; TimeoutError when it hangs again and again, or
                when it is lost and does not come back.
        """
        lost_since, hung = None, 0
        while True:
            try:
                patience = None if math.isinf(time_limit) else time_limit
                incarnation, answer = ray.get(ask(), timeout=patience)
                # A runner can get lost and be rebuilt between two requests: no request fails then.
                known = self._incarnations.get(runner, incarnation)
                if incarnation != known and lost_since is None:
                    self._count(runner, ENV_RUNNERS_LOST, "was lost")
                self._incarnations[runner] = incarnation
                if incarnation != known or lost_since is not None:
                    self._recreated(runner)
                return answer
            except RayTaskError as error:
                raise error.cause from error
            except GetTimeoutError as error:
                hung += 1
                forget()
                self._count(runner, ENV_RUNNERS_HUNG, f"gave no answer for {time_limit:g} s")
                if hung > self.config.max_env_failures_in_a_row or not self._restarts:
                    raise TimeoutError(
                        f"Env runner {runner} gave no answer for {time_limit:g} s, {hung} times in "
                        "a row: its environment hangs, or `env_hang_timeout_s` is too short for "
                        "`rollout_fragment_length` steps of its lanes."
                    ) from error
                ray.kill(self.actors()[runner], no_restart=False)
                lost_since = time.monotonic()
            except RayError as error:
                forget()
                if lost_since is None:
                    lost_since = time.monotonic()
                    self._count(runner, ENV_RUNNERS_LOST, "was lost")
                patience = self.config.env_runner_lost_timeout_s
                if not self._restarts or time.monotonic() - lost_since > patience:
                    raise TimeoutError(
                        f"Env runner {runner} was lost and not rebuilt within {patience:g} s "
                        "(`env_runner_lost_timeout_s`; `restart_failed_env_runners` is "
                        f"{self._restarts}): is there a free CPU for it on the cluster, and does "
                        "its process start?"
                    ) from error
                if isinstance(error, RayActorError):
                    time.sleep(_SECONDS_BETWEEN_RETRIES)

    @property
    def _restarts(self) -> bool:
        return self.config.restart_failed_env_runners

    def _count(self, runner: int, event: str, what: str) -> None:
        self.events[event] += 1
        logger.warning(
            "Env runner %d %s: it is rebuilt and does its current work again; the weights come "
            "out the same.",
            runner,
            what,
        )
