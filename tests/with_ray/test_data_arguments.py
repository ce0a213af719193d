"""RLlib's arguments of `offline_data` about how to read: each changes what is read."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from harness import digests, tiny_config
from logged_data import columns_of, walk_episodes, write_columns
from pyarrow import fs
from ray.rllib.utils.compression import pack

from rllib_geoffpac import GeoffPACConfig
from rllib_geoffpac.data import DataError, DataSettings, open_data_set

EPISODES = walk_episodes(10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_columns(tmp_path_factory.mktemp("data"), columns_of(EPISODES))


def read(input_, **arguments) -> list:
    """The episodes as a config with these arguments reads them."""
    config = GeoffPACConfig().offline_data(input_=str(input_), **arguments)
    config.validate()
    return list(open_data_set(DataSettings.of(config)).episodes())


def assert_all_read(episodes) -> None:
    assert len(episodes) == len(EPISODES)
    for episode, given in zip(episodes, EPISODES, strict=True):
        np.testing.assert_allclose(episode.observations, given["observations"], rtol=1e-6)
        np.testing.assert_allclose(episode.rewards, given["rewards"], rtol=1e-6)


def test_a_schema_names_columns(tmp_path):
    columns = columns_of(EPISODES)
    columns["score"] = columns.pop("rewards")
    write_columns(tmp_path, columns)
    assert_all_read(read(tmp_path, input_read_schema={"rewards": "score"}))
    with pytest.raises(DataError, match="has no column 'rewards'"):
        read(tmp_path)


@pytest.mark.slow
def test_a_read_method_and_its_arguments_are_ray_data_s(ray, tmp_path):
    columns = {
        name: [np.asarray(v).tolist() for v in vs] for name, vs in columns_of(EPISODES).items()
    }
    pd.DataFrame(columns).to_json(tmp_path / "rows.lines", orient="records", lines=True)
    # Ray Data takes files of the extensions that it is told, and has no such by itself.
    how = {"input_read_method": "read_json"}
    assert_all_read(read(tmp_path, **how, input_read_method_kwargs={"file_extensions": ["lines"]}))
    with pytest.raises(DataError, match="can't be read"):
        read(tmp_path, **how)


def test_columns_and_resources_are_what_read_parquet_may_be_told(folder):
    without = [name for name in columns_of(EPISODES) if name != "action_logp"]
    episodes = read(folder, input_read_method_kwargs={"columns": without, "num_cpus": 0.5})
    assert_all_read(episodes)
    assert all(episode.logp is None for episode in episodes)
    assert read(folder)[0].logp is not None
    assert_all_read(read(folder, input_read_method_kwargs={"override_num_blocks": 8}))
    with pytest.raises(DataError, match="`input_read_method_kwargs` has 'shuffle'; allowed"):
        read(folder, input_read_method_kwargs={"shuffle": "files"})


def test_a_file_system_says_what_a_path_means(folder):
    inside = fs.SubTreeFileSystem(str(folder.parent), fs.LocalFileSystem())
    assert_all_read(read(folder.name, input_filesystem=inside))
    with pytest.raises(DataError, match="There is no data set"):
        read(folder.name)
    with pytest.raises(DataError, match="`input_filesystem` is 'floppy'; allowed"):
        read(folder, input_filesystem="floppy")


@contextmanager
def storage(folder: Path):
    """The part of S3 that reading a file needs; yields its address."""

    class Storage(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_file(with_content=False)

        def do_GET(self):
            self.send_file(with_content=True)

        def send_file(self, with_content):
            path = folder / self.path.partition("?")[0].removeprefix("/bucket/")
            if not path.is_file():
                self.send_error(404)
                return
            content = path.read_bytes()
            first, _, last = self.headers.get("Range", "bytes=0-")[6:].partition("-")
            part = content[int(first) : int(last or len(content)) + 1]
            self.send_response(206 if "Range" in self.headers else 200)
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            if with_content:
                self.wfile.write(part)

        def log_message(self, *args):
            """Nothing on the screen."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Storage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_file_system_gets_its_arguments(tmp_path):
    write_columns(tmp_path, columns_of(EPISODES), rows_per_file=1000)
    with storage(tmp_path) as address:
        arguments = {"endpoint_override": address, "scheme": "http", "anonymous": True}
        episodes = read(
            "s3://bucket/rows-0000.parquet",
            input_filesystem="s3",
            input_filesystem_kwargs={**arguments, "region": "here"},
        )
    assert_all_read(episodes)
    with pytest.raises(DataError, match=r"'s3' .*\['speed'\] \(`input_filesystem_kwargs`\)"):
        read("s3://a/b", input_filesystem="s3", input_filesystem_kwargs={"speed": 9})


def test_compressed_columns_are_unpacked(tmp_path):
    columns = columns_of(EPISODES)
    for name in ("obs", "new_obs"):
        columns[name] = [pack(value) for value in columns[name]]
    write_columns(tmp_path, columns)
    assert_all_read(read(tmp_path))
    assert_all_read(read(tmp_path, input_compress_columns=["obs"]))
    with pytest.raises(DataError, match=r"the value of 'obs' is .* no array of numbers"):
        read(tmp_path, input_compress_columns=[])


@pytest.mark.slow
def test_actions_in_units_of_the_box_are_scaled_back(ray, tmp_path):
    """Half of an action is its place in a box of twice the size, with four times its density."""
    box = {"action_space": gym.spaces.Box(-2.0, 2.0, (2,), np.float32)}
    episodes, found = walk_episodes(20, **box), []
    for unit in (False, True):
        logged = [
            {**e, "actions": e["actions"] / 2, "logp": e["logp"] + 2 * np.log(2)} if unit else e
            for e in episodes
        ]
        folder = write_columns(tmp_path / str(unit), columns_of(logged))
        config = tiny_config(env_config=box)
        config.offline_data(input_=str(folder), actions_in_input_normalized=unit)
        found.append(digests(config, 1))
    assert found[0] == found[1]
