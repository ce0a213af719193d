"""Running moments of V: the baseline b and the scale of the overlap force in Z2."""

from __future__ import annotations

import math


class RunningMoments:
    """Exponentially weighted mean and standard deviation of V over the visited states.

    E[M2] = 0, so any state-independent b may be subtracted from V in Z2 (see README, 'Differences
    from the paper'). The moments of the locksteps before this one are independent of its sample.

    Args:
        decay: Weight of the past in one lockstep's update.
    """

    def __init__(self, decay: float):
        self.decay = decay
        self.weight = self.first = self.second = 0.0

    def update(self, mean: float, mean_square: float) -> None:
        """Takes in the mean of V and of V^2 over one lockstep's lanes."""
        self.weight = self.decay * self.weight + (1 - self.decay)
        self.first = self.decay * self.first + (1 - self.decay) * mean
        self.second = self.decay * self.second + (1 - self.decay) * mean_square

    @property
    def mean(self) -> float:
        """The running mean; 0 before the first update."""
        return self.first / self.weight if self.weight else 0.0

    @property
    def std(self) -> float:
        """The running standard deviation; 0 before the first update."""
        if not self.weight:
            return 0.0
        return math.sqrt(max(self.second / self.weight - self.mean**2, 0.0))

    def get_state(self) -> dict[str, float]:
        """Returns the three accumulators."""
        return {"weight": self.weight, "first": self.first, "second": self.second}

    def set_state(self, state: dict[str, float]) -> None:
        """Restores the three accumulators."""
        self.weight, self.first, self.second = state["weight"], state["first"], state["second"]
