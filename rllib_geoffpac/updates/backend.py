"""What a learner asks of a backend: to run an update over chunks of locksteps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import tree

from rllib_geoffpac.updates.networks import Networks

Memory = Any
"""What an update remembers between two calls beside the networks: a NamedTuple of arrays."""


class Update(Protocol):
    """One step of an algorithm."""

    @property
    def losses(self) -> tuple[str, ...]:
        """What is reported only where something is learned."""
        ...

    def __call__(
        self, networks: Networks, memory: Memory, inputs: Any, *, learn: bool
    ) -> tuple[Memory, dict[str, Any]]:
        """Returns the memory for the next step, and scalars to report."""
        ...

    def summary(self, networks: Networks, memory: Memory, look: Any) -> dict[str, Any]:
        """Scalars to report once after a chunk; `look` is the chunk's."""
        ...


class ProbedUpdate(Update, Protocol):
    """One step of an algorithm whose policy gradient has the terms Z1 and Z2."""

    def advance(self, networks: Networks, memory: Memory, inputs: Any) -> tuple[Memory, Any, Any]:
        """One step that learns nothing; returns the memory, the terms and what to report."""
        ...


class Chunk(NamedTuple):
    """Some consecutive steps, as numpy arrays whose first axis is time.

    Attributes:
        inputs: The update's inputs, every array [T, ...].
        length: T.
        look: What the update's `summary` looks at after the last step; None: nothing.
    """

    inputs: Any
    length: int
    look: Any = None

    def row(self, t: int) -> Any:
        """The inputs of one step; what has one number per step becomes a Python number."""

        def pick(array: Any) -> Any:
            if array is None:
                return None
            return array[t].item() if array.ndim == 1 else array[t]

        return tree.map_structure(pick, self.inputs)


class Report(NamedTuple):
    """What an update says of a chunk; the arrays may still be under way.

    Attributes:
        steps: By name, one number per step; there may be more of them than steps.
        summary: By name, one number.
        length: How many steps there were.
    """

    steps: dict[str, Any]
    summary: dict[str, Any]
    length: int

    def of_steps(self) -> dict[str, np.ndarray]:
        """The numbers of the steps, [T] each; waits for them."""
        return {name: np.asarray(values)[: self.length] for name, values in self.steps.items()}

    def of_chunk(self) -> dict[str, float]:
        """The numbers of the whole chunk; waits for them."""
        return {name: float(value) for name, value in self.summary.items()}


class Backend(ABC):
    """Owns the networks' parameters, their optimizers and the update's memory while it runs.

    The torch module and its optimizers are what checkpoints, evaluation and the user look at. A
    backend that computes elsewhere brings them up to date in `store`, and takes over what others
    may have changed in them after `hand_over`.

    Attributes:
        name: As in the config key `kernel`.
    """

    name: str

    def __init__(self, update: Update):
        self.update = update

    @property
    def probed(self) -> ProbedUpdate:
        """The update, of an algorithm that can be probed."""
        return cast(ProbedUpdate, self.update)

    @abstractmethod
    def run(self, chunk: Chunk, learn: bool) -> Report:
        """Runs the update over a chunk."""

    @abstractmethod
    def sum_terms(self, chunk: Chunk) -> np.ndarray:
        """Sums Z1 and Z2 over a chunk, advancing the traces, learning nothing: [2, L, P]."""

    @abstractmethod
    def named_parameters(self) -> dict[str, np.ndarray]:
        """All parameters by their names in the module's state; not to be written to."""

    def is_finite(self) -> bool:
        """Whether all parameters are finite."""
        return all(bool(np.isfinite(p).all()) for p in self.named_parameters().values())

    @abstractmethod
    def snapshot(self) -> Any:
        """Parameters, optimizers and memory as they are, for `roll_back`."""

    @abstractmethod
    def roll_back(self, snapshot: Any) -> None:
        """Puts all of a `snapshot` back."""

    @abstractmethod
    def get_memory(self) -> Memory:
        """The update's memory, as numpy arrays."""

    @abstractmethod
    def set_memory(self, memory: Memory) -> None:
        """Puts the update's memory in place, from numpy arrays."""

    @abstractmethod
    def store(self) -> None:
        """Brings the torch module and the optimizers up to date."""

    @abstractmethod
    def hand_over(self) -> None:
        """As `store`; and before the next run, what they hold then is taken over."""
