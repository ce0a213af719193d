"""Measures the expected policy gradient of a frozen algorithm, through the code that learns."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rllib_geoffpac.lanes.fragments import Fragment
from rllib_geoffpac.updates.lockstep import Memory

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.core.learner import Learner

# As few and as long stretches of time as give so many samples: a standard error from fewer is
# itself too noisy, one from short stretches ignores that the traces remember.
_MIN_SAMPLES = 30


class PolicyGradientEstimate(NamedTuple):
    """Averages of Z1 and Z2 over time and lanes, P policy parameters.

    Attributes:
        z1: [P] mean of Z1_t = rho_t M1_t delta_t grad log pi(A_t|S_t).
        z2: [P] mean of Z2_t = gamma_hat i(S_t) V(S_t) M2_t; zeros where the second term is unused.
        z1_stderr: [P] standard error of `z1`.
        z2_stderr: [P] standard error of `z2`.
        num_samples: How many batch means the standard errors come from.
    """

    z1: np.ndarray
    z2: np.ndarray
    z1_stderr: np.ndarray
    z2_stderr: np.ndarray
    num_samples: int


def policy_gradient(
    algo: Algorithm, num_locksteps: int, *, burn_in: int = 100
) -> PolicyGradientEstimate:
    """Averages Z1 and Z2 over the next locksteps, with all parameters frozen.

    The transitions come from the algorithm's real env runners and pass its real connectors and
    learner (local or remote), from where the lanes and traces stand. Nothing is left behind:
    weights, optimizers and replay ring are not touched; the traces, the running moments of V and
    the lanes' position are put back, so the algorithm goes on training as if it had not been
    probed (its env runners simulate their current episodes again).

    The standard errors are those of batch means: time is cut into as few equal stretches as give at
    least 30 samples, one per lane and stretch, and these are taken as independent. With 30 lanes
    and more a whole lane is one sample, which the traces' memory can't bias; with fewer, a stretch
    should be much longer than that memory, about 1 / (1 - gamma) locksteps.

    Args:
        algo: A built GeoffPAC, ACE or OffPAC.
        num_locksteps: Locksteps to average over (transitions of every lane); a remainder that does
            not fill the last stretch is left out.
        burn_in: Locksteps before them that are only passed through: the traces must forget the
            parameters that they were built with.

    Example:
        >>> from rllib_geoffpac import GeoffPACConfig
        >>> algo = GeoffPACConfig().environment("TwoCircle-v0").build_algo()  # doctest: +SKIP
        >>> policy_gradient(algo, 10_000).z2  # doctest: +SKIP
    """
    num_stretches = -(-_MIN_SAMPLES // algo.config.num_lanes)
    if num_locksteps < num_stretches:
        raise ValueError(
            f"`num_locksteps` is {num_locksteps!r}; at least {num_stretches} are needed for a "
            "standard error, and far more for a good one."
        )
    if burn_in < 0:
        raise ValueError(f"`burn_in` is {burn_in!r}; allowed is a whole number >= 0.")
    anchor, digest = algo.stream.anchor, algo.weights_digest()
    memory = algo.on_learner(_get_memory)
    observed = None if algo.observer is None else copy.deepcopy(algo.observer.get_progress())
    try:
        # Fragments under way were cut for training: they end in other places.
        algo.stream.restart_from(anchor)
        stretches = [burn_in] + [num_locksteps // num_stretches] * num_stretches
        sums = [_sum_over(algo, stretches[index:]) for index in range(len(stretches))]
    finally:
        algo.stream.restart_from(anchor)
        algo.on_learner(partial(_set_memory, memory))
        if observed is not None:
            algo.observer.set_progress(observed)
    assert algo.weights_digest() == digest, "the probe has changed the weights"
    samples = np.concatenate(sums[1:], axis=1) / stretches[1]  # [2, samples, P]
    z1, z2 = samples.mean(axis=1)
    z1_stderr, z2_stderr = samples.std(axis=1, ddof=1) / np.sqrt(samples.shape[1])
    return PolicyGradientEstimate(z1, z2, z1_stderr, z2_stderr, samples.shape[1])


def _sum_over(algo: Algorithm, stretches: list[int]) -> np.ndarray:
    """Sums Z1 and Z2 over the first of the stretches that are left: [2, L, P]."""
    total: Any = 0.0
    end = algo.stream.anchor.lockstep + stretches[0]
    while (left := end - algo.stream.anchor.lockstep) > 0:
        fragments = algo.stream.next(
            _lengths([left, *stretches[1:]], algo.config.rollout_fragment_length)
        )
        total = total + algo.on_learner(partial(_sums, algo.seen(fragments)))
    return total


def _lengths(stretches: list[int], longest: int) -> Iterator[int]:
    """Lengths of the next fragments, such that none reaches over the end of a stretch."""
    for stretch in stretches:
        full, rest = divmod(stretch, longest)
        yield from [longest] * full + [rest] * (rest > 0)
    while True:  # Simulated ahead for nobody.
        yield 1


def _sums(fragments: list[Fragment], learner: Learner) -> np.ndarray:
    return learner.sum_policy_gradient_terms(fragments)


def _get_memory(learner: Learner) -> tuple[Memory, Any]:
    return learner.get_memory(), learner.recent


def _set_memory(memory: tuple[Memory, Any], learner: Learner) -> None:
    traces, learner.recent = memory
    learner.set_memory(traces)
