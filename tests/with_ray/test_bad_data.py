"""What is refused of logged data before anything is learned, and that each check is needed."""

import inspect
import re
import types

import gymnasium as gym
import numpy as np
import pytest
from harness import Walk
from logged_data import columns_of, walk_episodes, write_columns

from rllib_geoffpac.data import DataError, DataSettings, claims, files, fitting, survey
from rllib_geoffpac.data import plain_columns as rows

EPISODES = walk_episodes(60)
COLUMNS = columns_of(EPISODES)
SPACES = Walk().observation_space, Walk().action_space
CUT = next(n for n, episode in enumerate(EPISODES) if episode["truncated"])


def changed(number: int, **columns):
    """The columns with some values of one episode changed: column=(step, value)."""
    episodes = [dict(episode) for episode in EPISODES]
    for name, (step, value) in columns.items():
        values = np.array(episodes[number][name])
        values[step] = value
        episodes[number][name] = values
    return columns_of(episodes)


def every(change) -> dict[str, list]:
    """The columns with a change of every episode."""
    return columns_of([{**episode, **change(episode)} for episode in EPISODES])


def open_ended(number: int) -> dict[str, list]:
    """The columns with one episode that has no end."""
    episodes = list(EPISODES)
    episodes[number] = {**EPISODES[number], "terminated": False, "truncated": False}
    return columns_of(episodes)


def without(name: str, columns: dict[str, list]) -> dict[str, list]:
    """All columns but one."""
    return {column: values for column, values in columns.items() if column != name}


def out_of_order() -> dict[str, list]:
    """The first two rows exchanged."""
    return {name: [*v[1::-1], *v[2:]] for name, v in COLUMNS.items()}


def discrete(logp: float) -> dict[str, list]:
    """Three actions in turn."""
    return every(
        lambda e: {
            "actions": np.arange(len(e["actions"])) % 3,
            "logp": np.full(len(e["actions"]), logp),
        }
    )


BAD_DATA = {
    "a NaN reward": (changed(7, rewards=(1, np.nan)), r"episode 7, step 1: the reward is nan"),
    "an infinite observation": (
        changed(8, observations=(1, np.inf)),
        r"episode 8, step 1: the observation is \[inf inf inf\]",
    ),
    "a NaN action": (changed(9, actions=(0, np.nan)), r"episode 9, step 0: the action is \[nan"),
    "an action above the box": (
        changed(9, actions=(0, 1.5)),
        r"episode 9, step 0: the action is \[1.5 1.5\], which is .*not in Box",
    ),
    "an action below the box": (
        changed(9, actions=(0, -1.5)),
        r"episode 9, step 0: the action is \[-1.5 -1.5\], which is .*not in Box",
    ),
    "a NaN log-density": (
        changed(3, logp=(0, np.nan)),
        r"episode 3, step 0: the log-density of mu",
    ),
    "a log-density above what is possible": (
        changed(3, logp=(0, 40.0)),
        r"episode 3, step 0: the log-density of mu is 40.0; at most 30.5 is possible",
    ),
    "densities instead of their logarithms": (
        every(lambda episode: {"logp": np.exp(episode["logp"])}),
        r"these are densities instead of their logarithms",
    ),
    "probabilities instead of their logarithms": (
        discrete(1 / 3),
        r"episode 0, step 0: .* are these probabilities instead",
    ),
    "a fourth of three actions": (
        {**discrete(np.log(1 / 3)), "actions": [3] * len(COLUMNS["actions"])},
        r"episode 0, step 0: the action is 3",
    ),
    "actions that are not uniform": (
        without("action_logp", every(lambda episode: {"actions": episode["actions"] ** 3})),
        r"no log-densities of mu, .* set `behavior`",
    ),
    "an episode without an end": (open_ended(4), r"episode 4, step \d: it has no end"),
    "a missing final observation": (
        without("new_obs", COLUMNS),
        rf"episode {CUT}, step 5: its final observation is miss",
    ),
    "rows out of order": (out_of_order(), r"episode 0, step 0: its next observation"),
    "a discount above 1": (
        {**COLUMNS, "discount": [1.0, 1.5] + [1.0] * (len(COLUMNS["obs"]) - 2)},
        r"episode 0, step 1: the discount is 1.5",
    ),
    "another observation space": (
        every(lambda episode: {"observations": episode["observations"][:, :2]}),
        r"episode 0, step 0: the observations have shape \(2,\) .* not of the observation space",
    ),
    "another action space": (
        every(lambda episode: {"actions": episode["actions"][:, :1]}),
        r"episode 0, step 0: the actions have shape \(1,\) instead of \(2,\)",
    ),
}
OF_THE_WHOLE = ("densities instead of their logarithms", "actions that are not uniform")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A data set for each mistake, written when it is asked for."""
    made: dict = {}

    def folder(name: str):
        if name not in made:
            made[name] = tmp_path_factory.mktemp("bad")
            write_columns(made[name], BAD_DATA[name][0], 100)
        return made[name]

    return folder


def refusal(folder, name: str = "") -> str:
    """What is said of a data set; nothing, if it is taken."""
    spaces = (SPACES[0], gym.spaces.Discrete(3)) if "probab" in name or "three" in name else SPACES
    try:
        survey.survey_data(DataSettings(str(folder)), spaces, "uniform", 5)
    except DataError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_are_refused_with_file_episode_and_step(name, folders):
    said = refusal(folders(name), name)
    assert re.search(BAD_DATA[name][1], said)
    assert name in OF_THE_WHOLE or re.match(r"/.*rows-\d+\.parquet, episode", said)


def test_the_last_episode_of_a_lane_may_be_open(tmp_path):
    assert refusal(write_columns(tmp_path / "good", COLUMNS, 100)) == ""
    assert refusal(write_columns(tmp_path / "open", open_ended(55), 100)) == ""
    assert "has no end" in refusal(write_columns(tmp_path / "early", open_ended(54), 100))


NO = "if False:"
MUTANTS = {
    "a NaN reward": (fitting, '_check_finite(fitted, "reward", fitted.rewards)', "pass"),
    "an infinite observation": (
        fitting, "return ~np.isfinite(values)", "return np.isnan(values)",
    ),
    "a NaN action": (
        fitting, "bad = _outside(actions, space)\n        if isinstance",
        "bad = np.zeros(len(actions), bool)\n        if not isinstance",
    ),
    "an action above the box": (fitting, " & (actions <= space.high)", ""),
    "an action below the box": (fitting, "(actions >= space.low) & ", ""),
    "a NaN log-density": (fitting, '_check_finite(episode, "log-density of mu", logp)', "pass"),
    "a log-density above what is possible": (
        fitting, "bad = logp > self.max_logp + 1e-6", "bad = logp > np.inf",
    ),
    "densities instead of their logarithms": (
        claims, "box.log_volume_scale + box.size * np.log(2)", "box.log_volume_scale",
    ),
    "probabilities instead of their logarithms": (fitting, "return 0.0", "return 1.0"),
    "a fourth of three actions": (fitting, "values >= space.start + space.n", "values < 0"),
    "actions that are not uniform": (
        claims, "if statistic[worst] > freedom + _DEVIATIONS * np.sqrt(2 * freedom):", NO,
    ),
    "an episode without an end": (survey, "if episode.number < episodes - num_lanes:", NO),
    "a missing final observation": (rows, "elif not episode.terminated:", "elif False:"),
    "rows out of order": (rows, "if not same.all():", NO),
    "a discount above 1": (fitting, " | (fitted.discounts > 1)", ""),
    "another observation space": (
        fitting, "shape = (len(episode) + 1, *(space.shape or ()))", "shape = given.shape",
    ),
    "another action space": (
        fitting, "shape = (len(episode), *(space.shape or ()))", "shape = given.shape",
    ),
}  # fmt: skip


def test_every_check_has_a_mutant():
    assert MUTANTS.keys() == BAD_DATA.keys()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_check_that_is_left_out_is_noticed(name, folders, monkeypatch):
    module, right, wrong = MUTANTS[name]
    source = inspect.getsource(module)
    assert source.count(right) == 1
    mutant = types.ModuleType(module.__name__)
    exec(compile(source.replace(right, wrong), module.__name__, "exec"), vars(mutant))
    for home in (fitting, claims, rows, survey, files):
        for attribute, value in list(vars(mutant).items()):
            own = getattr(value, "__module__", None) == module.__name__
            if own and attribute in vars(home):
                monkeypatch.setattr(home, attribute, value)
    try:
        said = refusal(folders(name), name)
    except (ValueError, IndexError, TypeError) as error:  # it goes on with what can't be
        said = f"{type(error).__name__}: {error}"
    assert not re.search(BAD_DATA[name][1], said)
