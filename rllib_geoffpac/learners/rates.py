"""The learning rates of a learner's optimizers: fixed, scheduled by env steps, or by torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from rllib_geoffpac.maths.schedules import is_schedule, piecewise_linear

Optimizer = torch.optim.Optimizer


class LearningRates:
    """What every optimizer's rate is at a lockstep.

    A schedule is followed lockstep by lockstep, so that it does not matter how the data were cut.
    A fixed rate is the one that the optimizer holds.
    """

    def __init__(self) -> None:
        self._optimizers: dict[str, Optimizer] = {}
        self._given: dict[str, Any] = {}
        self._torch_schedulers: dict[str, list[Any]] = {}

    def register(self, name: str, optimizer: Optimizer, given: Any) -> None:
        """Takes note of an optimizer and of the rate, or schedule, that it was registered with."""
        self._optimizers[name], self._given[name] = optimizer, given
        if is_schedule(given):
            set_rate(optimizer, float(piecewise_linear(given, np.array([0]))[0]))

    def schedule_by_torch(self, classes: Iterable[Callable[[Optimizer], Any]]) -> None:
        """Gives every optimizer its own schedulers of torch, instead of any other schedule."""
        classes = list(classes)
        self._torch_schedulers = {
            name: [make(optimizer) for make in classes]
            for name, optimizer in self._optimizers.items()
        }

    @property
    def follow_torch(self) -> bool:
        """Whether schedulers of torch set the rates."""
        return bool(self._torch_schedulers)

    def step(self) -> None:
        """Tells torch's schedulers that an update has been made."""
        for schedulers in self._torch_schedulers.values():
            for scheduler in schedulers:
                scheduler.step()

    def columns(
        self, env_steps: np.ndarray, functions: dict[str, Optimizer]
    ) -> dict[str, np.ndarray]:
        """`lr/<function>` [T] of every function whose optimizer has a schedule.

        Args:
            env_steps: [T].
            functions: The optimizer of each learned function.
        """
        names = {id(optimizer): name for name, optimizer in self._optimizers.items()}
        columns = {}
        for function, optimizer in functions.items():
            given = self._given[names[id(optimizer)]]
            if is_schedule(given) and not self.follow_torch:
                columns[f"lr/{function}"] = rates = piecewise_linear(given, env_steps)
                set_rate(optimizer, float(rates[-1]))  # for those who look at it
        return columns

    def latest(self) -> dict[str, float]:
        """The rate that each optimizer used last, by its name."""
        return {n: float(o.param_groups[0]["lr"]) for n, o in self._optimizers.items()}

    def get_state(self) -> dict[str, list[dict[str, Any]]]:
        """What torch's schedulers remember."""
        return {n: [s.state_dict() for s in own] for n, own in self._torch_schedulers.items()}

    def set_state(self, state: dict[str, list[dict[str, Any]]]) -> None:
        """Puts it back."""
        for name, own in self._torch_schedulers.items():
            for scheduler, saved in zip(own, state.get(name, []), strict=False):
                scheduler.load_state_dict(saved)


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Sets the learning rate of all of an optimizer's parameters."""
    for group in optimizer.param_groups:
        group["lr"] = rate
