"""Truncated traces against the running ones and their limits; the learned emphasis at cuts."""

import numpy as np
import pytest
import torch
from array_libraries import assert_same, every_library
from finite_mdp_paths import paths
from finite_mdps import random_continuing_mdp, random_episodic_mdp, random_teleporting_mdp
from forward_rows import forward_case

from rllib_geoffpac.maths import emphasis, forward_view
from rllib_geoffpac.maths.emphasis import (
    emphasis_loss,
    emphasis_target,
    mixed_emphasis,
    truncated_followon,
    truncated_score_weights,
)
from rllib_geoffpac.maths.emphatic import emphatic_traces
from rllib_geoffpac.maths.tables import score

CASES = {
    "continuing": forward_case(random_continuing_mdp, seed=5),
    "episodic": forward_case(random_episodic_mdp, seed=6),
    "teleporting": forward_case(random_teleporting_mdp, seed=7),
}


def trajectory(steps=6, columns=4, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "rho": rng.uniform(0, 2, (steps, columns)),
        "discount": rng.choice([0.0, 0.5, 0.9], (steps, columns)),
        "density_ratio": rng.uniform(0, 2, (steps, columns)),
        "interest": rng.uniform(0, 2, (steps, columns)),
    }, rng.normal(size=(steps, columns, 3))


@pytest.mark.parametrize("cut", [None, 0, 2, 4])
def test_a_window_gives_what_the_running_traces_have_after_it(cut):
    """A cut after transition `cut` leaves what traces have that start at the state behind it."""
    data, scores = trajectory()
    steps, numbers = 5, {"gamma_hat": 0.8, "lambda_1": 0.7, "lambda_2": 0.6}
    connected = np.ones((steps, 4))
    start = 0
    if cut is not None:
        connected[cut] = 0
        start = cut + 1
    f1 = truncated_followon(
        data["interest"] * data["density_ratio"], data["rho"][:5], data["discount"][:5], connected
    )
    weights = truncated_score_weights(
        data["density_ratio"][:5], data["rho"][:5], connected, gamma_hat=0.8, lambda_2=0.6
    )
    m2 = sum(weight[:, None] * score for weight, score in zip(weights, scores[:5], strict=True))
    for column in range(4):
        part = {name: table[start:, column] for name, table in data.items()}
        traces = emphatic_traces(**part, score=scores[start:, column], **numbers)
        assert f1[column] == pytest.approx(traces.f1[-1], abs=1e-12)
        np.testing.assert_allclose(m2[column], traces.m2[-1], atol=1e-12)


def measured_terms(case, length, lambda_1, lambda_2, **change):
    """Z1 and Z2 from windows of `length` transitions, averaged over all paths."""
    everything = paths(case.mdp, length + 1)
    before, here, there = everything.states[:-2], everything.states[-2], everything.states[-1]
    rho = (case.policy / case.mdp.behavior)[everything.states[:-1], everything.actions]
    scores = score(case.logits)[everything.states[:-1], everything.actions]
    c, i, v = case.density_ratio, case.mdp.interest, case.values
    window = {
        "weighted_interest": (i * c)[everything.states[:-1]],
        "rho": rho[:-1],
        "discount": everything.discounts[:-1],
        "connected": np.ones_like(rho[:-1]),
        "density_ratio": c[before],
    } | {name: changed(everything) for name, changed in change.items()}
    f1 = truncated_followon(
        window["weighted_interest"], window["rho"], window["discount"], window["connected"]
    )
    weights = truncated_score_weights(
        window["density_ratio"],
        window["rho"],
        window["connected"],
        gamma_hat=case.gamma_hat,
        lambda_2=lambda_2,
    )
    delta = everything.rewards[-1] + everything.discounts[-1] * v[there] - v[here]
    m1 = mixed_emphasis(i[here], c[here], f1, lambda_1=lambda_1)
    first = everything.mean(forward_view.first_weight(rho[-1], m1, delta)[:, None] * scores[-1])
    outer = case.gamma_hat * i[here] * v[here]
    second = sum(
        everything.mean((outer * weight)[:, None] * direction)
        for weight, direction in zip(weights, scores, strict=False)
    )
    return {"first": first, "second": second}


def exact_terms(case, length, lambda_1, lambda_2):
    terms = case.mdp.limits(
        case.policy,
        gamma_hat=case.gamma_hat,
        lambda_1=lambda_1,
        lambda_2=lambda_2,
        density_ratio=case.density_ratio,
        values=case.values,
        emphasis="truncated",
        trace_length=length,
    )
    return terms._asdict()


@pytest.mark.parametrize("lambdas", [(1.0, 1.0), (0.7, 0.6)])
@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_windows_average_to_the_limits_of_truncated_traces(name, length, lambdas):
    measured = measured_terms(CASES[name], length, *lambdas)
    for term, expected in exact_terms(CASES[name], length, *lambdas).items():
        np.testing.assert_allclose(measured[term], expected, atol=1e-12)


MISTAKES = {
    "gamma one transition late": (
        "first",
        {"discount": lambda everything: everything.discounts[1:]},
    ),
    "no discount": ("first", {"discount": lambda everything: 0 * everything.discounts[:-1] + 1}),
    "teleports cut the window": (
        "second",
        {"connected": lambda everything: 1.0 * (everything.discounts[:-1] > 0)},
    ),
    "C missing": (
        "second",
        {"density_ratio": lambda everything: np.ones_like(everything.rewards[:-1])},
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("name", ["episodic", "teleporting"])
def test_a_mistake_in_the_window_is_found(name, mistake):
    term, change = MISTAKES[mistake]
    measured = measured_terms(CASES[name], 2, 1.0, 1.0, **change)[term]
    assert abs(measured - exact_terms(CASES[name], 2, 1.0, 1.0)[term]).max() > 1e-3


def test_a_window_of_nothing_is_the_interest_and_no_second_term():
    nothing = np.zeros((0, 3))
    f1 = truncated_followon(np.ones((1, 3)), nothing, nothing, nothing)
    assert f1.tolist() == [1, 1, 1]
    assert truncated_score_weights(nothing, nothing, nothing, gamma_hat=0.5, lambda_2=1.0) == []


def test_where_f1_restarts_the_learned_emphasis_is_told_so():
    """After a termination (gamma 0) and after a cut the target is i C of the state that follows."""
    i, c, m = (np.full(3, number) for number in (2.0, 0.5, 7.0))
    target = emphasis_target(
        i, c, np.array([0.0, 0.9, 0.9]), np.full(3, 3.0), m, np.array([True, False, True])
    )
    np.testing.assert_allclose(target, [1.0, 1.0, 1.0 + 0.9 * 3 * 7])


def test_the_gradient_of_ms_loss_moves_the_state_that_follows():
    m = torch.tensor([1.0, 4.0], requires_grad=True)
    emphasis_loss(m, torch.tensor([3.0, 2.0])).backward()
    assert m.grad.tolist() == [-1.0, 1.0]


@pytest.mark.slow
@every_library
def test_every_array_library_gives_the_same(library):
    data, _ = trajectory()
    connected = np.ones((5, 4))
    connected[1, 2] = 0
    i, c, rho, discount = (data[name] for name in ("interest", "density_ratio", "rho", "discount"))
    assert_same(library, truncated_followon, i * c, rho[:5], discount[:5], connected)
    numbers = {"gamma_hat": 0.8, "lambda_2": 0.6}
    assert_same(library, truncated_score_weights, c[:5], rho[:5], connected, **numbers)
    assert_same(library, mixed_emphasis, i, c, rho, lambda_1=0.3)
    assert_same(library, emphasis_target, i[:5], c[:5], discount[:5], rho[:5], c[1:], connected)
    assert_same(library, emphasis.emphasis_loss, i, c)
    assert_same(library, forward_view.counterfactual_td_error, i, c, rho, i, gamma_hat=0.8)
    assert_same(library, forward_view.mixed_counterfactual_value, i, c, rho, lambda_2=0.8)
    assert_same(library, forward_view.counterfactual_value_loss, rho[:5], c[:5], connected)
    assert_same(library, forward_view.first_weight, rho, c, i)
    assert_same(library, forward_view.second_weight, rho[:5], c[:5], i[:5], connected)
    target = forward_view.counterfactual_action_value_target
    assert_same(library, target, i, c, rho, gamma_hat=0.8)
