"""One-dimensional policies by numerical integration, for what is computed in closed form elsewhere.

A policy is known here by an unnormalised log density alone, log w(x; theta). Everything else is
integrated (double exponential quadrature) or differentiated (differences of the sixth order):

    p = w / Z                  score = grad_theta log w - E[grad_theta log w]
    F(x)                       dx/dtheta at fixed u = F(x):  -(dF/dtheta) / p(x)
    E[f(X)]                    grad_theta E[f(X)] = E[f(X) score(X)]

so no erf, no gamma function, no digamma can hide a mistake. Float64; good to about 1e-10.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np


class Points:
    """Points of [low, high], known by their distances from both bounds.

    Near a bound the distance has all its digits, where the difference of x and the bound has not.
    """

    def __init__(self, below: np.ndarray, above: np.ndarray, low: float):
        self.below = below  # x - low
        self.above = above  # high - x
        self.x = low + below


class PolicyOracle:
    """A distribution on [low, high] with two parameters.

    Args:
        log_weight: log w(points, *parameters), finite inside of the bounds.
        parameters: the two numbers.
        low: lower bound.
        high: upper bound.
        center: about where the mass is.
        width: about how wide it is: quadrature looks closely at some widths around the center.
    """

    def __init__(
        self,
        log_weight: Callable[..., np.ndarray],
        parameters: Sequence[float],
        *,
        low: float,
        high: float,
        center: float,
        width: float,
    ):
        self.log_weight = log_weight
        self.parameters = [float(parameter) for parameter in parameters]
        self.low, self.high = low, high
        steps = np.array([0.0, 1, 2, 4, 7, 12, 20, 40, 80])
        cuts = np.unique(center + width * np.concatenate([-steps, steps]))
        self.cuts = [cut for cut in cuts if low < cut < high]
        # The peak of log w keeps w from under- and overflowing.
        self.peak = max(float(self._log_weight(self.at(cut))) for cut in self.cuts)

    def at(self, x: float) -> Points:
        """One point."""
        x = np.asarray(x, dtype=np.float64)
        return Points(x - self.low, self.high - x, self.low)

    def density(self, x: float) -> float:
        """p(x)."""
        return float(np.exp(self.log_density(x)))

    def log_density(self, x: float) -> float:
        """log p(x)."""
        return float(self._log_weight(self.at(x)) - self.peak - np.log(self._mass))

    def distribution(self, x: float) -> float:
        """F(x), the mass below x."""
        return self._integral(self._weight, self.low, x) / self._mass

    def score(self, x: float) -> np.ndarray:
        """grad_theta log p(x) [2]."""
        return np.array([float(self._score(self.at(x), k)) for k in range(2)])

    def sample_gradient(self, x: float) -> np.ndarray:
        """dx / dtheta [2] of the sample x = F^{-1}(u): -(dF(x) / dtheta) / p(x).

        The score integrates to 0, so the integral over the smaller side is taken.
        """
        left = self.distribution(x) < 0.5
        low, high, sign = (self.low, x, -1) if left else (x, self.high, 1)
        weight = float(self._weight(self.at(x)))
        return (
            np.array(
                [
                    sign
                    * self._integral(lambda p, k=k: self._score(p, k) * self._weight(p), low, high)
                    for k in range(2)
                ]
            )
            / weight
        )

    def expectation(self, function: Callable) -> float:
        """E[f(X)]."""
        return self._integral(lambda p: function(p.x) * self._weight(p)) / self._mass

    def expectation_gradient(self, function: Callable) -> np.ndarray:
        """grad_theta E[f(X)] [2]; f is centred first, which changes nothing but rounding."""
        mean = self.expectation(function)

        def integrand(points: Points, k: int) -> np.ndarray:
            return (function(points.x) - mean) * self._score(points, k) * self._weight(points)

        gradient = [self._integral(lambda p, k=k: integrand(p, k)) for k in range(2)]
        return np.array(gradient) / self._mass

    @cached_property
    def _mass(self) -> float:
        return self._integral(self._weight)

    @cached_property
    def _mean_slopes(self) -> list[float]:
        """E[d log w / d theta_k]."""
        return [
            self._integral(lambda p, k=k: self._slope(p, k) * self._weight(p)) / self._mass
            for k in range(2)
        ]

    def _log_weight(self, points: Points) -> np.ndarray:
        return self.log_weight(points, *self.parameters)

    def _weight(self, points: Points) -> np.ndarray:
        return np.exp(self._log_weight(points) - self.peak)

    def _slope(self, points: Points, k: int) -> np.ndarray:
        """d log w / d theta_k."""
        theta = list(self.parameters)
        step = 2e-3 * (abs(theta[k]) or 1.0)
        total = np.zeros_like(points.x)
        for distance, factor in ((1, 45), (2, -9), (3, 1)):
            for sign in (1, -1):
                theta[k] = self.parameters[k] + sign * distance * step
                total = total + sign * factor * self.log_weight(points, *theta)
        return total / (60 * step)

    def _score(self, points: Points, k: int) -> np.ndarray:
        return self._slope(points, k) - self._mean_slopes[k]

    def _integral(
        self, function: Callable, low: float | None = None, high: float | None = None
    ) -> float:
        low = self.low if low is None else float(low)
        high = self.high if high is None else float(high)
        cuts = [low, *(cut for cut in self.cuts if low < cut < high), high]
        return sum(self._panel(function, *ends) for ends in itertools.pairwise(cuts))

    def _panel(self, function: Callable, low: float, high: float) -> float:
        """Tanh-sinh quadrature: exponents at the ends (x^0.3, log x) do no harm."""
        y = np.linspace(-4, 4, 161)
        half_exponent = np.pi / 2 * np.sinh(y)
        lower, upper = (1 / (1 + np.exp(sign * 2 * half_exponent)) for sign in (-1, 1))
        weight = np.pi * np.cosh(y) * lower * upper * (y[1] - y[0])
        width = high - low
        points = Points(
            (low - self.low) + width * lower, (self.high - high) + width * upper, self.low
        )
        return float(width * (weight * function(points)).sum())


def truncated_gaussian(mean: float, std: float) -> PolicyOracle:
    """N(mean, std) on the box [-1, 1]; parameters mean and std."""

    def log_weight(points, mean, std):
        return -(((points.x - mean) / std) ** 2) / 2

    width = min(std, 0.5)
    # A mean on a bound has its mass on one side.
    center = float(np.clip(mean, width - 1, 1 - width))
    return PolicyOracle(log_weight, (mean, std), low=-1, high=1, center=center, width=width)


def beta(alpha: float, beta: float) -> PolicyOracle:
    """Beta(alpha, beta) on [0, 1]; parameters alpha and beta."""

    def log_weight(points, alpha, beta):
        return (alpha - 1) * np.log(points.below) + (beta - 1) * np.log(points.above)

    total = alpha + beta
    width = np.sqrt(alpha * beta / (total + 1)) / total
    return PolicyOracle(log_weight, (alpha, beta), low=0, high=1, center=alpha / total, width=width)
