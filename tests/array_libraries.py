"""The three array libraries that the equations are written for, as parameters of a test."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np
import pytest
import torch


def _jax(array: np.ndarray):
    """float32 unless the process has switched on JAX's 64 bits."""
    return pytest.importorskip("jax.numpy").asarray(array)


CONVERT: dict[str, Callable] = {"numpy": np.asarray, "torch": torch.as_tensor, "jax": _jax}

every_library = pytest.mark.parametrize("library", CONVERT)


def tolerance(library: str) -> float:
    """How far float64 numpy and the library may be apart."""
    if library == "jax" and not importlib.import_module("jax").config.jax_enable_x64:
        return 1e-5
    return 1e-12


def assert_same(library: str, function: Callable, *arrays: np.ndarray, **numbers) -> None:
    """The function gives with arrays of the library what it gives with numpy, and of its kind."""
    convert = CONVERT[library]
    expected = function(*arrays, **numbers)
    measured = function(*(convert(array) for array in arrays), **numbers)
    kind = type(convert(np.zeros(1)))
    if not isinstance(expected, (list, tuple)):
        expected, measured = [expected], [measured]
    for wanted, got in zip(expected, measured, strict=True):
        assert isinstance(got, (kind, np.floating)) and (kind is np.ndarray or type(got) is kind)
        limit = tolerance(library)
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=limit, atol=limit)
