"""The few array operations for which numpy, torch and JAX have no common name.

The equations of this package are written once, for arrays of any of the three libraries: with
operators, with the functions of `namespace(array)` that all of them share (`exp`, `where`,
`tanh`, `minimum`, ...), and with what is here.
"""

from __future__ import annotations

import importlib
import math
from types import ModuleType
from typing import Any

Array = Any
"""A numpy array, a torch tensor or a JAX array; the functions return what they are given."""

_ROOT_HALF = math.sqrt(0.5)


def namespace(array: Array) -> ModuleType:
    """The library of an array: `numpy`, `torch` or `jax.numpy`."""
    find = getattr(array, "__array_namespace__", None)
    # torch has not taken up the protocol of the array API standard.
    return importlib.import_module("torch") if find is None else find()


def special(array: Array) -> ModuleType:
    """Where the library of an array keeps `erf`, `gammaln`, `ndtr`, `ndtri` and the like."""
    library = namespace(array).__name__
    names = {"numpy": "scipy.special", "torch": "torch.special"}
    return importlib.import_module(names.get(library, "jax.scipy.special"))


def zeros(like: Array, shape: tuple[int, ...]) -> Array:
    """Zeros of another shape, with the library, dtype and device of `like`."""
    if hasattr(like, "new_zeros"):
        return like.new_zeros(shape)
    return namespace(like).zeros(shape, dtype=like.dtype)


def constant(values: Any, like: Array) -> Array:
    """`values` (numpy) as an array of the library, dtype and device of `like`."""
    if hasattr(like, "new_tensor"):
        return like.new_tensor(values)
    return namespace(like).asarray(values, dtype=like.dtype)


def as_type(array: Array, like: Array) -> Array:
    """`array` with the dtype of `like`."""
    return array.to(like.dtype) if hasattr(array, "new_zeros") else array.astype(like.dtype)


def stop_gradient(array: Array) -> Array:
    """The same numbers, which no derivative flows through."""
    if hasattr(array, "detach"):
        return array.detach()
    if namespace(array).__name__ == "numpy":
        return array
    return importlib.import_module("jax").lax.stop_gradient(array)


def softplus(x: Array) -> Array:
    """log(1 + e^x), without overflow."""
    xp = namespace(x)
    return xp.logaddexp(x, xp.zeros_like(x))


def log_softmax(logits: Array) -> Array:
    """Log-probabilities over the last axis: [N, n] -> [N, n]."""
    xp = namespace(logits)
    shifted = logits - stop_gradient(xp.amax(logits, -1)[..., None])
    return shifted - xp.log(xp.exp(shifted).sum(-1))[..., None]


def at_index(rows: Array, index: Array) -> Array:
    """Entry `index[i]` of row i: [N, n], [N] -> [N]."""
    xp = namespace(rows)
    columns = xp.arange(rows.shape[-1])
    if hasattr(columns, "to"):
        columns = columns.to(rows.device)
    return xp.where(index[..., None] == columns, rows, xp.zeros_like(rows)).sum(-1)


def one_hot(index: Array, size: int, like: Array) -> Array:
    """Rows of zeros with a one at `index[i]`: [N] -> [N, size], with the dtype of `like`."""
    columns = namespace(index).arange(size)
    if hasattr(columns, "to"):
        columns = columns.to(index.device)
    return as_type(index[..., None] == columns, like)


def normal_mass(low: Array, high: Array) -> Array:
    """Phi(high) - Phi(low) for low <= 0 <= high.

    Both erf terms add up then, so that nothing cancels, however small the interval.
    """
    erf = special(low).erf
    return 0.5 * (erf(high * _ROOT_HALF) - erf(low * _ROOT_HALF))
