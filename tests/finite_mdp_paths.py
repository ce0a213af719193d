"""All paths of a few transitions through a finite MDP: expectations by enumeration, no sampling.

An estimator that looks at n transitions has as its expectation in the stationary chain the sum over
all paths of n transitions, each weighted by its probability. The pure functions of
`rllib_geoffpac.maths` run on these paths as on data; what they average to is exact to rounding.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from rllib_geoffpac.maths.finite_mdp import FiniteMDP


class Paths(NamedTuple):
    """K paths of n transitions, time-major like data; column k has `probability[k]`."""

    states: np.ndarray  # [n + 1, K]
    actions: np.ndarray  # [n, K]
    rewards: np.ndarray  # [n, K]
    discounts: np.ndarray  # [n, K]
    probability: np.ndarray  # [K]

    def mean(self, samples: np.ndarray) -> np.ndarray:
        """Expectation of `samples` [K, ...]."""
        return np.tensordot(self.probability, samples, axes=1)


def paths(mdp: FiniteMDP, length: int) -> Paths:
    """Every path of `length` transitions under mu, from the stationary distribution d_mu."""
    axes = [range(mdp.num_states)] + [range(mdp.num_actions), range(mdp.num_states)] * length
    steps = np.array(list(itertools.product(*axes))).T
    states, actions = steps[::2], steps[1::2]
    here = (states[:-1], actions, states[1:])
    chances = mdp.behavior[here[:2]] * mdp.transitions[here]
    probability = mdp.behavior_distribution()[states[0]] * chances.prod(axis=0)
    possible = probability > 0
    states, actions = states[:, possible], actions[:, possible]
    here = (states[:-1], actions, states[1:])
    return Paths(states, actions, mdp.rewards[here], mdp.discounts[here], probability[possible])
