"""Estimates the objectives of a target policy from logged data, and says what they are worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import gymnasium as gym
import numpy as np

from rllib_geoffpac.maths.action_spaces import UnitBox
from rllib_geoffpac.maths.off_policy_evaluation import (
    Data,
    Estimate,
    Fits,
    density_ratio_weighting,
    doubly_robust,
    fitted_q,
    means,
    normalised_weights,
    objective,
    per_decision,
    per_decision_weights,
    reward_mass,
)
from rllib_geoffpac.maths.overlap import overlap
from rllib_geoffpac.maths.tabular_evaluation import fit_tables
from rllib_geoffpac.maths.value import effective_sample_size, importance_ratio
from rllib_geoffpac.maths.weighted_importance_sampling import weighted
from rllib_geoffpac.offline_evaluation.networks import Inputs, fit_networks
from rllib_geoffpac.offline_evaluation.policies import ModulePolicy
from rllib_geoffpac.offline_evaluation.transitions import Transitions

PER_DECISION, WEIGHTED = "per-decision IS", "weighted IS"
FITTED_Q, DENSITY_RATIO, DOUBLY_ROBUST = "fitted Q", "density ratio", "doubly robust"
ESTIMATORS = (PER_DECISION, WEIGHTED, FITTED_Q, DENSITY_RATIO, DOUBLY_ROBUST)

OVERLAP_CLIP = 2.0
"""k of the overlap E_mu[min(rho, k)], the paper's clip of rho."""
LEAST_OVERLAP = 0.1
LEAST_EFFECTIVE = 100.0
"""Effective transitions below which an estimate is not to be trusted."""
LEAST_EPISODES = 10
MASS_ERROR = 0.3
"""How far the weights of importance sampling may be from what they must add up to."""
_MOST_TABLE_ROWS = 2000


@dataclass(frozen=True)
class OfflineEstimate:
    """One estimate of one objective.

    Attributes:
        objective: "j_pi", "j_mu" or "j_gamma_hat".
        estimator: One of `ESTIMATORS`.
        value: The estimate.
        low: Lower end of its confidence interval.
        high: Upper end.
        effective_sample_size: To how many equally weighted transitions the weights of the rewards
            amount; NaN where there are no weights.
        trusted: Whether these are enough, whether nothing contradicts the estimate (the weights of
            importance sampling add up to a known number; fitted values and fitted weights agree
            within the interval), and whether the interval is a number.
    """

    objective: str
    estimator: str
    value: float
    low: float
    high: float
    effective_sample_size: float
    trusted: bool


@dataclass(frozen=True)
class OfflineEvaluation:
    """What logged data say of a policy.

    Attributes:
        estimates: Of every objective by every estimator that is possible.
        gamma: The discount where the data have none of their own.
        gamma_hat: Of `j_gamma_hat`; None: it was not asked for.
        confidence: Of the intervals.
        num_episodes: Whole episodes.
        num_transitions: In them.
        num_left_out: Episodes without an end, which are not in it.
        overlap: E_mu[min(rho, 2)], the mass of pi that the data can speak about; NaN for a policy
            without a density.
        mean_rho: E_mu[rho], which is 1 for the right densities of a policy that the data cover.
        warnings: What keeps the estimates from being trusted, in plain sentences.
    """

    estimates: list[OfflineEstimate]
    gamma: float
    gamma_hat: float | None
    confidence: float
    num_episodes: int
    num_transitions: int
    num_left_out: int
    overlap: float
    mean_rho: float
    warnings: list[str]

    def estimate(self, objective: str, estimator: str) -> OfflineEstimate:
        """The one of these names."""
        return next(
            e for e in self.estimates if (e.objective, e.estimator) == (objective, estimator)
        )


def evaluate_transitions(
    transitions: Transitions,
    policy: ModulePolicy,
    *,
    gamma: float,
    gamma_hat: float | None = None,
    interest_fn: Callable[[np.ndarray], np.ndarray] | None = None,
    confidence: float = 0.95,
    hiddens: Sequence[int] = (64, 64),
    updates: int = 3_000,
    seed: int = 0,
) -> OfflineEvaluation:
    """Estimates J_pi, J_mu and, for a `gamma_hat` between 0 and 1, J_gamma_hat.

    Functions are fitted as tables where observations and actions are Discrete, otherwise as
    networks, anew for each objective.

    Args:
        transitions: The logged data.
        policy: pi.
        gamma: For the record; the discounts are in the data.
        gamma_hat: Degree of counterfactualness; None, 0 or 1 ask for no J_gamma_hat.
        interest_fn: i(s) of J_mu and J_gamma_hat; None is 1. J_pi, the paper's metric, knows none.
        confidence: Of the intervals.
        hiddens: Units of the networks' hidden layers.
        updates: Learning steps of each network.
        seed: Of the networks, their batches and pi's sampled actions.
    """
    size = transitions.episodes.num_transitions
    rho = np.full(size, np.nan)
    if policy.has_density and transitions.behavior_logp is not None:
        logp = policy.log_prob(transitions.observations, transitions.actions)
        rho = importance_ratio(logp, transitions.behavior_logp)
    ones = np.ones(size)
    interest = ones if interest_fn is None else np.asarray(interest_fn(transitions.observations))
    asked = [("j_pi", 1.0, ones), ("j_mu", 0.0, interest.astype(np.float64))]
    if gamma_hat is not None and 0 < gamma_hat < 1:
        asked.append(("j_gamma_hat", gamma_hat, interest.astype(np.float64)))
    fit = _fitter(transitions, policy, hiddens, updates, seed)
    estimates = []
    for name, degree, weight in asked:
        data = Data(transitions.episodes, transitions.rewards, transitions.discounts, rho, weight)
        for estimator, estimate, effective, sound in _estimates(data, degree, fit(data, degree)):
            low, high = estimate.interval(confidence)
            enough = sound and not effective < LEAST_EFFECTIVE
            trusted = bool(enough and np.isfinite([low, high]).all())
            estimates.append(
                OfflineEstimate(name, estimator, estimate.value, low, high, effective, trusted)
            )
    return OfflineEvaluation(
        estimates,
        gamma,
        gamma_hat if len(asked) == 3 else None,
        confidence,
        transitions.episodes.num_episodes,
        size,
        transitions.left_out,
        float(overlap(rho, OVERLAP_CLIP)),
        float(rho.mean()),
        _warnings(transitions, policy, rho, estimates),
    )


def _estimates(data: Data, gamma_hat: float, fits: Fits) -> list[tuple[str, Estimate, float, bool]]:
    """(estimator, estimate, effective sample size, nothing contradicts it) of all that can be."""
    if np.isnan(data.rho).any():
        plug_in = objective(means(fits.u, fits.l, data.episodes), gamma_hat)
        return [(FITTED_Q, plug_in, float("nan"), True)]
    with np.errstate(over="ignore", invalid="ignore"):  # then they are NaN, and not trusted
        weights = per_decision_weights(data, gamma_hat)
        sampled = float(effective_sample_size(weights))
        complete = abs(reward_mass(data, weights) - 1) < MASS_ERROR
        by_ratios = per_decision(data, gamma_hat)
    _, emphasis = normalised_weights(data, fits)
    fitted = float(effective_sample_size(emphasis * data.rho))
    plain, robust = fitted_q(data, gamma_hat, fits), doubly_robust(data, gamma_hat, fits)
    # Both have the same error: a difference beyond it is that of the fits, values or weights.
    consistent = bool(abs(plain.value - robust.value) <= 2 * robust.standard_error)
    return [
        (PER_DECISION, by_ratios, sampled, complete),
        (WEIGHTED, weighted(data, gamma_hat), sampled, complete),
        (FITTED_Q, plain, fitted, consistent),
        (DENSITY_RATIO, density_ratio_weighting(data, gamma_hat, fits), fitted, consistent),
        (DOUBLY_ROBUST, robust, fitted, consistent),
    ]


def _fitter(
    transitions: Transitions,
    policy: ModulePolicy,
    hiddens: Sequence[int],
    updates: int,
    seed: int,
) -> Callable[[Data, float], Fits]:
    """Fits the functions of one objective, as tables or as networks."""
    observations, clock = transitions.observations, transitions.clock()
    actions = policy.distribution.action_space
    discrete = isinstance(actions, gym.spaces.Discrete)
    if discrete and np.issubdtype(observations.dtype, np.integer) and policy.has_density:
        keys = np.stack([observations, transitions.episodes.steps() * (clock is not None)], axis=1)
        _, first, states = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        if len(first) <= _MOST_TABLE_ROWS:
            _, table = policy.candidates(observations[first], np.random.default_rng(seed))
            taken = transitions.actions.reshape(-1) - int(actions.start)
            return lambda data, gamma_hat: fit_tables(
                data, states.reshape(-1), taken, table, gamma_hat
            )
    candidates, chances = policy.candidates(observations, np.random.default_rng(seed))
    encode = _one_hot_of(actions) if discrete else UnitBox(actions).to_unit
    inputs = Inputs(
        _float32(_state_features(observations, clock)),
        _float32(encode(transitions.actions)),
        _float32(encode(candidates)),
        _float32(chances),
        None if clock is None else int(transitions.episodes.lengths.max()),
    )

    def fit(data: Data, gamma_hat: float) -> Fits:
        with_weights = not np.isnan(data.rho).any()
        return fit_networks(
            data,
            inputs,
            gamma_hat,
            hiddens=hiddens,
            updates=updates,
            seed=seed,
            with_weights=with_weights,
        )

    return fit


def _one_hot_of(space: gym.spaces.Discrete) -> Callable[[np.ndarray], np.ndarray]:
    return lambda actions: np.eye(int(space.n))[actions - int(space.start)]


def _state_features(observations: np.ndarray, clock: np.ndarray | None) -> np.ndarray:
    """[N, k] standardised observations (one-hot rows of discrete ones), and the clock."""
    if np.issubdtype(observations.dtype, np.integer) and observations.ndim == 1:
        features = np.eye(int(observations.max()) + 1)[observations]
    else:
        features = observations.reshape(len(observations), -1).astype(np.float64)
        spread = features.std(axis=0)
        features = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return features if clock is None else np.column_stack([features, 2 * clock - 1])


def _float32(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, np.float32)


def _warnings(
    transitions: Transitions,
    policy: ModulePolicy,
    rho: np.ndarray,
    estimates: list[OfflineEstimate],
) -> list[str]:
    found = []
    count = transitions.episodes.num_episodes
    if count < LEAST_EPISODES:
        found.append(
            f"The data have {count} whole episode{'s' * (count != 1)}; an interval needs "
            f"{LEAST_EPISODES} or more of them."
        )
    if np.isnan(rho).any():
        why = "pi has no density" if not policy.has_density else "the data have none of mu"
        found.append(
            f"Only fitted Q evaluation is possible, because {why}: nothing says whether the data "
            "show what pi does, and the intervals leave the error of the fit out."
        )
        return found
    mean, error = rho.mean(), rho.std() / np.sqrt(len(rho))
    if abs(mean - 1) > max(0.2, 4 * error):
        found.append(
            f"The mean of rho is {mean:.3g} and must be 1: pi takes actions that the data never "
            "show, or their log-densities are not those of mu. No estimator can be trusted."
        )
    covered = float(overlap(rho, OVERLAP_CLIP))
    if covered < LEAST_OVERLAP:
        found.append(
            f"The overlap is {covered:.2g}: the data can speak about that part of pi only. No "
            "estimator can be trusted."
        )
    if not any(estimate.trusted for estimate in estimates if estimate.objective == "j_pi"):
        best = np.nanmax([e.effective_sample_size for e in estimates if e.objective == "j_pi"])
        found.append(
            (
                f"For J_pi the data amount to {best:.0f} equally weighted transitions at best, and "
                f"{LEAST_EFFECTIVE:.0f} are needed: pi visits states that the data hardly show."
                if best < LEAST_EFFECTIVE
                else "Fitted values and fitted weights contradict each other beyond their "
                "intervals: the fits are not done (more updates) or the data are too few."
            )
            + " No estimator of J_pi can be trusted."
        )
    return found
