"""Target-policy distributions: densities, scores, samples, coverage, limits, spaces."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from scipy import stats

from rllib_geoffpac.maths.action_spaces import check_action_space
from rllib_geoffpac.maths.distributions import make_distribution

KINDS = ["gaussian", "truncated_gaussian"]
# Beta's outputs: alpha and beta from nearly flat to narrow, in the middle and close to a bound.
BETA_OUTPUTS = [(0.0, 0.0), (2.0, -1.0), (-4.0, 5.0), (40.0, 60.0), (-30.0, -30.0)]
BOXES = [(-1.0, 1.0), (-0.4, 0.4), (2.0, 7.0)]
# (network output, std parameter): narrow to wide, centred to close to the bound.
PARAMETERS = [(0.3, 0.0), (-1.5, -2.0), (2.5, 1.0), (0.0, -3.0), (6.0, -1.0), (0.2, 40.0)]


def box(low, high, shape=(1,)):
    return gym.spaces.Box(low, high, shape, dtype=np.float64)


def quadrature(low, high, panels=4000, order=4):
    """Composite Gauss-Legendre nodes and weights on [low, high], float64 tensors."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    edges = np.linspace(low, high, panels + 1)
    half = (edges[1:] - edges[:-1])[:, None] / 2
    points = edges[:-1, None] + half * (nodes + 1)
    return torch.tensor(points.reshape(-1)), torch.tensor((half * weights).reshape(-1))


def log_prob_on_grid(space, kind, y, p, points):
    distribution = make_distribution(space, kind)
    outputs = y.expand(len(points), 1)
    return distribution.log_prob(outputs, p, points[:, None])


@pytest.mark.parametrize("bounds", BOXES)
@pytest.mark.parametrize(("y", "p"), PARAMETERS)
def test_truncated_density_integrates_to_one_and_covers(bounds, y, p):
    """The integral of pi is E_mu[rho]; that of its gradient is E_mu[rho grad log pi]."""
    points, weights = quadrature(*bounds)
    y = torch.tensor([y], dtype=torch.float64, requires_grad=True)
    p = torch.tensor([p], dtype=torch.float64, requires_grad=True)
    integral = log_prob_on_grid(box(*bounds), "truncated_gaussian", y, p, points).exp() @ weights
    assert integral.item() == pytest.approx(1, abs=1e-10)
    expected_score = torch.autograd.grad(integral, [y, p])
    assert all(abs(gradient.item()) < 1e-9 for gradient in expected_score)


def test_gaussian_mass_on_the_box_is_less_than_one():
    points, weights = quadrature(-1, 1)
    y, p = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    integral = log_prob_on_grid(box(-1, 1), "gaussian", y, p, points).exp() @ weights
    std = np.log(2)
    assert integral.item() == pytest.approx(2 * stats.norm.cdf(1 / std) - 1, abs=1e-10)


@pytest.mark.parametrize("y, p", PARAMETERS)
def test_truncated_score_is_the_closed_form(y, p):
    space = box(-3, 5)
    action = torch.tensor([[4.5]], dtype=torch.float64)
    y = torch.tensor([[y]], dtype=torch.float64, requires_grad=True)
    p = torch.tensor([p], dtype=torch.float64, requires_grad=True)
    log_prob = make_distribution(space, "truncated_gaussian").log_prob(y, p, action)
    score_y, score_p = (g.item() for g in torch.autograd.grad(log_prob.sum(), [y, p]))

    y, p = y.item(), p.item()
    a, m, s = (4.5 - 1) / 4, np.tanh(y), np.logaddexp(0, p) + 1e-3
    z, low, high = (a - m) / s, (-1 - m) / s, (1 - m) / s
    phi_low, phi_high = stats.norm.pdf(low), stats.norm.pdf(high)
    mass = stats.norm.cdf(high) - stats.norm.cdf(low)
    d_mean = (z - (phi_low - phi_high) / mass) / s
    d_std = (z**2 - 1 - (low * phi_low - high * phi_high) / mass) / s
    assert score_y == pytest.approx(d_mean * (1 - m**2), rel=1e-7, abs=1e-10)
    assert score_p == pytest.approx(d_std / (1 + np.exp(-p)), rel=1e-7, abs=1e-10)


@pytest.mark.parametrize("y, p", PARAMETERS)
def test_log_prob_and_entropy_agree_with_scipy(y, p):
    low, high = 2.0, 7.0
    y, p = torch.tensor([[y]], dtype=torch.float64), torch.tensor([p], dtype=torch.float64)
    action = torch.tensor([[3.1]], dtype=torch.float64)
    for kind in KINDS:
        distribution = make_distribution(box(low, high), kind)
        mean, std = 4.5 + 2.5 * np.tanh(y.item()), 2.5 * distribution.std(p).item()
        reference = stats.norm(mean, std)
        if kind == "truncated_gaussian":
            reference = stats.truncnorm((low - mean) / std, (high - mean) / std, mean, std)
        assert distribution.log_prob(y, p, action).item() == pytest.approx(reference.logpdf(3.1))
        assert distribution.entropy(y, p).item() == pytest.approx(reference.entropy(), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("y, p", PARAMETERS[:5])
def test_samples_follow_the_density(kind, y, p):
    distribution = make_distribution(box(2, 7), kind)
    y, p = np.array([[y]]), np.array([p])
    samples = distribution.sample(np.repeat(y, 4000, 0), p, np.random.default_rng(1))[:, 0]
    # The distribution function, integrated from the density itself.
    grid = torch.linspace(2, 7, 20001, dtype=torch.float64)
    if kind == "gaussian":
        grid = torch.linspace(-60, 70, 200001, dtype=torch.float64)
    log_prob = log_prob_on_grid(box(2, 7), kind, torch.tensor(y[0]), torch.tensor(p), grid)
    cdf = torch.cat([torch.zeros(1), torch.cumulative_trapezoid(log_prob.exp(), grid)])
    test = stats.kstest(samples, lambda a: np.interp(a, grid.numpy(), cdf.numpy()))
    assert test.pvalue > 1e-3


@pytest.mark.parametrize("bounds", BOXES)
@pytest.mark.parametrize("y", BETA_OUTPUTS)
def test_beta_density_integrates_to_one_and_covers(bounds, y):
    points, weights = quadrature(*bounds)
    outputs = torch.tensor([y], dtype=torch.float64, requires_grad=True)
    distribution = make_distribution(box(*bounds), "beta")
    log_prob = distribution.log_prob(outputs.expand(len(points), 2), None, points[:, None])
    integral = log_prob.exp() @ weights
    assert integral.item() == pytest.approx(1, abs=1e-6)
    (expected_score,) = torch.autograd.grad(integral, [outputs])
    assert expected_score.abs().max() < 1e-5


@pytest.mark.parametrize("y", BETA_OUTPUTS)
def test_beta_is_that_of_scipy_stretched_to_the_box(y):
    distribution = make_distribution(box(2, 7), "beta")
    assert (distribution.num_outputs, distribution.has_global_std) == (2, False)
    outputs = np.array([y])
    alpha, beta = 1 + np.logaddexp(0, np.array(y))
    reference = stats.beta(alpha, beta, loc=2, scale=5)
    action = np.array([[4.4]])
    assert distribution.log_prob(outputs, None, action)[0] == pytest.approx(reference.logpdf(4.4))
    assert distribution.entropy(outputs, None)[0] == pytest.approx(reference.entropy(), abs=1e-9)
    samples = distribution.sample(np.repeat(outputs, 4000, 0), None, np.random.default_rng(1))
    assert samples.min() >= 2 and samples.max() <= 7
    assert stats.kstest(samples[:, 0], reference.cdf).pvalue > 1e-3
    peak = 2 + 5 * ((alpha - 1) / (alpha + beta - 2) if alpha + beta > 2.0001 else 0.5)
    assert distribution.mode(outputs)[0, 0] == pytest.approx(peak, abs=1e-6)


def test_beta_scores_stay_finite_at_the_bounds():
    distribution = make_distribution(box(-1, 1), "beta")
    outputs = torch.tensor([[3.0, 2.0], [3.0, 2.0]], dtype=torch.float32, requires_grad=True)
    actions = torch.tensor([[-1.0], [1.0]])
    log_prob = distribution.log_prob(outputs, None, actions)
    (score,) = torch.autograd.grad(log_prob.sum(), [outputs])
    assert torch.isfinite(score).all() and torch.isfinite(log_prob).all()


def test_one_generator_per_row_makes_rows_independent_of_their_neighbours():
    for space in (box(-1, 1, (2,)), gym.spaces.Discrete(5)):
        for kind in KINDS:
            distribution = make_distribution(space, kind)
            outputs = np.random.default_rng(0).normal(size=(3, distribution.num_outputs))
            p = np.zeros(2) if distribution.has_global_std else None
            rngs = [np.random.default_rng(i) for i in range(3)]
            together = distribution.sample(outputs, p, rngs)
            alone = distribution.sample(outputs[1:2], p, np.random.default_rng(1))
            assert np.array_equal(together[1:2], alone)
            with pytest.raises(ValueError, match="one per row"):
                distribution.sample(outputs, p, rngs[:2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_finite_near_the_bounds_and_for_extreme_std(dtype, kind):
    """Saturated means (tanh = +-1), actions on the bounds, std from 1e-3 to 1e8."""
    space = gym.spaces.Box(-0.4, 0.4, (1,), dtype=np.float32)
    distribution = make_distribution(space, kind)
    for p in (-60.0 if kind == "truncated_gaussian" else -8.0, -3.0, 0.0, 10.0, 1e8):
        y = torch.tensor([[-50.0], [-9.0], [0.0], [9.0], [50.0]], dtype=dtype, requires_grad=True)
        std_parameter = torch.tensor([p], dtype=dtype, requires_grad=True)
        for action in (-0.4, -0.3999999, 0.0, 0.3999999, 0.4):
            log_prob = distribution.log_prob(y, std_parameter, torch.full_like(y, action))
            entropy = distribution.entropy(y, std_parameter)
            gradients = torch.autograd.grad((log_prob + entropy).sum(), [y, std_parameter])
            assert all(torch.isfinite(x).all() for x in (log_prob, entropy, *gradients))
        samples = distribution.sample(
            y.detach().numpy(), std_parameter.detach().numpy(), np.random.default_rng(0)
        )
        assert np.isfinite(samples).all()
        assert samples.dtype == np.float32
        assert all(a in space for a in distribution.to_env(samples))
        if kind == "truncated_gaussian":
            assert all(a in space for a in samples)


def test_float32_density_is_close_to_float64():
    distribution = make_distribution(box(-1, 1, (3,)), "truncated_gaussian")
    rng = np.random.default_rng(0)
    y, actions = rng.normal(size=(200, 3)) * 2, rng.uniform(-1, 1, (200, 3))
    for p in (-5.0, 0.0, 12.0):
        p = np.full(3, p)
        wide, narrow = (
            distribution.log_prob(*(torch.tensor(x, dtype=dtype) for x in (y, p, actions)))
            for dtype in (torch.float64, torch.float32)
        )
        assert narrow.dtype == torch.float32
        torch.testing.assert_close(narrow.double(), wide, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_multi_dimensional_box_is_a_product_of_its_dimensions(kind):
    low, high = np.array([[-1, 0], [2, -5]]), np.array([[1, 0.5], [7, 5]])
    space = gym.spaces.Box(low, high, dtype=np.float64)
    distribution = make_distribution(space, kind)
    assert distribution.num_outputs == 4
    rng = np.random.default_rng(0)
    y, p = torch.tensor(rng.normal(size=(7, 4))), torch.tensor(rng.normal(size=4))
    actions = torch.tensor(rng.uniform(low, high, (7, 2, 2)))
    total_log_prob, total_entropy = 0, 0
    for d, (i, j) in enumerate(np.ndindex(2, 2)):
        part = make_distribution(box(low[i, j], high[i, j]), kind)
        total_log_prob += part.log_prob(y[:, d : d + 1], p[d : d + 1], actions[:, i, j])
        total_entropy += part.entropy(y[:, d : d + 1], p[d : d + 1])
    torch.testing.assert_close(distribution.log_prob(y, p, actions), total_log_prob)
    torch.testing.assert_close(distribution.entropy(y, p), total_entropy)
    assert distribution.std(p).shape == (4,)
    sample = distribution.to_env(distribution.sample(y.numpy(), p.numpy(), rng))
    assert sample.shape == (7, 2, 2)
    assert all(a in space for a in sample)
    mean = (low + high) / 2 + (high - low) / 2 * np.tanh(y.numpy()).reshape(7, 2, 2)
    assert np.allclose(distribution.mode(y.numpy()), mean)


def test_categorical():
    space = gym.spaces.Discrete(3, start=5)
    distribution = make_distribution(space, "truncated_gaussian")
    assert (distribution.num_outputs, distribution.has_global_std) == (3, False)
    assert distribution.std(None) is None
    logits = torch.tensor([[0.0, 1.0, -2.0]], dtype=torch.float64).expand(3, 3)
    log_prob = distribution.log_prob(logits, None, torch.tensor([5, 6, 7]))
    probabilities = torch.softmax(logits[0], 0)
    torch.testing.assert_close(log_prob.exp(), probabilities)
    assert distribution.entropy(logits, None)[0].item() == pytest.approx(
        stats.entropy(probabilities.numpy())
    )
    samples = distribution.sample(
        np.repeat(logits[:1].numpy(), 5000, 0), None, np.random.default_rng(0)
    )
    assert samples.dtype == space.dtype
    assert stats.chisquare(np.bincount(samples - 5), 5000 * probabilities.numpy()).pvalue > 1e-3
    assert distribution.mode(logits.numpy()).tolist() == [6, 6, 6]
    extreme = distribution.sample(np.array([[1e4, -1e4, 0.0]]), None, np.random.default_rng(0))
    assert extreme.tolist() == [5]


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Box(-np.inf, np.inf, (2,)),
        gym.spaces.Box(np.float32([-1, 0]), np.float32([1, np.inf])),
        gym.spaces.Box(1.0, 1.0, (2,)),
        gym.spaces.Box(0, 5, (2,), dtype=np.int64),
        gym.spaces.MultiDiscrete([2, 3]),
        gym.spaces.Dict(a=gym.spaces.Discrete(2)),
        gym.spaces.Tuple([gym.spaces.Discrete(2)]),
    ],
)
def test_other_action_spaces_are_refused_as_everywhere(space):
    with pytest.raises(ValueError) as expected:
        check_action_space(space)
    assert str(space) in str(expected.value)
    unbounded = isinstance(space, gym.spaces.Box) and not space.is_bounded("both")
    for kind in [kind for kind in KINDS if not (unbounded and kind == "gaussian")]:
        with pytest.raises(ValueError) as error:
            make_distribution(space, kind)
        assert str(error.value) == str(expected.value)


def test_unknown_kind_is_named_in_the_error():
    message = r"'laplace'.*'gaussian'.*'truncated_gaussian'.*'beta'"
    with pytest.raises(ValueError, match=message):
        make_distribution(box(-1, 1), "laplace")


def test_a_box_without_bounds_has_a_gaussian_in_its_own_units():
    space = gym.spaces.Box(np.float32([-np.inf, 0]), np.float32([np.inf, np.inf]))
    policy = make_distribution(space, "gaussian")
    outputs, parameter = np.array([[3.0, -0.2]]), np.array([0.3, -0.4])
    std = np.log1p(np.exp(parameter))
    action = np.array([[2.5, 0.1]])
    expected = stats.norm.logpdf(action, outputs, std).sum(-1)
    np.testing.assert_allclose(policy.log_prob(outputs, parameter, action), expected, rtol=1e-12)
    entropy = stats.norm.entropy(outputs, std).sum(-1)
    np.testing.assert_allclose(policy.entropy(outputs, parameter), entropy, rtol=1e-12)
    drawn = policy.sample(np.repeat(outputs, 4000, 0), parameter, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(0), outputs[0], atol=0.06)
    np.testing.assert_allclose(drawn.std(0), std, rtol=0.05)
    assert policy.to_env(drawn)[:, 1].min() == 0, "within the bounds that there are"
    np.testing.assert_allclose(policy.mode(outputs), outputs)
