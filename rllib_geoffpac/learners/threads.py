"""One thread for torch and BLAS wherever the learner runs.

The number of BLAS threads changes the last bits of a float32 matrix product from 100 rows on, so
it would change the learned weights; for networks this small one thread is also the fastest.
"""

from __future__ import annotations

import ctypes
import logging
from pathlib import Path

import numpy as np
import torch

logger = logging.getLogger(__name__)

_OPENBLAS_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)


def use_one_thread() -> None:
    """Pins torch and numpy's OpenBLAS in this process to one thread."""
    torch.set_num_threads(1)
    pinned = False
    for path in _loaded_libraries("openblas"):
        library = ctypes.CDLL(path)
        for name in _OPENBLAS_SETTERS:
            if hasattr(library, name):
                getattr(library, name)(1)
                pinned = True
                break
    if not pinned:
        logger.info(
            "numpy's BLAS (%s) could not be pinned to one thread; set OMP_NUM_THREADS=1 for "
            "bitwise equal weights on every machine.",
            np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"],
        )


def _loaded_libraries(word: str) -> set[str]:
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return set()
    paths = {line.split(maxsplit=5)[-1] for line in maps.read_text().splitlines() if word in line}
    return {path for path in paths if ".so" in path}
