"""The array operations on numpy, torch and JAX: the same numbers from each."""

import jax
import numpy as np
import pytest
import scipy.special
import torch
from jax import numpy as jnp

from rllib_geoffpac.maths import arrays
from rllib_geoffpac.maths.moments import fresh_moments, running_mean, running_std, update_moments
from rllib_geoffpac.maths.optimizers import adam_step, clip_by_norm, rmsprop_step, sgd_step
from rllib_geoffpac.maths.plain_erf import plain_erf, plain_erfinv

LIBRARIES = {"numpy": np.asarray, "torch": torch.tensor, "jax": jnp.asarray}


@pytest.fixture(params=LIBRARIES)
def make(request):
    """Makes an array of one of the libraries, with 64 bits."""
    with jax.enable_x64(True):
        yield LIBRARIES[request.param]


X = np.array([[-800.0, -3.0, 0.0, 0.5, 3.0, 800.0], [1.0, 2.0, -1.0, 0.0, 7.0, -2.0]])


def test_softplus_neither_overflows_nor_loses_small_numbers(make):
    expected = np.logaddexp(0, X)
    np.testing.assert_allclose(np.asarray(arrays.softplus(make(X))), expected, rtol=1e-14)


def test_log_softmax_is_that_of_scipy(make):
    expected = scipy.special.log_softmax(X, axis=-1)
    np.testing.assert_allclose(np.asarray(arrays.log_softmax(make(X))), expected, atol=1e-12)


def test_an_entry_is_taken_beside_infinite_ones(make):
    rows = np.array([[-np.inf, 2.0, 3.0], [4.0, -np.inf, 6.0]])
    taken = arrays.at_index(make(rows), make(np.array([1, 2])))
    assert np.asarray(taken).tolist() == [2.0, 6.0]


def test_one_hot_rows_have_the_dtype_asked_for(make):
    rows = arrays.one_hot(make(np.array([2, 0])), 3, make(np.zeros(1)))
    assert np.asarray(rows).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert np.asarray(rows).dtype == np.float64


def test_the_mass_between_is_exact_for_tiny_and_huge_intervals(make):
    low, high = np.array([-1e-9, -1.0, -40.0]), np.array([2e-9, 0.5, 40.0])
    density = 1 / np.sqrt(2 * np.pi)
    expected = [3e-9 * density, scipy.special.ndtr(0.5) - scipy.special.ndtr(-1.0), 1.0]
    mass = np.asarray(arrays.normal_mass(make(low), make(high)))
    np.testing.assert_allclose(mass, expected, rtol=1e-12)


def test_no_derivative_flows_through_a_stopped_gradient():
    tensor = torch.tensor(3.0, requires_grad=True)
    (tensor * arrays.stop_gradient(tensor)).backward()
    assert tensor.grad == 3.0
    assert jax.grad(lambda x: x * arrays.stop_gradient(x))(3.0) == 3.0
    assert arrays.stop_gradient(np.float64(3.0)) == 3.0


@pytest.mark.slow
def test_running_moments_weigh_the_past_geometrically(make):
    decay, values = 0.8, np.random.default_rng(0).normal(2.0, 3.0, (7, 4))
    moments = fresh_moments(make(values[0]))
    assert float(running_mean(moments)) == float(running_std(moments)) == 0.0
    for row in values:
        moments = update_moments(moments, make(row), decay)
    weights = decay ** np.arange(6, -1, -1.0)
    weights /= weights.sum()
    mean = weights @ values.mean(axis=1)
    std = np.sqrt(weights @ (values**2).mean(axis=1) - mean**2)
    assert float(running_mean(moments)) == pytest.approx(mean, rel=1e-12)
    assert float(running_std(moments)) == pytest.approx(std, rel=1e-12)


OPTIMIZERS = {
    "sgd": (sgd_step, torch.optim.SGD, {"lr": 0.1}, {}, ()),
    "rmsprop": (
        rmsprop_step,
        torch.optim.RMSprop,
        {"lr": 0.1, "alpha": 0.9, "eps": 1e-3},
        {"alpha": 0.9, "eps": 1e-3},
        ("square_avg",),
    ),
    "adam": (
        adam_step,
        torch.optim.Adam,
        {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3},
        {"beta_1": 0.8, "beta_2": 0.95, "eps": 1e-3},
        ("exp_avg", "exp_avg_sq"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_that_of_torch(make, name):
    step, optimizer_class, options, numbers, slot_names = OPTIMIZERS[name]
    rng = np.random.default_rng(1)
    start = rng.normal(size=5)
    parameter = torch.nn.Parameter(torch.tensor(start))
    optimizer = optimizer_class([parameter], **options)
    mine, slots = make(start), {slot: make(np.zeros(5)) for slot in slot_names}
    for count in range(1, 6):
        gradient = rng.normal(size=5)
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
        mine, slots = step(mine, make(gradient), slots, {"lr": 0.1, "step": count, **numbers})
    np.testing.assert_allclose(np.asarray(mine), parameter.detach().numpy(), rtol=1e-12)
    for slot in slot_names:
        expected = optimizer.state[parameter][slot].numpy()
        np.testing.assert_allclose(np.asarray(slots[slot]), expected, rtol=1e-12)


@pytest.mark.parametrize("bound", [0.5, 100.0])
def test_clipping_is_that_of_torch(make, bound):
    gradient = np.array([3.0, -4.0, 12.0])
    parameter = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    parameter.grad = torch.tensor(gradient)
    torch.nn.utils.clip_grad_norm_([parameter], bound)
    clipped = np.asarray(clip_by_norm(make(gradient), bound))
    np.testing.assert_allclose(clipped, parameter.grad.numpy(), rtol=1e-12)


@pytest.mark.slow
def test_the_plain_error_function_and_its_inverse_are_those_of_scipy(make):
    x = np.array([-7.0, -2.5, -1e-9, 0.0, 0.3, 1.0, 5.9])
    np.testing.assert_allclose(np.asarray(plain_erf(make(x))), scipy.special.erf(x), atol=1e-14)
    y = np.array([-1 + 2e-7, -0.99, -1e-12, 0.0, 1e-3, 0.5, 0.9999, 1 - 2e-7])
    found = np.asarray(plain_erfinv(make(y)))
    np.testing.assert_allclose(found, scipy.special.erfinv(y), rtol=1e-9)
