"""What others read of the Minari data sets that are recorded here: Minari itself, and d3rlpy.

d3rlpy wants another gymnasium than Ray does, so it lives in a Python of its own, and only a test
with its path in RLLIB_D3RLPY_PYTHON runs it.
"""

import os
import subprocess

import numpy as np
import pytest

from rllib_geoffpac import GeoffPACConfig
from rllib_geoffpac.data.record import record_data

minari = pytest.importorskip("minari")

NAME = "reacher/uniform-v0"
D3RLPY = """
import d3rlpy, minari, numpy

data = list(minari.load_dataset("reacher/uniform-v0"))
columns = d3rlpy.dataset.MDPDataset(
    observations=numpy.concatenate([e.observations[:-1] for e in data]).astype("float32"),
    actions=numpy.concatenate([e.actions for e in data]),
    rewards=numpy.concatenate([e.rewards for e in data]),
    terminals=numpy.concatenate([e.terminations for e in data]),
    timeouts=numpy.concatenate([e.truncations for e in data]),
)
cql = d3rlpy.algos.CQLConfig(batch_size=16).create()
quiet = d3rlpy.logging.NoopAdapterFactory()
cql.fit(columns, n_steps=2, n_steps_per_epoch=2, show_progress=False, logger_adapter=quiet)
own, env = d3rlpy.datasets.get_minari("reacher/uniform-v0")
print("episodes:", len(data), len(columns.episodes), len(own.episodes), env.spec.id)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where Minari keeps a data set of two episodes of Reacher."""
    folder = tmp_path_factory.mktemp("minari")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(folder))
        config = GeoffPACConfig().environment("Reacher-v5").training(num_lanes=2)
        record_data(config, f"minari:{NAME}", 100)
        yield folder


def test_the_environment_can_be_made_from_the_data_set(folder):
    data = minari.load_dataset(NAME)
    env = data.recover_environment()
    assert env.spec.id == "Reacher-v5"
    assert (env.observation_space, env.action_space) == (data.observation_space, data.action_space)
    env.close()


def test_columns_have_a_row_per_step_and_each_episode_one_end(folder):
    data = minari.load_dataset(NAME)
    assert data.total_steps == 100 and data.total_episodes == 2
    for episode in data:
        steps = len(episode.actions)
        assert len(episode.observations) == steps + 1 and len(episode.rewards) == steps
        ends = np.flatnonzero(episode.terminations | episode.truncations)
        np.testing.assert_array_equal(ends, [steps - 1])


@pytest.mark.slow
@pytest.mark.skipif("RLLIB_D3RLPY_PYTHON" not in os.environ, reason="needs d3rlpy: opt-in")
def test_d3rlpy_learns_from_it(folder):
    ran = subprocess.run(
        [os.environ["RLLIB_D3RLPY_PYTHON"], "-c", D3RLPY], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "episodes: 2 2 2 Reacher-v5"
