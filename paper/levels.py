"""What to compare the algorithms with: agents that learn nothing, the pictures' level lines."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from paper.places import DATA
from rllib_geoffpac.maths.value import monte_carlo_values

RANDOM = "random agent"
FALLING_TASKS = ["Hopper-v5", "Walker2d-v5"]
"""Here a body earns 1 a step for not having fallen, and its episode ends when it falls."""
TIME_LIMIT = 1000
GAMMA = 0.99
Levels = dict[str, pd.DataFrame]
"""Name -> ``j_pi``, ``return`` and ``episodes``; one row per task, the index."""


def read(folder: Path = DATA) -> Levels:
    """The measured agents, and what a body earns that just stands."""
    return {
        RANDOM: pd.read_csv(folder / "random_agent.csv", index_col="task"),
        "zero action": pd.read_csv(folder / "zero_action.csv", index_col="task"),
        "standing still": standing_still(),
    }


def standing_still() -> pd.DataFrame:
    """J_pi and return of standing still to the time limit: 1 a step, no motion, no control cost.

    This is exact. To take the zero action is not enough for it: without a motor the bodies fall.
    """
    values = monte_carlo_values([1.0] * TIME_LIMIT, [GAMMA] * TIME_LIMIT)
    row = {"j_pi": float(values.mean()), "return": float(TIME_LIMIT)}
    return pd.DataFrame(row, index=pd.Index(FALLING_TASKS, name="task"))
