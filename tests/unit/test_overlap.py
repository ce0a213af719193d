"""The overlap and its force against finite MDPs; the multiplier's steps."""

import numpy as np
import pytest
from array_libraries import assert_same, every_library
from finite_mdp_paths import paths
from finite_mdps import random_teleporting_mdp
from forward_rows import forward_case

from rllib_geoffpac.maths.gradient_limits import overlap_force
from rllib_geoffpac.maths.overlap import actor_scale, force_weight, multiplier_step, overlap
from rllib_geoffpac.maths.tables import score

CASE = forward_case(random_teleporting_mdp, seed=7)
CLIP = 1.2


def all_ratios():
    everything = paths(CASE.mdp, 1)
    rho = (CASE.policy / CASE.mdp.behavior)[everything.states[0], everything.actions[0]]
    return everything, rho


def test_the_overlap_is_the_mean_of_the_clipped_ratio():
    everything, rho = all_ratios()
    copies = np.random.default_rng(0).choice(rho, 400_000, p=everything.probability)
    assert overlap(copies, CLIP) == pytest.approx(CASE.mdp.overlap(CASE.policy, CLIP), abs=2e-3)
    assert overlap(np.ones(3), 2.0) == 1.0


def test_the_force_averages_to_its_limit_and_vanishes_without_a_clip():
    everything, rho = all_ratios()
    directions = score(CASE.logits)[everything.states[0], everything.actions[0]]

    def force(clip):
        weight = force_weight(rho, np.array(0.5), np.array(3.0), clip)
        return everything.mean(weight[:, None] * directions)

    expected = 1.5 * overlap_force(CASE.mdp, CASE.policy, CLIP)
    np.testing.assert_allclose(force(CLIP), expected, atol=1e-12)
    assert abs(expected).max() > 1e-2
    np.testing.assert_allclose(force(np.inf), 0, atol=1e-12)


def test_following_the_force_raises_the_overlap():
    logits = CASE.logits.copy()
    before = CASE._replace(logits=logits).mdp.overlap(CASE.policy, CLIP)
    for _ in range(2000):
        policy = CASE._replace(logits=logits).policy
        logits = logits + 0.2 * overlap_force(CASE.mdp, policy, CLIP).reshape(logits.shape)
    after = CASE.mdp.overlap(CASE._replace(logits=logits).policy, CLIP)
    assert before < 0.97
    assert after > 0.999


@pytest.mark.parametrize(
    ("multiplier", "measured", "expected"),
    [(0.5, 0.2, 0.502), (0.5, 0.9, 0.495), (0.001, 1.0, 0.0), (9.999, 0.1, 10.0)],
)
def test_the_multiplier_rises_while_the_overlap_is_too_small_and_stays_in_its_range(
    multiplier, measured, expected
):
    step = multiplier_step(
        np.array(multiplier), np.array(measured), target=0.4, rate=0.01, highest=10.0
    )
    assert step == pytest.approx(expected)


def test_the_scale_is_that_of_the_actors_own_weights():
    weight, rho = np.array([1.0, -1.0, 3.0, 1.0]), np.array([1.0, 5.0, 1.0, 1.0])
    root_mean_square = np.sqrt((3 + 4) / 4)
    assert actor_scale(weight, rho, 2.0) == pytest.approx(weight.std() / root_mean_square)
    assert actor_scale(weight, 0 * rho, 2.0) == pytest.approx(weight.std())


@every_library
def test_every_array_library_gives_the_same(library):
    rng = np.random.default_rng(0)
    weight, rho = rng.normal(size=9), rng.uniform(0, 3, 9)
    assert_same(library, overlap, rho, rho_clip=2.0)
    assert_same(library, actor_scale, weight, rho, rho_clip=2.0)
    assert_same(library, force_weight, rho, np.array(0.3), np.array(2.0), rho_clip=2.0)
    numbers = {"target": 0.4, "rate": 0.01, "highest": 10.0}
    assert_same(library, multiplier_step, np.array(0.3), np.array(0.2), **numbers)
