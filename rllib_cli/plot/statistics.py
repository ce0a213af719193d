"""Summaries over seeds: mean with standard error, interquartile mean with bootstrap interval."""

import numpy as np


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over seeds: [S, N] -> [N], [N]; the error of one seed is 0."""
    mean = values.mean(axis=0)
    if len(values) < 2:
        return mean, np.zeros_like(mean)
    return mean, values.std(axis=0, ddof=1) / np.sqrt(len(values))


def common_grid(curves: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Puts curves of several seeds onto common steps.

    Args:
        curves: ``(steps [N_s], values [N_s])`` of each seed.

    Returns:
        Steps [N] that all seeds reached, and values [S, N] (linear interpolation).
    """
    end = min(steps[-1] for steps, _ in curves)
    start = max(steps[0] for steps, _ in curves)
    grid = np.unique(np.concatenate([steps for steps, _ in curves]))
    grid = grid[(grid >= start) & (grid <= end)]
    return grid, np.stack([np.interp(grid, steps, values) for steps, values in curves])


def interquartile_mean(
    values: np.ndarray, repetitions: int = 2000
) -> tuple[float, float, float] | None:
    """Interquartile mean of final values [S] with a 95 % bootstrap interval, through rliable.

    Returns:
        ``(iqm, low, high)``, or None if rliable is not installed or there are fewer than 3 seeds.
    """
    if len(values) < 3:
        return None
    try:
        from rliable import library, metrics
    except ImportError:
        return None
    scores = {"runs": np.asarray(values, float)[:, None]}
    # rliable ignores its random_state and draws from numpy's global generator.
    state = np.random.get_state()
    np.random.seed(0)
    try:
        points, intervals = library.get_interval_estimates(
            scores, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=repetitions
        )
    finally:
        np.random.set_state(state)
    low, high = intervals["runs"][:, 0]
    return float(points["runs"][0]), float(low), float(high)
