"""Reading data sets: RLlib's packed episodes, plain columns, Minari."""

import numpy as np
import pytest
from harness import Walk
from logged_data import columns_of, walk_episodes, write_columns, write_minari, write_packed

from rllib_geoffpac.data import DataError, DataSettings, open_data_set

pytestmark = pytest.mark.usefixtures("ray")

EPISODES = walk_episodes(10)


@pytest.fixture(params=["packed", "columns", "minari"])
def input_(request, tmp_path, monkeypatch) -> str:
    if request.param == "packed":
        return str(write_packed(tmp_path, EPISODES))
    if request.param == "columns":
        return str(write_columns(tmp_path, columns_of(EPISODES)))
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return write_minari("walk/uniform-v0", EPISODES)


def assert_same(logged, given) -> None:
    for name in ("observations", "actions", "rewards", "logp"):
        np.testing.assert_array_equal(getattr(logged, name), given[name])
    assert logged.rewards.dtype == logged.logp.dtype == np.float64
    assert (logged.terminated, logged.truncated) == (given["terminated"], given["truncated"])


def test_every_format_gives_the_episodes_in_order_and_again_from_any_of_them(input_):
    data = open_data_set(input_)
    logged = list(data.episodes())
    assert [episode.number for episode in logged] == list(range(10))
    for episode, given in zip(logged, EPISODES, strict=True):
        assert_same(episode, given)
    for first in (3, 7, 10):
        assert [episode.number for episode in data.episodes(first)] == list(range(first, 10))
        for episode in data.episodes(first):
            assert_same(episode, EPISODES[episode.number])


def test_the_metadata_tell_the_spaces(input_, request):
    data, walk = open_data_set(input_), Walk()
    spaces = data.observation_space, data.action_space
    told = "columns" not in request.node.name  # plain columns have no metadata
    assert spaces == ((walk.observation_space, walk.action_space) if told else (None, None))


def test_a_cut_episode_goes_on_in_the_next_row(tmp_path):
    whole = next(episode for episode in EPISODES if len(episode["actions"]) > 3)
    first = {**whole, "terminated": False, "truncated": False, "observations": None}
    first["observations"] = whole["observations"][:3]
    second = {**whole, "observations": whole["observations"][2:]}
    for name in ("actions", "rewards", "logp"):
        first[name], second[name] = whole[name][:2], whole[name][2:]
    write_packed(tmp_path, [first, second], per_file=1, ids=["a", "a"])
    (joined,) = open_data_set(str(tmp_path)).episodes()
    assert_same(joined, whole)


def test_a_schema_names_the_columns(tmp_path):
    columns = columns_of(EPISODES)
    columns["what_it_saw"] = columns.pop("obs")
    write_columns(tmp_path, columns)
    with pytest.raises(DataError, match=r"rows-0000\.parquet has no column 'obs'.*'what_it_saw'"):
        open_data_set(str(tmp_path))
    data = open_data_set(DataSettings(str(tmp_path), schema={"obs": "what_it_saw"}))
    assert_same(next(data.episodes()), EPISODES[0])
    with pytest.raises(DataError, match="no column 'saw', which `input_read_schema` names"):
        open_data_set(DataSettings(str(tmp_path), schema={"obs": "saw"}))


@pytest.mark.slow
def test_rows_of_another_kind_of_file_are_read_by_ray_data(tmp_path):
    import pandas as pd

    columns = {
        name: [np.asarray(v).tolist() for v in vs] for name, vs in columns_of(EPISODES).items()
    }
    pd.DataFrame(columns).to_json(tmp_path / "rows.json", orient="records", lines=True)
    data = open_data_set(DataSettings(str(tmp_path / "rows.json"), read_method="read_json"))
    logged = list(data.episodes())
    assert [len(episode) for episode in logged] == [len(e["actions"]) for e in EPISODES]
    np.testing.assert_allclose(logged[4].rewards, EPISODES[4]["rewards"])


def test_what_is_no_data_set_is_said_in_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"There is no data set at .*nowhere"):
        open_data_set(str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="holds no parquet file"):
        open_data_set(str(tmp_path))
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match=r"rows\.parquet can't be read .* damaged"):
        open_data_set(str(tmp_path))
    with pytest.raises(DataError, match="minari:nobody/nothing-v0 can't be opened"):
        open_data_set("minari:nobody/nothing-v0")


def test_rows_out_of_order_and_missing_final_observations_are_found(tmp_path):
    columns = columns_of(EPISODES)
    swapped = {name: [*values[1::-1], *values[2:]] for name, values in columns.items()}
    assert not any(columns["terminateds"][:2] + columns["truncateds"][:2])
    with pytest.raises(DataError, match=r"rows-0000\.parquet, episode 0, step 0: its next obs"):
        list(open_data_set(str(write_columns(tmp_path / "swapped", swapped))).episodes())
    del columns["new_obs"]
    cut = next(n for n, episode in enumerate(EPISODES) if episode["truncated"])
    folder = str(write_columns(tmp_path / "final", columns))
    with pytest.raises(DataError, match=rf"episode {cut}, step 5: its final observation is miss"):
        list(open_data_set(folder).episodes())
    zeros = list(open_data_set(DataSettings(folder, ignore_final_observation=True)).episodes())
    assert not zeros[cut].observations[-1].any()
