"""The behaviour data as a Minari dataset."""

import numpy as np
import pytest

from rllib_geoffpac import GeoffPACConfig
from rllib_geoffpac.env_runners import BehaviorEnvRunner
from rllib_geoffpac.lanes.positions import LaneAnchor

minari = pytest.importorskip("minari")


def test_the_dataset_holds_the_transitions_that_the_algorithms_learn_from(tmp_path, monkeypatch):
    from rllib_geoffpac.lanes.minari_export import export_minari

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    config = GeoffPACConfig().environment("Reacher-v5").training(num_lanes=2)
    dataset = export_minari(config, "reacher/uniform-v0", 120)

    runner = BehaviorEnvRunner(config=config, worker_index=0, num_workers=0)
    fragment = runner.sample(start=0, num_locksteps=120, anchor=LaneAnchor.start(range(2)))
    episodes = list(dataset)
    assert [len(episode) for episode in episodes] == [50, 50, 20, 50, 50, 20]
    for lane in range(2):
        of_lane = episodes[3 * lane : 3 * lane + 3]
        rewards = np.concatenate([episode.rewards for episode in of_lane])
        actions = np.concatenate([episode.actions for episode in of_lane])
        np.testing.assert_allclose(rewards, fragment.rewards[:, lane], rtol=1e-6)
        np.testing.assert_array_equal(actions, fragment.actions[:, lane])
