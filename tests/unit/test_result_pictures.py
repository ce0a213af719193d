"""The pictures of the results, and the level lines in them."""

import gymnasium as gym
import numpy as np
import pytest
from matplotlib import pyplot as plt
from paper_runs import BUDGET, LEVELS, collected, robust_settings, write_trial

from paper import levels
from paper.entries import entries
from paper.levels import FALLING_TASKS, RANDOM
from paper.pictures import gamma_hat, grids
from paper.pictures.comparison import comparison
from paper.pictures.style import LINES
from rllib_cli.plot import drawing

GRID, LINE = "halfcheetah-grid-lambdas", "halfcheetah-grid-gamma-hat"


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def test_figure_6_shows_every_seed(tmp_path):
    for cell, (lambda_1, lambda_2) in enumerate([(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]):
        for seed in (0, 1):
            settings = {"lambda_1": lambda_1, "lambda_2": lambda_2}
            write_trial(tmp_path, seed, [0.0, cell - 9.0 * seed], **settings, experiment=GRID)
    for seed in (0, 1):
        write_trial(tmp_path, seed, [0.0, 2.0 + 4.0 * seed], experiment=LINE, gamma_hat=0.4)
    figure = grids.grids(collected(tmp_path), LEVELS[RANDOM])
    line, heat_map = figure.axes[:2]
    assert [2.0, 6.0] in [list(drawn.get_ydata()) for drawn in line.lines]
    shown = {text.get_text(): text for text in heat_map.texts}
    assert list(shown) == ["-4.5", "0  -9", "-2.5", "2  -7", "-3.5", "1  -8", "-1.5", "3  -6"]
    assert [shown[name].xy for name in ("1  -8", "2  -7")] == [(0, 1), (1, 0)]


def test_gamma_hat_is_compared_on_the_seeds_that_all_values_have(tmp_path):
    for value in (0.0, 0.2, 0.9):
        for seed in (0, 1):
            write_trial(tmp_path, seed, [-9.0, 10 * value + seed], gamma_hat=value)
    write_trial(tmp_path, 2, [-9.0, 99.0], gamma_hat=0.9)
    for value in (0.0, 0.9):  # two values are no curve
        write_trial(tmp_path, 0, [-9.0, 5.0], gamma_hat=value, value_baseline="ema")
    found = entries(collected(tmp_path))
    assert list(gamma_hat.lines(found, "Reacher-v5")) == ["paper"]
    above, below = gamma_hat.gamma_hat_curves(found, LEVELS).axes
    assert list(above.lines[0].get_xdata()) == [0.0, 0.2, 0.9]
    assert above.lines[0].get_color() == LINES["GeoffPAC", "paper"]["color"]
    names = [text.get_text() for text in above.get_legend().get_texts()]
    assert names == ["random agent", "Geoff-PAC, 2,000 steps"]
    assert list(above.lines[0].get_ydata()) == [0.5, 2.5, 9.5]
    assert list(below.lines[0].get_ydata()) == [0.25, 0.25, 0.25]


def test_algorithms_and_variants_share_a_panel(tmp_path):
    for seed in (0, 1):
        write_trial(tmp_path, seed, [-9.0, -1.0], **robust_settings(BUDGET))
        write_trial(tmp_path, seed, [-9.0, -7.0])
    found = entries(collected(tmp_path))
    compared = [("GeoffPAC", "robust"), ("GeoffPAC", "paper"), ("ACE", "paper")]
    figure = comparison(found, compared, "j_pi", LEVELS)
    (axes,) = figure.axes
    assert [line.get_ydata()[-1] for line in axes.lines] == [-1.0, -7.0, -18.0]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["Geoff-PAC, robust", "Geoff-PAC", RANDOM]
    assert comparison(found, compared[::-1], "j_pi", LEVELS) is None


def test_a_level_far_from_the_curves_is_named_instead_of_drawn():
    curves = {"ours": [(np.array([0.0, 1.0]), np.array([0.0, 10.0]))]}
    heights = {"near": {"a": 12.0}, "far": {"a": 1000.0}, "elsewhere": {"b": 5.0}}
    figure = drawing.curve_panels({"a": curves}, "y", "x", levels=heights)
    (axes,) = figure.axes
    assert [line.get_ydata()[0] for line in axes.lines[1:]] == [12.0]
    assert axes.get_ylim()[1] < 20
    assert [text.get_text() for text in axes.texts] == ["\u2191 far: 1,000"]


@pytest.mark.parametrize("task", FALLING_TASKS)
def test_standing_still_earns_what_the_environment_pays_for_it(task):
    env = gym.make(task)
    assert env.spec.max_episode_steps == levels.TIME_LIMIT
    env.reset(seed=0)
    assert env.unwrapped.healthy_reward == 1.0
    assert env.unwrapped.control_cost(np.zeros(env.action_space.shape)) == 0.0
    env.close()
    row = levels.standing_still().loc[task]
    lengths = np.arange(1, levels.TIME_LIMIT + 1)
    geometric = (1 - levels.GAMMA**lengths) / (1 - levels.GAMMA)
    assert row["return"] == levels.TIME_LIMIT
    assert row["j_pi"] == pytest.approx(geometric.mean())


def test_the_zero_action_was_measured_and_falls():
    table = levels.read()["zero action"]
    assert list(table.index) == FALLING_TASKS
    assert (table["length"] < levels.TIME_LIMIT).all()
    assert (table["return"] < levels.standing_still()["return"]).all()
