"""Odd data sets: what is taken all the same, and what is said of what can't be."""

import re

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness import Walk
from logged_data import columns_of, walk_episodes, write_columns, write_packed
from ray.rllib.algorithms.ppo import PPOConfig

from rllib_geoffpac.data import DataError, DataSettings, survey
from rllib_geoffpac.data.densities import logged_density

EPISODES = walk_episodes(60)
COLUMNS = columns_of(EPISODES)
COUNT = len(COLUMNS["obs"])
SPACES = Walk().observation_space, Walk().action_space
IMAGES = gym.spaces.Box(0, 255, (4, 4, 3), np.uint8)
PICTURES = np.random.default_rng(0).integers(0, 255, (COUNT + 1, 4, 4, 3), dtype=np.uint8)
THIRD = [-np.log(3.0)] * COUNT
ROW = next(row for row in range(COUNT) if COLUMNS["eps_id"][row] == 1) + 1  # episode 1, step 1


def surveyed(input_, spaces=SPACES, num_lanes=5, **settings) -> survey.Survey:
    return survey.survey_data(DataSettings(input_, **settings), spaces, "uniform", num_lanes)


def refusal(input_, *arguments, **settings) -> str:
    with pytest.raises(DataError) as raised:
        surveyed(input_, *arguments, **settings)
    return str(raised.value)


def with_value(name: str, value) -> dict[str, list]:
    """The columns with another value in step 1 of episode 1."""
    return {**COLUMNS, name: [*COLUMNS[name][:ROW], value, *COLUMNS[name][ROW + 1 :]]}


def without(*names: str) -> dict[str, list]:
    return {name: values for name, values in COLUMNS.items() if name not in names}


TAKEN = {
    "float64 observations and actions": {
        name: [np.asarray(value, np.float64) for value in COLUMNS[name]]
        for name in ("obs", "new_obs", "actions")
    },
    "whole rewards": {"rewards": [1] * COUNT},
    "numbers in lists of one": {
        name: [[value] for value in COLUMNS[name]]
        for name in ("rewards", "terminateds", "truncateds", "action_logp")
    },
    "flags as numbers": {"terminateds": [float(value) for value in COLUMNS["terminateds"]]},
    "text as episodes' ids": {"eps_id": [f"episode {number}" for number in COLUMNS["eps_id"]]},
    "a column of infos": {"infos": [{"a": 1.0}] * COUNT},
}


@pytest.mark.parametrize("name", TAKEN)
def test_columns_of_other_types_are_taken(name, tmp_path):
    found = surveyed(str(write_columns(tmp_path, {**COLUMNS, **TAKEN[name]}, 100)))
    assert (found.episodes, found.steps) == (60, COUNT)


@pytest.mark.parametrize("codec", ["gzip", "zstd", "brotli", "none"])
def test_any_compression_of_parquet_is_read(codec, tmp_path):
    pq.write_table(pa.table(COLUMNS), tmp_path / "rows.parquet", compression=codec)
    assert surveyed(str(tmp_path)).steps == COUNT


def test_files_lie_in_nested_folders_and_hidden_ones_are_no_data(tmp_path, monkeypatch):
    write_columns(tmp_path / "a" / "b c#%20", COLUMNS)
    for hidden in ("a/.rows.parquet", "a/_rows.parquet", "_temporary/rows.parquet"):
        (tmp_path / hidden).parent.mkdir(exist_ok=True)
        (tmp_path / hidden).write_bytes(b"no data")
    monkeypatch.chdir(tmp_path)
    for name in ("a", "./a/", f"file://{tmp_path}", str(tmp_path / "a" / "b c#%20")):
        assert surveyed(name).steps == COUNT


def test_images_are_read_from_lists_in_lists(tmp_path):
    following = [
        PICTURES[0 if end else row + 1]
        for row, end in enumerate(np.logical_or(COLUMNS["terminateds"], COLUMNS["truncateds"]))
    ]
    columns = {
        **COLUMNS,
        "obs": [picture.tolist() for picture in PICTURES[:-1]],
        "new_obs": [picture.tolist() for picture in following],
    }
    found = surveyed(str(write_columns(tmp_path, columns, 100)), (IMAGES, SPACES[1]))
    first = next(found.data.episodes())
    np.testing.assert_array_equal(first.observations[:-1], PICTURES[: len(first)])


def test_one_episode_and_episodes_of_one_step_are_enough(tmp_path):
    one = str(write_columns(tmp_path / "one", columns_of(EPISODES[:1])))
    assert surveyed(one, num_lanes=1).episodes == 1
    assert "has 1 episode for `num_lanes`=5" in refusal(one)
    short = [
        {**episode, "observations": episode["observations"][:2], "terminated": True}
        | {name: episode[name][:1] for name in ("actions", "rewards", "logp")}
        for episode in EPISODES
    ]
    assert surveyed(str(write_columns(tmp_path / "short", columns_of(short)))).steps == 60


VALUES = {
    "a missing observation": (with_value("obs", None), "'obs' is None, which is no array"),
    "a missing action": (with_value("actions", None), "'actions' is None, which is no array"),
    "a missing reward": (with_value("rewards", None), "the reward is nan"),
    "a missing log-density": (with_value("action_logp", None), "log-density of mu is nan"),
    "a missing flag": (with_value("terminateds", None), "'terminateds' is missing; allowed"),
    "a flag that is none": (
        {**COLUMNS, "truncateds": [0.5 if row == ROW else 0.0 for row in range(COUNT)]},
        "'truncateds' is 0.5; allowed is true or false",
    ),
    "observations of two shapes": (
        with_value("obs", COLUMNS["obs"][ROW][:2]),
        r"'obs' has shape \(2,\) after \(3,\)",
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_that_is_none_is_told_with_file_episode_and_step(name, tmp_path):
    columns, says = VALUES[name]
    said = refusal(str(write_columns(tmp_path, columns, 100)))
    assert re.match(rf"/.*rows-0000\.parquet, episode 1, step 1: .*{says}", said)


OF_ALL = {
    "text for rewards": ({"rewards": ["a"] * COUNT}, "'rewards' is 'a', which is no"),
    "text for flags": ({"terminateds": ["False"] * COUNT}, "'terminateds' is 'False', which"),
    "two rewards": ({"rewards": [[1.0, 2.0]] * COUNT}, r"shape \(2,\); allowed is one number"),
    "named observations": ({"obs": [{"x": 1.0}] * COUNT}, "'x': 1.0.*, which is no array"),
}


@pytest.mark.parametrize("name", OF_ALL)
def test_a_column_of_another_kind_is_told_at_its_first_row(name, tmp_path):
    changed, says = OF_ALL[name]
    said = refusal(str(write_columns(tmp_path, {**COLUMNS, **changed}, 100)))
    assert re.search(rf"episode 0, step 0: the value of .*{says}", said)


def test_the_step_is_counted_over_files(tmp_path):
    table = pa.table(with_value("obs", None))
    pq.write_table(table.slice(0, ROW), tmp_path / "a.parquet")
    pq.write_table(table.slice(ROW), tmp_path / "b.parquet")
    assert re.search(r"b\.parquet, episode 1, step 1: the value", refusal(str(tmp_path)))


def test_discrete_actions_are_whole_numbers(tmp_path):
    spaces = SPACES[0], gym.spaces.Discrete(3)
    actions = np.random.default_rng(0).integers(0, 3, COUNT)
    columns = {**COLUMNS, "action_logp": THIRD, "actions": actions.astype(np.int32).tolist()}
    assert surveyed(str(write_columns(tmp_path / "whole", columns)), spaces).steps == COUNT
    columns["actions"] = actions.astype(np.float64).tolist()
    said = refusal(str(write_columns(tmp_path / "float", columns)), spaces)
    assert "the actions have dtype float64 instead of int64. Log them as integers." in said


def test_files_of_two_kinds_are_no_data_set(tmp_path):
    mixed = write_packed(write_columns(tmp_path / "mixed", COLUMNS), EPISODES)
    assert "is of another kind than the files before it" in refusal(str(mixed))
    late = write_columns(tmp_path / "late", without("action_logp"))
    pq.write_table(pa.table(COLUMNS), late / "z.parquet")
    assert re.search(r"z\.parquet, episode 60: it has log-densities", refusal(str(late)))
    early = write_columns(tmp_path / "early", COLUMNS)
    pq.write_table(pa.table(without("action_logp")), early / "z.parquet")
    assert re.search(r"z\.parquet, episode 60: its log-densities .* missing", refusal(str(early)))
    lost = tmp_path / "lost"
    lost.mkdir()
    pq.write_table(pa.table(COLUMNS).slice(0, ROW), lost / "a.parquet")
    pq.write_table(pa.table(without("rewards", "new_obs")).slice(ROW), lost / "b.parquet")
    assert re.search(r"b\.parquet has no column 'rewards'", refusal(str(lost)))
    pq.write_table(pa.table(without("new_obs")).slice(ROW), lost / "b.parquet")
    assert re.search(r"episode 1, .*: the column 'new_obs' is not here", refusal(str(lost)))


@pytest.mark.parametrize(
    ("input_", "says"),
    [
        ("good/*.parquet", "There is no data set at .* Patterns are not expanded"),
        ("", "'' names no data set"),
        ((), r"\(\) names no data set"),
        (("good", "minari:walk/uniform-v0"), "can't be a part of a list"),
        ("file://good", "'file://good' can't be reached .* file:///absolute/path"),
        ("http://localhost/a.parquet", "can't be reached .* s3://bucket/folder"),
        ("empty", "'empty' holds no parquet file"),
        ("rows.csv", r"rows\.csv can't be read .* no parquet file"),
        ("cut", r"rows-0001\.parquet can't be read .* damaged"),
    ],
)
def test_what_names_no_data_set_is_said_in_a_sentence(input_, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_columns(tmp_path / "good", COLUMNS)
    (tmp_path / "empty").mkdir()
    (tmp_path / "rows.csv").write_text("obs,actions\n1,2\n")
    damaged = write_columns(tmp_path / "cut", COLUMNS) / "rows-0001.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    assert re.search(says, refusal(input_))


def test_a_misspelt_key_of_the_schema_is_refused(tmp_path):
    folder = str(write_columns(tmp_path, COLUMNS, 100))
    said = refusal(folder, schema={"reward": "rewards"})
    assert "`input_read_schema` has no key 'reward'. Did you mean 'rewards'?" in said
    assert surveyed(folder, schema={"t": "time", "infos": "more"}).steps == COUNT  # RLlib's own


@pytest.mark.slow
def test_what_ppo_writes_is_read_with_its_densities(ray, tmp_path):
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, batch_mode="complete_episodes")
        .training(train_batch_size=100, minibatch_size=100, num_epochs=1)
        .offline_data(output=str(tmp_path), output_write_episodes=True, output_max_rows_per_file=2)
    )
    ppo = config.build_algo()
    ppo.train()
    ppo.stop()
    found = surveyed(str(tmp_path), (None, None), num_lanes=1)  # it tells its spaces
    assert found.action_space == gym.spaces.Discrete(2)
    assert found.density is logged_density and found.episodes >= 2
