"""The traces against a plain loop, and their averages against exact limits, mistakes included."""

import doctest

import numpy as np
import pytest
import torch
from finite_mdps import (
    AGREES,
    CASES,
    DIFFERS,
    PIPELINE_MUTANTS,
    TRACE_MUTANTS,
    average_terms,
    deviation,
    simulate,
)

from rllib_geoffpac.maths import emphatic
from rllib_geoffpac.maths.emphatic import emphatic_traces, fresh_traces, restart
from rllib_geoffpac.maths.finite_mdp import FiniteMDP

LAMBDAS = [(1.0, 1.0), (0.7, 0.6)]


@pytest.fixture(scope="module")
def streams():
    return {name: simulate(case.mdp, 200, 1000, seed=0) for name, case in CASES.items()}


def trajectory(steps=12, parameters=3, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "rho": rng.uniform(0, 2, steps),
        "discount": rng.choice([0.0, 0.5, 0.9], steps),
        "density_ratio": rng.uniform(0, 2, steps),
        "score": rng.normal(size=(steps, parameters)),
        "interest": rng.uniform(0, 2, steps),
    }


def test_traces_equal_a_plain_loop_over_the_papers_equations():
    data = trajectory()
    gamma_hat, lambda_1, lambda_2 = 0.8, 0.7, 0.6
    traces = emphatic_traces(**data, gamma_hat=gamma_hat, lambda_1=lambda_1, lambda_2=lambda_2)
    rho, c, i = data["rho"], data["density_ratio"], data["interest"]
    for k in range(3):
        f1 = f2 = 0.0
        for t in range(12):
            gamma_t = data["discount"][t - 1] if t else 0.0
            rho_before = rho[t - 1] if t else 0.0
            intrinsic = c[t - 1] * rho[t - 1] * data["score"][t - 1, k] if t else 0.0
            f1 = gamma_t * rho_before * f1 + i[t] * c[t]
            f2 = gamma_hat * rho_before * f2 + intrinsic
            assert traces.f1[t] == pytest.approx(f1, abs=1e-12)
            assert traces.m1[t] == pytest.approx((1 - lambda_1) * i[t] * c[t] + lambda_1 * f1)
            assert traces.f2[t, k] == pytest.approx(f2, abs=1e-12)
            assert traces.m2[t, k] == pytest.approx((1 - lambda_2) * intrinsic + lambda_2 * f2)


def test_a_trajectory_starts_from_its_interest_and_no_second_trace():
    data = trajectory()
    traces = emphatic_traces(**data, gamma_hat=0.9, lambda_1=1, lambda_2=1)
    assert traces.f1[0] == data["interest"][0] * data["density_ratio"][0]
    assert not traces.f2[0].any()
    assert not traces.m2[0].any()


def test_f1_uses_the_discount_of_the_previous_transition():
    traces = emphatic_traces(
        [1.0, 1.0, 1.0], [0.5, 0.0, 0.9], [1, 1, 1], None, gamma_hat=0, lambda_1=1, lambda_2=1
    )
    assert traces.f1.tolist() == [1.0, 1.5, 1.0]
    assert traces.f2 is None
    assert traces.m2 is None


def test_f2_goes_on_through_a_termination():
    traces = emphatic_traces(
        [1, 1, 1], [0, 0, 0], [1, 1, 1], [[1], [2], [4]], gamma_hat=0.5, lambda_1=1, lambda_2=1
    )
    assert traces.f2[:, 0].tolist() == [0, 1, 2.5]


def test_interest_defaults_to_one():
    data = trajectory()
    numbers = {"gamma_hat": 0.8, "lambda_1": 0.7, "lambda_2": 0.6}
    data["interest"] = np.ones(12)
    expected = emphatic_traces(**data, **numbers)
    del data["interest"]
    for given, default in zip(expected, emphatic_traces(**data, **numbers), strict=True):
        np.testing.assert_array_equal(given, default)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torch_and_numpy_agree(dtype):
    data = trajectory()
    numbers = {"gamma_hat": 0.8, "lambda_1": 0.7, "lambda_2": 0.6}
    tensors = {name: torch.tensor(array, dtype=dtype) for name, array in data.items()}
    tolerance = 1e-12 if dtype == torch.float64 else 1e-4
    for tensor, array in zip(
        emphatic_traces(**tensors, **numbers), emphatic_traces(**data, **numbers), strict=True
    ):
        assert tensor.dtype == dtype
        np.testing.assert_allclose(tensor.numpy(), array, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("convert", [np.asarray, torch.as_tensor])
def test_restart_makes_only_the_masked_lanes_fresh_even_after_an_overflow(convert):
    state = fresh_traces(convert(np.zeros(3)), 2)
    state = state._replace(
        f1=convert(np.array([1.0, np.inf, 3.0])),
        f2=convert(np.array([[1.0, 1.0], [np.nan, 2.0], [3.0, 3.0]])),
        intrinsic=convert(np.ones((3, 2))),
        rho=convert(np.ones(3)),
        discount=convert(np.ones(3)),
    )
    after = restart(state, convert(np.array([False, True, False])))
    for before, field in zip(state, after, strict=True):
        assert not field[1].any()
        np.testing.assert_array_equal(np.asarray(field[[0, 2]]), np.asarray(before[[0, 2]]))


def test_restart_and_fresh_traces_without_a_second_trace():
    state = restart(fresh_traces(torch.ones(2), None), torch.tensor([True, False]))
    assert state.f2 is None
    assert state.intrinsic is None
    assert not state.f1.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"discount": np.ones(11)}, r"discount must have shape \[12\].*\(11,\)"),
        ({"score": np.ones(12)}, r"score must have shape \[12, P\].*\(12,\)"),
        ({"interest": np.ones((12, 1))}, r"interest must have shape \[12\]"),
        ({"rho": np.ones((12, 1))}, r"rho must have one entry per transition"),
        ({"gamma_hat": 1.5}, "gamma_hat must be between 0 and 1, got 1.5"),
    ],
)
def test_misaligned_inputs_are_named(change, message):
    inputs = trajectory() | {"gamma_hat": 0.5, "lambda_1": 1, "lambda_2": 1} | change
    with pytest.raises(ValueError, match=message):
        emphatic_traces(**inputs)


@pytest.mark.parametrize("lambdas", LAMBDAS)
@pytest.mark.parametrize("name", CASES)
def test_averages_of_both_terms_reach_their_limits(streams, name, lambdas):
    case = CASES[name]
    averages = average_terms(case, streams[name], *lambdas)
    for average, limit in zip(averages, case.limits(*lambdas), strict=True):
        assert deviation(*average, limit) < AGREES
        # The check is sharp: what it measures stands out from the noise.
        assert deviation(*average, np.zeros_like(limit)) > 25


@pytest.mark.parametrize(
    ("mistake", "name"),
    [(mistake, name) for mistake, mutant in TRACE_MUTANTS.items() for name in mutant.cases],
)
def test_a_mistake_in_the_traces_is_found(streams, mistake, name):
    mutant, case = TRACE_MUTANTS[mistake], CASES[name]
    averages = average_terms(case, streams[name], 1.0, 1.0, advance=mutant.advance)
    limits = case.limits(1.0, 1.0)
    spoiled = getattr(averages, mutant.spoils)
    assert deviation(*spoiled, getattr(limits, mutant.spoils)) > DIFFERS


@pytest.mark.parametrize("name", PIPELINE_MUTANTS["rho clipped everywhere"].cases)
def test_clipping_rho_is_found_in_both_terms(streams, name):
    case = CASES[name]
    averages = average_terms(case, streams[name], 1.0, 1.0, rho=case.rho.clip(max=1.0))
    for average, limit in zip(averages, case.limits(1.0, 1.0), strict=True):
        assert deviation(*average, limit) > DIFFERS


@pytest.mark.parametrize("name", PIPELINE_MUTANTS["gamma_t in delta"].cases)
def test_the_previous_discount_in_the_td_error_is_found(streams, name):
    case, stream = CASES[name], streams[name]
    previous = np.vstack([np.zeros_like(stream.discounts[:1]), stream.discounts[:-1]])
    averages = average_terms(case, stream, 1.0, 1.0, td_discounts=previous)
    assert deviation(*averages.first, case.limits(1.0, 1.0).first) > DIFFERS


def test_a_baseline_leaves_the_second_term_unchanged_in_expectation(streams):
    mdp = CASES["episodic"].mdp
    constant_interest = FiniteMDP(mdp.transitions, mdp.rewards, mdp.discounts, mdp.behavior)
    case = CASES["episodic"]._replace(mdp=constant_interest)
    shifted = case._replace(values=case.values - 1.0)
    limit = case.limits(1.0, 1.0).second
    np.testing.assert_allclose(shifted.limits(1.0, 1.0).second, limit, atol=1e-12)
    average = average_terms(shifted, streams["episodic"], 1.0, 1.0).second
    assert deviation(*average, limit) < AGREES


def test_docstring_examples_run():
    assert doctest.testmod(emphatic).failed == 0
