"""Runs an update over chunks of locksteps as one compiled program.

Parameters, optimizer states and memory stay with XLA; torch gets them when somebody looks.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import torch
from jax import numpy as jnp

from rllib_geoffpac.updates.backend import Backend, Chunk, Memory, Report, Update
from rllib_geoffpac.updates.xla.networks import State
from rllib_geoffpac.updates.xla.optimizers import OptimizerState, flat, split
from rllib_geoffpac.updates.xla.program import Program, Rows, shared
from rllib_geoffpac.updates.xla.structure import average_parameters, structure_of, target_parameters

if TYPE_CHECKING:
    from ray.rllib.core.rl_module.torch import TorchRLModule


class XlaBackend(Backend):
    """Runs an update on the default networks, compiled.

    Args:
        update: The update.
        module: A module that `structure_of` knows.
        optimizers: By the names of the functions.
        grad_clip: Bound of each function's gradient; None: no bound.
        memory: The update's memory at the start.
        chunk_size: Rows of a chunk; the fewer, the smaller are the arrays for short fragments.
        grad_clip_by: What `grad_clip` bounds, see `Descent`.
    """

    name = "fast"

    def __init__(
        self,
        update: Update,
        module: TorchRLModule,
        optimizers: dict[str, torch.optim.Optimizer],
        grad_clip: float | None,
        memory: Memory,
        chunk_size: int,
        grad_clip_by: str = "global_norm",
    ):
        super().__init__(update)
        self.module, self.chunk_size = module, chunk_size
        self.optimizers = {name: OptimizerState(o) for name, o in optimizers.items()}
        self._grad_clip = grad_clip
        first = next(iter(optimizers.values())).param_groups[0]["params"][0]
        self.dtype = np.dtype(str(first.dtype).removeprefix("torch."))
        self._state: State | None = None
        """None: the torch module holds the current state."""
        self._stored = True
        self._memory: Memory = None
        _use_compilation_cache()
        structure = structure_of(module, optimizers, grad_clip, grad_clip_by)
        self.program = shared(Program(update, structure, chunk_size))
        self._names = {id(p): name for name, p in module.named_parameters()}
        self.set_memory(memory)

    def run(self, chunk: Chunk, learn: bool) -> Report:
        with self._context():
            self._take_over()
            names, rows, look = self._arrays(chunk, learn)
            self._state, self._memory, steps, summary = self.program.run(
                names, self._state, self._memory, rows, look
            )
        self._stored = False
        if not learn:
            steps = {n: values for n, values in steps.items() if n not in self.update.losses}
        return Report(steps, summary, chunk.length)

    def sum_terms(self, chunk: Chunk) -> np.ndarray:
        # Summed with 64 bits, so that it does not matter where a chunk ends.
        with self._context(), jax.enable_x64(True):
            self._take_over()
            names, rows, _ = self._arrays(chunk, learn=False)
            self._memory, total = self.program.sum_terms(names, self._state, self._memory, rows)
            return np.asarray(total, np.float64)

    # To and from numpy and torch ---------------------------------------------------------------

    def _arrays(self, chunk: Chunk, learn: bool) -> tuple[tuple[str, ...], Rows, Any]:
        """The names of the numbers, a full chunk of rows, and what is looked at."""

        def pad(array: np.ndarray) -> np.ndarray:
            array = self._convert(array)
            if len(array) == self.chunk_size:
                return array
            padded = np.zeros((self.chunk_size, *array.shape[1:]), array.dtype)
            padded[: len(array)] = array
            return padded

        # One array for all numbers: taking a row out of each would cost more than computing.
        numbers = np.stack(list(chunk.inputs.numbers.values()), axis=1)
        inputs = jax.tree.map(pad, chunk.inputs._replace(numbers=numbers))
        rows = Rows(inputs, self._rates(learn), np.int32(chunk.length))
        return tuple(chunk.inputs.numbers), rows, jax.tree.map(self._convert, chunk.look)

    def _convert(self, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind == "f" or array.dtype == np.uint8:  # bytes are observations
            return np.ascontiguousarray(array, self.dtype)
        return np.ascontiguousarray(array, bool if array.dtype == bool else np.int32)

    def _rates(self, learn: bool) -> dict[str, np.ndarray]:
        numbers = {f"lr/{n}": o.learning_rate for n, o in self.optimizers.items()}
        numbers["learn"] = float(learn)
        if self._grad_clip is not None:
            numbers["grad_clip"] = self._grad_clip
        return {name: np.asarray(number, self.dtype) for name, number in numbers.items()}

    def _take_over(self) -> None:
        if self._state is not None:
            return
        optimizers = self.optimizers
        state = State(
            {n: flat(o.parameters) for n, o in optimizers.items()},
            {n: flat(own) for n, own in target_parameters(self.module).items()},
            {n: o.get(self.dtype) for n, o in optimizers.items()},
            {n: flat(own) for n, own in average_parameters(self.module).items()},
        )
        self._state = jax.tree.map(jnp.array, state)

    def store(self) -> None:
        if self._stored or self._state is None:
            return
        state: State = jax.device_get(self._state)
        with torch.no_grad():
            for name, optimizer in self.optimizers.items():
                _copy(optimizer.parameters, state.parameters[name])
                optimizer.set(state.slots[name])
            for name, own in target_parameters(self.module).items():
                _copy(own, state.targets[name])
            for name, own in average_parameters(self.module).items():
                _copy(own, state.averages[name])
        self._stored = True

    def hand_over(self) -> None:
        self.store()
        self._state = None

    def get_memory(self) -> Memory:
        return jax.tree.map(np.array, jax.device_get(self._memory))

    def set_memory(self, memory: Memory) -> None:
        with self._context():
            self._memory = jax.tree.map(lambda x: jnp.array(x, self.dtype), memory)

    def named_parameters(self) -> dict[str, np.ndarray]:
        if self._state is None:
            return {n: p.detach().numpy() for n, p in self.module.state_dict().items()}
        state: State = jax.device_get(self._state._replace(slots={}))
        pairs = [
            ({n: o.parameters for n, o in self.optimizers.items()}, state.parameters),
            (target_parameters(self.module), state.targets),
            (average_parameters(self.module), state.averages),
        ]
        return {
            self._names[id(parameter)]: value
            for modules, arrays in pairs
            for name in modules
            for parameter, value in zip(
                modules[name], split(arrays[name], modules[name]), strict=True
            )
        }

    def snapshot(self) -> Any:
        with self._context():
            self._take_over()
        return self._state, self._memory  # No program writes into its inputs.

    def roll_back(self, snapshot: Any) -> None:
        self._state, self._memory = snapshot
        self._stored = False

    @contextlib.contextmanager
    def _context(self) -> Iterator[None]:
        """On the CPU, whatever else there is, and with 64 bits where they are asked for."""
        with (
            jax.default_device(jax.devices("cpu")[0]),
            jax.enable_x64(self.dtype == np.float64),
        ):
            yield


def _copy(parameters: list[torch.nn.Parameter], values: np.ndarray) -> None:
    for parameter, value in zip(parameters, split(values, parameters), strict=True):
        parameter.copy_(torch.tensor(value))


def _use_compilation_cache() -> None:
    """Compiled programs are kept on disk, unless the user has said where or that they are not."""
    values = jax.config.values
    if values["jax_compilation_cache_dir"] is None and values["jax_enable_compilation_cache"]:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(home, "rllib_geoffpac", "xla")
        with contextlib.suppress(OSError):  # A read-only home costs the compilation, no more.
            folder.mkdir(parents=True, exist_ok=True)
            jax.config.update("jax_compilation_cache_dir", str(folder))
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
