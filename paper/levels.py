"""What to compare the algorithms with: agents that learn nothing, the pictures' dashed lines."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from paper.places import DATA


def random_agent(folder: Path = DATA) -> pd.DataFrame:
    """J_pi and return of uniformly random actions; one row per task, the index."""
    return pd.read_csv(folder / "random_agent.csv", index_col="task")
