"""The estimators of off-policy evaluation: exact limits, exact influence, coverage over seeds."""

import importlib
import inspect
import types
from collections.abc import Callable

import numpy as np
import pytest
from finite_mdps import random_episodic_mdp
from logged_mdps import Logged, exact_data, repeated, sampled_data

from rllib_geoffpac.maths import (
    episodes,
    off_policy_evaluation,
    tabular_evaluation,
    weighted_importance_sampling,
)
from rllib_geoffpac.maths.episodes import Episodes
from rllib_geoffpac.maths.off_policy_evaluation import Data, Estimate, per_decision_weights
from rllib_geoffpac.maths.tables import softmax_policy
from rllib_geoffpac.maths.value import monte_carlo_values

GAMMA_HATS = [0.0, 0.3, 0.9, 1.0]


def fitted(name: str) -> Callable[[Logged, float], Estimate]:
    def estimate(logged: Logged, gamma_hat: float) -> Estimate:
        fits = tabular_evaluation.fit_tables(
            logged.data, logged.states, logged.actions, logged.policy, gamma_hat
        )
        return getattr(off_policy_evaluation, name)(logged.data, gamma_hat, fits)

    return estimate


ESTIMATORS: dict[str, Callable[[Logged, float], Estimate]] = {
    "per_decision": lambda logged, g: off_policy_evaluation.per_decision(logged.data, g),
    "weighted": lambda logged, g: weighted_importance_sampling.weighted(logged.data, g),
    "fitted_q": fitted("fitted_q"),
    "density_ratio_weighting": fitted("density_ratio_weighting"),
    "doubly_robust": fitted("doubly_robust"),
}


def error(name: str, gamma_hat: float, seed: int = 0) -> float:
    """How far an estimator's limit is from the exact objective."""
    logged = exact_data(seed)
    exact = logged.mdp.objective(logged.policy, gamma_hat)
    return abs(ESTIMATORS[name](logged, gamma_hat).value - exact)


@pytest.mark.parametrize("gamma_hat", GAMMA_HATS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_on_the_distribution_of_mu_itself_every_estimator_is_exact(name, gamma_hat):
    assert max(error(name, gamma_hat, seed) for seed in range(3)) < 1e-12


def influence_error(name: str, gamma_hat: float) -> float:
    """Largest difference between the influence and what one more episode really changes."""
    logged, times = exact_data(), 60
    estimate = ESTIMATORS[name](logged, gamma_hat)
    count = times * logged.data.episodes.num_episodes + 1
    worst = 0.0
    for extra in (0, 37, 90, 127):
        changed = ESTIMATORS[name](repeated(logged, times, extra), gamma_hat).value
        influence = count * (changed - estimate.value)
        worst = max(worst, abs(influence - estimate.influence[extra]))
    return worst


@pytest.mark.parametrize("gamma_hat", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_influence_of_an_episode_is_what_one_more_of_it_changes(name, gamma_hat):
    assert influence_error(name, gamma_hat) < 5e-3


@pytest.mark.parametrize("gamma_hat", GAMMA_HATS)
def test_the_doubly_robust_estimator_forgives_either_wrong_values_or_wrong_weights(gamma_hat):
    logged = exact_data()
    exact = logged.mdp.objective(logged.policy, gamma_hat)
    fits = tabular_evaluation.fit_tables(
        logged.data, logged.states, logged.actions, logged.policy, gamma_hat
    )
    noise = np.random.default_rng(0).uniform(0.5, 1.5, size=(6, 2))
    state, pair = noise[logged.states, 0], noise[logged.states, logged.actions]

    def mean(x):  # over pi's actions, at the data's states
        table = np.zeros((6, 2))
        table[logged.states, logged.actions] = x
        return (logged.policy * table).sum(axis=1)[logged.states]

    q, q_u, q_l = pair * fits.q, pair * fits.q_u, pair * fits.q_l
    u = logged.data.interest * mean(q) + mean(q_u)
    wrong_values = fits._replace(q=q, q_u=q_u, q_l=q_l, v=mean(q), u=u, l=1 + mean(q_l))
    wrong_weights = fits._replace(
        density_ratio=state * fits.density_ratio, emphasis=state**2 * fits.emphasis
    )
    robust, plain = off_policy_evaluation.doubly_robust, off_policy_evaluation.fitted_q
    weighting = off_policy_evaluation.density_ratio_weighting
    assert abs(robust(logged.data, gamma_hat, wrong_values).value - exact) < 1e-12
    assert abs(robust(logged.data, gamma_hat, wrong_weights).value - exact) < 1e-12
    assert abs(plain(logged.data, gamma_hat, wrong_values).value - exact) > 1e-3
    assert abs(weighting(logged.data, gamma_hat, wrong_weights).value - exact) > 1e-3


@pytest.mark.parametrize("gamma_hat", GAMMA_HATS)
def test_weights_of_the_rewards_are_the_backward_view_of_the_per_decision_estimate(gamma_hat):
    mdp = random_episodic_mdp(np.random.default_rng(4))
    data = sampled_data(mdp, softmax_policy(np.arange(10).reshape(5, 2) / 9), 20, seed=0).data
    estimate = off_policy_evaluation.per_decision(data, gamma_hat).value
    backward = (per_decision_weights(data, gamma_hat) * data.rewards).mean()
    np.testing.assert_allclose(backward, estimate, rtol=1e-12)


@pytest.mark.parametrize("name", ["per_decision", "weighted"])
def test_for_the_policy_that_made_the_data_j_pi_is_the_simulator_s_metric(name):
    mdp = random_episodic_mdp(np.random.default_rng(4))
    logged = sampled_data(mdp, mdp.behavior, 20, seed=0)
    data = logged.data._replace(interest=np.ones(len(logged.states)))
    values = [
        monte_carlo_values(data.rewards[first : last + 1], data.discounts[first : last + 1])
        for first, last in zip(data.episodes.starts, data.episodes.ends, strict=True)
    ]
    estimate = ESTIMATORS[name](logged._replace(data=data), 1.0)
    np.testing.assert_allclose(estimate.value, np.concatenate(values).mean(), rtol=1e-12)


def test_ratios_beyond_the_range_of_floats_leave_the_weighted_estimate_finite():
    lengths, rng = np.full(4, 2000), np.random.default_rng(0)
    rewards, rho = rng.normal(size=8000), np.exp(rng.normal(1, 1, size=8000))
    episodes_ = Episodes(lengths)
    discounts = np.full(8000, 0.9)
    discounts[episodes_.ends] = 0
    estimate = weighted_importance_sampling.weighted(
        Data(episodes_, rewards, discounts, rho, np.ones(8000)), 1.0
    )
    assert np.isfinite(estimate.value) and np.isfinite(estimate.standard_error)


SEEDS = 150


@pytest.fixture(scope="module")
def measured() -> dict[tuple[str, float], np.ndarray]:
    """(estimator, gamma_hat) -> [seeds, 4]: estimate, standard error, interval."""
    rng = np.random.default_rng(1)
    mdp = random_episodic_mdp(rng)
    policy = softmax_policy(np.log(mdp.behavior) + rng.normal(scale=0.6, size=(5, 2)))
    rows: dict[tuple[str, float], list] = {}
    for seed in range(SEEDS):
        logged = sampled_data(mdp, policy, 250, seed)
        for gamma_hat in (0.0, 0.6, 1.0):
            exact = mdp.objective(policy, gamma_hat)
            for name, function in ESTIMATORS.items():
                estimate = function(logged, gamma_hat)
                row = (estimate.value - exact, estimate.standard_error, *estimate.interval())
                rows.setdefault((name, gamma_hat), []).append((*row, exact))
    return {key: np.array(row) for key, row in rows.items()}


@pytest.mark.slow
@pytest.mark.parametrize("gamma_hat", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_intervals_cover_the_exact_objective_as_often_as_they_say(measured, name, gamma_hat):
    deviation, stated, low, high, exact = measured[name, gamma_hat].T
    covered = ((low <= exact) & (exact <= high)).mean()
    # 95 % of 150 seeds, within about three standard errors of that count.
    assert 0.89 <= covered <= 0.995
    assert abs(deviation.mean()) < 3 * deviation.std() / np.sqrt(SEEDS)
    np.testing.assert_allclose(stated.mean(), deviation.std(), rtol=0.2)


# Mistakes: module, what stands there, what stands there instead, which estimator must notice.
ESTIMATE_MUTANTS = {
    "teleports forgotten": (
        off_policy_evaluation, "share = 1 - restart * means.l.value", "share = 0.0", "per_decision",
    ),
    "the mean over all states for that over first states": (
        off_policy_evaluation, "first = x[episodes.starts]\n    return",
        "first = x[episodes.ends]\n    return", "per_decision",
    ),
    "the last action's ratio left out": (
        off_policy_evaluation, "backward(rho * data.rewards,", "backward(data.rewards,",
        "per_decision",
    ),
    "no ratio in the visits": (
        off_policy_evaluation, "u = backward(data.interest * v, gamma_hat * rho)",
        "u = backward(data.interest * v, gamma_hat + 0 * rho)", "per_decision",
    ),
    "values bootstrap over an episode's end": (
        episodes, "for distance in range(1, int(lengths[0])):",
        "for distance in range(1, int(lengths[0]) - 1):", "per_decision",
    ),
    "interest left out": (
        weighted_importance_sampling, "survival * data.interest[here]", "survival", "weighted",
    ),
    "gamma_{t+1} for gamma_t": (
        weighted_importance_sampling, "data.discounts[here - 1] if lag",
        "data.discounts[here] if lag", "weighted",
    ),
    "ended episodes leave the mean of the weights": (
        weighted_importance_sampling, "+ np.exp(ended.log_sums - highest)", "", "weighted",
    ),
    "u goes on over the end": (
        tabular_evaluation, "onwards = identity - gamma_hat * flow(share)",
        "onwards = identity - gamma_hat * flow(share * data.discounts)", "fitted_q",
    ),
    "mu's actions for pi's": (
        tabular_evaluation, "seen = np.where(counts > 0, policy, 0)",
        "seen = np.where(counts > 0, counts, 0)", "fitted_q",
    ),
    "C not carried over teleports": (
        tabular_evaluation, "if gamma_hat < 1:", "if gamma_hat < 0:", "density_ratio_weighting",
    ),
    "C masked at teleports": (
        tabular_evaluation, "system = system - gamma_hat * np.outer",
        "system = system - 0 * np.outer", "density_ratio_weighting",
    ),
    "C looks forward": (
        tabular_evaluation, "gamma_hat * flow(data.rho).T", "gamma_hat * flow(data.rho)",
        "density_ratio_weighting",
    ),
    "no gamma in the emphasis": (
        tabular_evaluation, "flow(data.rho * data.discounts).T", "flow(data.rho).T",
        "density_ratio_weighting",
    ),
    "the emphasis not normalised": (
        off_policy_evaluation, "fits.emphasis * (data.interest * c).mean() / leaving",
        "fits.emphasis", "density_ratio_weighting",
    ),
    "C not normalised": (
        off_policy_evaluation, "c = fits.density_ratio / fits.density_ratio.mean()",
        "c = fits.density_ratio",
        "density_ratio_weighting",
    ),
}  # fmt: skip
INFLUENCE_MUTANTS = {
    "a mean over states is no ratio": (
        off_policy_evaluation, "episodes.sums(x) - mean * episodes.lengths",
        "episodes.sums(x) - episodes.sums(x).mean()", "per_decision",
    ),
    "first states are taken as given": (
        off_policy_evaluation, "share / means.start_l.value * cycle_influence",
        "0 * cycle_influence", "per_decision",
    ),
    "the number of visits is taken as given": (
        off_policy_evaluation, "(means.u.influence - per_cycle * means.l.influence)",
        "means.u.influence", "per_decision",
    ),
    "the mean of the weights is taken as given": (
        weighted_importance_sampling, "(payoffs - ratio * weights) / weights.mean()",
        "(payoffs - payoffs.mean()) / weights.mean()", "weighted",
    ),
    "fitted functions are taken as given": (
        off_policy_evaluation,
        "return Estimate(plug_in.value, plug_in.influence + correction.influence)",
        "return plug_in", "fitted_q",
    ),
    "the error of q_u is forgotten": (
        off_policy_evaluation, "(counterfactual + m * data.rho",
        "(0 * counterfactual + m * data.rho", "doubly_robust",
    ),
    "q for v in the influence of ratios": (
        off_policy_evaluation, "following(fits.v)) - fits.v", "following(fits.v) - fits.q)",
        "density_ratio_weighting",
    ),
    "the mean of the emphasis is taken as given": (
        off_policy_evaluation, "rewards -= value /", "rewards -= 0 * value /",
        "density_ratio_weighting",
    ),
    "the ratios of teleports are taken as given": (
        off_policy_evaluation, "visits -= gamma_hat", "visits -= 0 * gamma_hat",
        "density_ratio_weighting",
    ),
}  # fmt: skip


@pytest.fixture
def mutate(monkeypatch):
    """Puts a mistake into a module; whoever imported its functions gets the wrong ones."""

    def put(module: types.ModuleType, right: str, wrong: str) -> None:
        source = inspect.getsource(module)
        assert source.count(right) == 1, f"{right!r} stands {source.count(right)} times"
        changed = types.ModuleType(module.__name__)
        exec(compile(source.replace(right, wrong), module.__name__, "exec"), vars(changed))
        homes = (episodes, off_policy_evaluation, tabular_evaluation, weighted_importance_sampling)
        for home in (*homes, importlib.import_module("logged_mdps")):
            for name, value in list(vars(changed).items()):
                own = getattr(value, "__module__", None) == module.__name__
                if own and name in vars(home):
                    monkeypatch.setattr(home, name, value)

    return put


@pytest.mark.parametrize("mistake", ESTIMATE_MUTANTS)
def test_mistakes_in_an_estimator_are_noticed(mistake, mutate):
    *change, name = ESTIMATE_MUTANTS[mistake]
    mutate(*change)
    assert max(error(name, gamma_hat) for gamma_hat in GAMMA_HATS) > 1e-5


@pytest.mark.parametrize("mistake", INFLUENCE_MUTANTS)
def test_mistakes_in_an_influence_are_noticed(mistake, mutate):
    *change, name = INFLUENCE_MUTANTS[mistake]
    mutate(*change)
    assert max(influence_error(name, gamma_hat) for gamma_hat in (0.0, 0.3)) > 1e-2
