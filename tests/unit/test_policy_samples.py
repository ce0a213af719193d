"""The Beta distribution and differentiable samples, against scipy and numerical integration."""

import importlib

import numpy as np
import policy_oracles
import pytest
import torch
from array_libraries import CONVERT, every_library, tolerance
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from rllib_geoffpac.maths import beta
from rllib_geoffpac.maths.beta import (
    beta_entropy,
    beta_log_density,
    beta_mode,
    beta_sample,
    concentrations,
)
from rllib_geoffpac.maths.truncated_gaussian import truncated_gaussian_sample

concentration = st.floats(0, 4).map(lambda exponent: 10.0**exponent)
tail = st.floats(-7, np.log10(0.5)).map(lambda exponent: 10.0**exponent)
quantile = st.one_of(st.floats(1e-7, 1 - 1e-7), tail, tail.map(lambda u: 1 - u))


def differentiated(sample, u, *parameters):
    """Samples and their derivatives by torch: float, [2]."""
    parameters = [
        torch.tensor(float(p), dtype=torch.float64, requires_grad=True) for p in parameters
    ]
    x = sample(torch.tensor(float(u), dtype=torch.float64), *parameters)
    return x.item(), np.array([g.item() for g in torch.autograd.grad(x, parameters)])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(u=quantile, a=concentration, b=concentration)
def test_samples_are_the_inverse_of_the_distribution_function(u, a, b):
    x = float(beta_sample(*(np.array(number) for number in (u, a, b))))
    expected = special.betaincinv(a, b, u)
    assert x == pytest.approx(expected, rel=1e-8, abs=1e-12)
    assert 1 - x == pytest.approx(special.betaincinv(b, a, 1 - u), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("a", [1.0, 1.001, 2.0, 40.0, 1e4])
@pytest.mark.parametrize("b", [1.0, 1.5, 300.0, 1e4])
def test_a_grid_of_all_sizes_without_a_warning(a, b):
    u = np.array([1e-7, 1e-4, 0.01, 0.3, 0.5, 0.8, 0.999, 1 - 1e-6, 1 - 1e-7])
    with np.errstate(all="raise"):
        x = beta_sample(u, np.array(a), np.array(b))
    np.testing.assert_allclose(x, special.betaincinv(a, b, u), rtol=1e-8)
    assert (np.diff(x) > 0).all()


@pytest.mark.parametrize(
    ("a", "b"), [(1.0, 1.0), (1.0, 30.0), (2.5, 1.2), (7.0, 9.0), (400.0, 3.0), (9e3, 1e4)]
)
def test_derivatives_of_samples_are_the_implicit_ones(a, b):
    oracle = policy_oracles.beta(a, b)
    for u in (1e-5, 0.2, 0.5, 0.99, 1 - 1e-5):
        x, gradient = differentiated(beta_sample, u, a, b)
        assert oracle.distribution(x) == pytest.approx(u, rel=1e-8)
        np.testing.assert_allclose(gradient, oracle.sample_gradient(x), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("x", [0.03, 0.5, 0.97])
def test_the_oracles_know_what_scipy_knows(x):
    oracle, reference = policy_oracles.beta(3.0, 1.5), stats.beta(3.0, 1.5)
    assert oracle.density(x) == pytest.approx(reference.pdf(x), rel=1e-10)
    assert oracle.distribution(x) == pytest.approx(reference.cdf(x), rel=1e-10)
    digamma = special.digamma
    expected = np.log([x, 1 - x]) - digamma([3.0, 1.5]) + digamma(4.5)
    np.testing.assert_allclose(oracle.score(x), expected, atol=1e-10)
    assert oracle.expectation(lambda y: y) == pytest.approx(3 / 4.5, rel=1e-10)
    # d/dalpha and d/dbeta of alpha / (alpha + beta)
    gradient = oracle.expectation_gradient(lambda y: y)
    np.testing.assert_allclose(gradient, [1.5 / 4.5**2, -3 / 4.5**2], atol=1e-10)
    oracle = policy_oracles.truncated_gaussian(0.9, 0.2)
    reference = stats.truncnorm(-1.9 / 0.2, 0.1 / 0.2, 0.9, 0.2)
    assert oracle.density(x) == pytest.approx(reference.pdf(x), rel=1e-10)
    assert oracle.distribution(x) == pytest.approx(reference.cdf(x), rel=1e-9)


TRUNCATED = [
    (0.3, 0.7),
    (-0.95, 0.05),
    (0.999, 1e-3),
    (0.0, 1e-3),
    (-1.0, 0.3),
    (0.4, 30.0),
    (0.4, 1e6),
]


@pytest.mark.parametrize(("mean", "std"), TRUNCATED)
def test_derivatives_of_truncated_gaussian_samples_are_the_implicit_ones(mean, std):
    oracle = policy_oracles.truncated_gaussian(mean, std)
    for u in (1e-5, 0.2, 0.5, 0.99, 1 - 1e-5):
        a, gradient = differentiated(truncated_gaussian_sample, u, mean, std)
        assert oracle.distribution(a) == pytest.approx(u, rel=1e-7, abs=1e-10)
        np.testing.assert_allclose(gradient, oracle.sample_gradient(a), rtol=1e-6, atol=1e-9)


def polynomial(x):
    return x - 2 * x**3 + 4 * x**4


def mean_over_quantiles(sample, *parameters):
    """grad_theta E[f(X)] from reparametrised samples on a grid of quantiles, exact to 1e-6.

    With u = 1 / (1 + e^-y) the integrand decays at both ends, where the trapezoidal rule is best.
    """
    y = torch.linspace(-16, 16, 2001, dtype=torch.float64)
    u = torch.sigmoid(y)
    weight = u * (1 - u) * (y[1] - y[0])
    parameters = [torch.tensor(p, dtype=torch.float64, requires_grad=True) for p in parameters]
    x = sample(u, *(p.expand(len(u)) for p in parameters))
    total = (weight * polynomial(x)).sum()
    return np.array([g.item() for g in torch.autograd.grad(total, parameters)])


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (1.3, 6.0), (80.0, 20.0), (5e3, 1.0)])
def test_reparametrised_gradients_of_an_expectation(a, b):
    expected = policy_oracles.beta(a, b).expectation_gradient(polynomial)
    measured = mean_over_quantiles(beta_sample, a, b)
    np.testing.assert_allclose(measured, expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(("mean", "std"), TRUNCATED)
def test_reparametrised_gradients_of_an_expectation_of_the_truncated_gaussian(mean, std):
    expected = policy_oracles.truncated_gaussian(mean, std).expectation_gradient(polynomial)
    measured = mean_over_quantiles(truncated_gaussian_sample, mean, std)
    np.testing.assert_allclose(measured, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (1.0, 30.0), (2.5, 1.2), (400.0, 300.0)])
def test_density_score_and_entropy(a, b):
    oracle = policy_oracles.beta(a, b)
    for x in (1e-6, 0.1, 0.57, 1 - 1e-6):
        parameters = [torch.tensor(p, dtype=torch.float64, requires_grad=True) for p in (a, b)]
        log_density = beta_log_density(torch.tensor(x, dtype=torch.float64), *parameters)
        assert log_density.item() == pytest.approx(oracle.log_density(x), rel=1e-9, abs=1e-9)
        score = [g.item() for g in torch.autograd.grad(log_density, parameters)]
        np.testing.assert_allclose(score, oracle.score(x), rtol=1e-8, atol=1e-9)
    entropy = float(beta_entropy(np.array(a), np.array(b)))
    assert entropy == pytest.approx(stats.beta(a, b).entropy(), abs=1e-9)


def test_everything_is_finite_near_the_bounds_and_for_any_output_of_a_network():
    outputs = torch.tensor([-1e4, -30.0, 0.0, 30.0, 1e4, 1e30], requires_grad=True)
    a = concentrations(outputs)[:, None, None]
    b = concentrations(outputs)[None, :, None]
    u = torch.tensor([0.0, 1e-9, 0.5, 1 - 6e-8, 1.0])
    samples = beta_sample(u, a, b)
    assert samples.shape == (6, 6, 5)
    assert samples.dtype == torch.float32
    assert ((samples >= 0) & (samples <= 1)).all()
    for x in (samples, torch.zeros(5), torch.ones(5)):
        total = samples.sum() + beta_log_density(x, a, b).sum() + beta_entropy(a, b).sum()
        (gradient,) = torch.autograd.grad(total, outputs, retain_graph=True)
        assert torch.isfinite(total)
        assert torch.isfinite(gradient).all()
    assert a.min() >= 1
    assert a.max() <= beta.MAX_CONCENTRATION


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_truncated_gaussian_samples_stay_in_the_box_with_finite_derivatives(dtype):
    mean = torch.tensor([-1.0, -0.9999, 0.0, 0.9999, 1.0], dtype=dtype, requires_grad=True)
    for size in (1e-3, 0.05, 0.7, 1e3, 1e8):
        std = torch.tensor(size, dtype=dtype, requires_grad=True)
        for u in (0.0, 1e-9, 0.5, 1 - 1e-9, 1.0):
            a = truncated_gaussian_sample(torch.tensor(u, dtype=dtype), mean, std)
            assert a.dtype == dtype
            assert (abs(a) <= 1).all()
            gradients = torch.autograd.grad(a.sum(), [mean, std])
            assert all(torch.isfinite(gradient).all() for gradient in gradients)


def test_the_mode_is_where_the_density_is_largest():
    a, b = np.array([1.0, 1.0, 3.0, 5.0]), np.array([1.0, 4.0, 1.0, 2.0])
    np.testing.assert_allclose(beta_mode(a, b), [0.5, 0.0, 1.0, 0.8])


def test_single_precision_is_close():
    rng = np.random.default_rng(0)
    a, b = (10 ** rng.uniform(0, 3, 1000) for _ in range(2))
    u = rng.uniform(0.001, 0.999, 1000)
    single = beta_sample(*(torch.tensor(n, dtype=torch.float32) for n in (u, a, b)))
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.numpy(), beta_sample(u, a, b), atol=1e-5)


@pytest.mark.slow  # XLA compiles for seconds
@every_library
def test_every_array_library_gives_the_same(library):
    a, b = np.array([1.0, 2.0, 9.0]), np.array([3.0, 1.0, 7.0])
    u, mean, std = np.array([0.1, 0.5, 0.9]), np.array([-0.9, 0.0, 1.0]), np.array([0.1, 5.0, 1.0])
    limit = 100 * tolerance(library)
    for function, arguments in (
        (beta_sample, (u, a, b)),
        (beta_log_density, (u, a, b)),
        (beta_entropy, (a, b)),
        (beta_mode, (a, b)),
        (concentrations, (mean,)),
        (truncated_gaussian_sample, (u, mean, std)),
    ):
        compiled = importlib.import_module("jax").jit(function) if library == "jax" else function
        measured = compiled(*(CONVERT[library](argument) for argument in arguments))
        assert type(measured) is type(CONVERT[library](u))
        np.testing.assert_allclose(
            np.asarray(measured), function(*arguments), rtol=limit, atol=limit
        )


@pytest.mark.slow
def test_jax_differentiates_as_torch_does():
    jax = pytest.importorskip("jax")
    a, b, u = (np.array(numbers) for numbers in ([1.5, 2.0, 9.0], [3.0, 1.0, 7.0], [0.1, 0.5, 0.9]))
    numpy = importlib.import_module("jax.numpy")
    gradient = jax.jit(jax.grad(lambda a, b, u: beta_sample(u, a, b).sum(), argnums=(0, 1)))
    measured = gradient(*(numpy.asarray(number) for number in (a, b, u)))
    expected = [differentiated(beta_sample, *row)[1] for row in zip(u, a, b, strict=True)]
    np.testing.assert_allclose(np.array(measured).T, expected, rtol=1e-4)
