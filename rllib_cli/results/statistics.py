"""Summaries over seeds: mean with standard error, interquartile mean with bootstrap interval."""

from typing import NamedTuple

import numpy as np

# The last tenth of a run is its final performance: one evaluation alone is noise.
FINAL_SHARE = 0.1
INTERVAL_SEEDS = 3
"""From so many seeds on an interquartile mean has an interval: the bootstrap of two says little."""
_RESAMPLES = 10_000
_SEED = 0


class Interval(NamedTuple):
    """Interquartile mean over seeds with its 95 % bootstrap interval."""

    iqm: float
    low: float
    high: float


class PairedDifference(NamedTuple):
    """Mean difference of pairs, its 95 % interval (Student's t) and the p value of no difference.

    The p value is that of the paired permutation test: the share of all ways to swap the two
    members of each pair whose mean difference is at least as large.
    """

    mean: float
    low: float
    high: float
    p: float


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


def final_mean(steps: np.ndarray, values: np.ndarray) -> float:
    """The mean of a curve [N], [N] over the last tenth of its steps."""
    return float(values[steps >= steps[-1] * (1 - FINAL_SHARE)].mean())


def interquartile_mean(values: np.ndarray, resamples: int = _RESAMPLES) -> Interval | None:
    """Interquartile mean of final values [S] with a 95 % bootstrap interval.

    The interquartile mean is the mean of the values without the lowest and the highest quarter
    (``floor(S / 4)`` of them on either side). The interval is the percentile bootstrap's: the S
    values are drawn anew S times with replacement, the interquartile mean of each of the
    `resamples` draws is computed, and the 2.5th and the 97.5th percentile of these are its ends.
    A generator of its own with a fixed seed draws: the same values give the same interval.

    Returns:
        The interval, or None if there are fewer than :data:`INTERVAL_SEEDS` values.
    """
    if len(values) < INTERVAL_SEEDS:
        return None
    # Importing it takes a second, which only those who draw should wait.
    from scipy import stats

    def iqm(sample: np.ndarray, axis: int = -1) -> np.ndarray:
        return stats.trim_mean(sample, 0.25, axis=axis)

    sample = np.asarray(values, float)
    ends = stats.bootstrap(
        (sample,),
        iqm,
        n_resamples=resamples,
        confidence_level=0.95,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return Interval(float(iqm(sample)), float(ends.low), float(ends.high))


def paired_difference(first: np.ndarray, second: np.ndarray) -> PairedDifference | None:
    """Second minus first, pair by pair: [S], [S]; None for fewer than two pairs.

    Up to a dozen pairs every way to swap is tried; of more, a fixed sample of them.
    """
    if len(first) < 2:
        return None
    from scipy import stats

    difference = np.asarray(second, float) - np.asarray(first, float)
    mean = float(difference.mean())
    if not difference.any():
        return PairedDifference(0.0, 0.0, 0.0, 1.0)
    error = stats.sem(difference)
    reach = float(error * stats.t.ppf(0.975, len(difference) - 1))
    test = stats.permutation_test(
        (difference,),
        lambda sample, axis: np.mean(sample, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=_RESAMPLES,
        rng=np.random.default_rng(_SEED),
    )
    return PairedDifference(mean, mean - reach, mean + reach, float(test.pvalue))
