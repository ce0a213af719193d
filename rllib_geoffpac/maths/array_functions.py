"""The few functions that numpy, torch and JAX keep in different places, for `beta` and the like."""

from __future__ import annotations

import importlib
from typing import Any

Array = Any
"""A numpy array, a torch tensor or a JAX array; the functions return what they are given."""


def namespace(array: Array) -> Any:
    """The library of an array: `numpy`, `torch` or `jax.numpy`."""
    find = getattr(array, "__array_namespace__", None)
    # torch has not taken up the protocol of the array API standard.
    return importlib.import_module("torch") if find is None else find()


def special(array: Array) -> Any:
    """Where the library of an array keeps `erf`, `erfinv`, `gammaln` and `digamma`."""
    modules = {"numpy": "scipy.special", "torch": "torch.special"}
    return importlib.import_module(modules.get(namespace(array).__name__, "jax.scipy.special"))


def constant(values: Any, like: Array) -> Array:
    """`values` (numpy) as an array of the library, dtype and device of `like`."""
    if hasattr(like, "new_tensor"):
        return like.new_tensor(values)
    return namespace(like).asarray(values, dtype=like.dtype)


def stop_gradient(array: Array) -> Array:
    """The same numbers, which no derivative flows through."""
    if hasattr(array, "detach"):
        return array.detach()
    if namespace(array).__name__ == "numpy":
        return array
    return importlib.import_module("jax").lax.stop_gradient(array)


def softplus(x: Array) -> Array:
    """log(1 + e^x), without overflow."""
    library = namespace(x)
    return library.logaddexp(x, library.zeros_like(x))
