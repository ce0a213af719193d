"""One thread for torch and BLAS wherever the learner runs.

The number of BLAS threads changes the last bits of a float32 matrix product from 100 rows on, so
it would change the learned weights; for networks this small one thread is also the fastest.
"""

from __future__ import annotations

import torch
from threadpoolctl import threadpool_limits


def use_one_thread() -> None:
    """Pins torch and the BLAS libraries of this process to one thread."""
    torch.set_num_threads(1)
    threadpool_limits(1)
