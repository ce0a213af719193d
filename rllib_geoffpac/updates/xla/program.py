"""What is compiled: an update as one loop over the rows of a chunk.

A chunk has a fixed size, and the first `count` of its rows are real: how the data were cut into
fragments can't change what is computed. A program holds nothing of the learner that it was made
for: learners of equal structure share one, so that a process traces and compiles it once.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import gymnasium as gym
import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from rllib_geoffpac.maths.arrays import Array
from rllib_geoffpac.updates.backend import Memory, ProbedUpdate, Update
from rllib_geoffpac.updates.xla.networks import State, Structure, XlaNetworks

# One thread: a learner is one process among many, and the programs are too small to be shared.
_COMPILER_OPTIONS = {
    "xla_cpu_multi_thread_eigen": False,
    "xla_cpu_enable_concurrency_optimized_scheduler": False,
}
_MOST_SHARED = 64  # of the programs of a process; some are dropped in a long series of others


class Rows(NamedTuple):
    """What a program is given of a chunk.

    Attributes:
        inputs: The update's inputs, every array [T, ...]; `numbers` is one array [T, n].
        rates: Learning rates and the like; a row's own numbers go before.
        count: How many of the rows are real.
    """

    inputs: Any
    rates: dict[str, Array]
    count: Array


class Program:
    """An update on networks of a given structure; equal to every program that would do the same.

    Shapes and dtypes are not part of it: JAX compiles it for each that it meets.

    Args:
        update: The update.
        structure: What the networks are.
        chunk_size: Rows of a chunk.
    """

    def __init__(self, update: Update, structure: Structure, chunk_size: int):
        self.update, self.structure, self.chunk_size = update, structure, chunk_size
        self._key = key_of((update, structure, chunk_size))
        jit = partial(jax.jit, static_argnums=0, compiler_options=_COMPILER_OPTIONS)
        self.run, self.sum_terms = jit(self._run), jit(self._sum_terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def _run(
        self, names: tuple[str, ...], state: State, memory: Memory, rows: Rows, look: Any
    ) -> tuple[State, Memory, dict[str, Array], dict[str, Array]]:
        """Learns; returns state, memory, what is reported of every row [T], and the summary.

        Args:
            names: Of the columns of the rows' numbers.
            state: Of the networks.
            memory: Of the update.
            rows: The chunk.
            look: What the summary looks at.
        """

        def step(state: State, memory: Memory, row: Any) -> Any:
            # A learning rate that changes from row to row is one of the row's numbers.
            networks = XlaNetworks(self.structure, state, {**rows.rates, **row.numbers})
            memory, report = self.update(networks, memory, row, learn=True)
            return networks.state, memory, report

        shapes = jax.eval_shape(step, state, memory, _row(names, rows.inputs, 0))[2]
        reports = {n: jnp.zeros(self.chunk_size, leaf.dtype) for n, leaf in shapes.items()}

        def body(t: Array, carry: Any) -> Any:
            state, memory, reports = carry
            state, memory, report = step(state, memory, _row(names, rows.inputs, t))
            reports = {n: values.at[t].set(report[n]) for n, values in reports.items()}
            return state, memory, reports

        state, memory, reports = lax.fori_loop(0, rows.count, body, (state, memory, reports))
        networks = XlaNetworks(self.structure, state, rows.rates)
        return state, memory, reports, self.update.summary(networks, memory, look)

    def _sum_terms(
        self, names: tuple[str, ...], state: State, memory: Memory, rows: Rows
    ) -> tuple[Memory, Array]:
        """Learns nothing; returns the memory and the sums of Z1 and Z2: [2, L, P]."""
        update = cast(ProbedUpdate, self.update)

        def body(t: Array, carry: Any) -> Any:
            memory, total = carry
            networks = XlaNetworks(self.structure, state, rows.rates)
            memory, terms, _ = update.advance(networks, memory, _row(names, rows.inputs, t))
            z1 = terms.z1.per_lane()
            z2 = jnp.zeros_like(z1) if terms.z2 is None else terms.z2.per_lane()
            return memory, total + jnp.stack([z1, z2]).astype(np.float64)

        lanes, size = len(memory.traces.f1), len(state.parameters["pi"])
        start = memory, jnp.zeros((2, lanes, size), np.float64)
        return lax.fori_loop(0, rows.count, body, start)


@lru_cache(maxsize=_MOST_SHARED)
def shared(program: Program) -> Program:
    """The first program of this process that is equal to this one."""
    return program


class _Itself:
    """A value that is equal to itself alone."""

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def key_of(value: Any) -> Any:
    """Something hashable that is equal for values with which the same would be traced.

    Plain data and what this package defines are compared by what they hold, all else is equal to
    itself alone: functions, and a user's update or learning rule.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return kind, value
    if kind is float:
        return kind, value.hex()  # 0.0 and -0.0 are not the same
    if isinstance(value, np.dtype):  # there can be several of one: copies of a space have their own
        return np.dtype, value.str
    if kind is np.ndarray:
        return kind, value.dtype.str, value.shape, value.tobytes()
    if kind is partial:
        return kind, key_of((value.func, value.args, value.keywords))
    if kind is dict:
        return kind, tuple((name, key_of(item)) for name, item in value.items())
    ours = kind.__module__.partition(".")[0] == "rllib_geoffpac"
    if kind in (tuple, list) or (ours and isinstance(value, tuple)):
        return kind, tuple(map(key_of, value))
    if kind in (gym.spaces.Box, gym.spaces.Discrete):
        return kind, key_of({n: v for n, v in vars(value).items() if n != "_np_random"})
    if ours and hasattr(value, "__dict__"):
        return kind, key_of(vars(value))
    return kind, _Itself(value)


def _row(names: tuple[str, ...], inputs: Any, t: Any) -> Any:
    row = jax.tree.map(lambda column: column[t], inputs)
    return row._replace(numbers=dict(zip(names, row.numbers, strict=True)))
