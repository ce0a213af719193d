"""Half-written, unwritable, damaged and foreign checkpoints."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from fault_envs import DriftEnv
from small_runs import ROOT, built, digests, drift_config

from rllib_geoffpac import ACEConfig, GeoffPAC
from rllib_geoffpac.checkpoints import MANIFEST, CheckpointError, verify

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(scope="module")
def algorithm():
    with built(drift_config()) as algorithm:
        algorithm.train()
        yield algorithm


@pytest.fixture(scope="module")
def good(algorithm, tmp_path_factory):
    """A checkpoint, and the digest of its weights."""
    path = tmp_path_factory.mktemp("checkpoints") / "good"
    algorithm.save_to_path(path)
    return path, algorithm.weights_digest()


@pytest.fixture
def copy(good, tmp_path):
    """A copy of the good checkpoint, to be damaged."""
    return shutil.copytree(good[0], tmp_path / "copy")


@contextmanager
def full_disk(limit: int):
    """No file can grow beyond `limit` bytes, as on a disk that is almost full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_previous_checkpoint_good(algorithm, good, tmp_path):
    path = tmp_path / "checkpoint"
    algorithm.save_to_path(path)
    algorithm.train()
    with full_disk(10_000), pytest.raises(CheckpointError, match=r"can't be written.*free some"):
        algorithm.save_to_path(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]
    algorithm.restore_from_path(path)
    assert algorithm.weights_digest() == good[1]


def test_a_later_checkpoint_replaces_the_earlier_one_as_a_whole(algorithm, good, copy):
    algorithm.restore_from_path(good[0])
    digests(algorithm, 1)
    (copy / "notes.txt").write_text("mine")
    algorithm.save_to_path(copy)
    later = algorithm.weights_digest()
    assert later != good[1]
    algorithm.restore_from_path(good[0])
    algorithm.restore_from_path(copy)
    assert algorithm.weights_digest() == later
    assert (copy / "notes.txt").read_text() == "mine"


def test_a_process_killed_while_it_saves_leaves_no_half_checkpoint(tmp_path):
    """Kills a process that saves again and again, somewhere in the middle of it."""
    path = tmp_path / "checkpoint"
    program = f"""
import pyarrow.fs
from rllib_geoffpac.checkpoints import VerifiedCheckpoints

class Counter(VerifiedCheckpoints):
    count = 0
    def get_state(self, *args, **kwargs):
        return {{"count": self.count, "bulk": bytes(20_000_000)}}
    def set_state(self, state):
        self.count = state["count"]
    def get_ctor_args_and_kwargs(self):
        return (), {{}}

counter = Counter()
while True:
    counter.save_to_path({str(path)!r})
    counter.count += 1
    print(counter.count, flush=True)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE
    )
    for _ in range(3):
        process.stdout.readline()
    time.sleep(0.03)
    process.send_signal(signal.SIGKILL)
    process.wait()
    # Between the two renames of a replacement the earlier checkpoint waits beside its place.
    places = [path] if path.exists() else [p for p in tmp_path.iterdir() if (p / MANIFEST).exists()]
    assert verify(places[0]) == ["Counter"]


def damage_content(copy):
    file = copy / "learner_group" / "learner" / "state.pkl"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def truncate(copy):
    os.truncate(copy / "learner_group" / "learner" / "state.pkl", 1000)


def lose_a_file(copy):
    (copy / "algorithm_state.pkl").unlink()


def lose_the_manifest(copy):
    (copy / MANIFEST).unlink()


def damage_the_manifest(copy):
    (copy / MANIFEST).write_text((copy / MANIFEST).read_text()[:100])


def change_format(copy):
    manifest = json.loads((copy / MANIFEST).read_text())
    (copy / MANIFEST).write_text(json.dumps(manifest | {"format": 1}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_content, "is damaged: learner_group/learner/state.pkl differs.*earlier"),
        (truncate, "is damaged: learner_group/learner/state.pkl differs.*earlier"),
        (lose_a_file, "lacks algorithm_state.pkl.*earlier"),
        (lose_the_manifest, "no complete checkpoint.*interrupted.*earlier"),
        (damage_the_manifest, "is damaged: .*manifest.*earlier"),
        (change_format, "has format 1, this version of rllib_geoffpac reads format 2"),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_changes_nothing(algorithm, copy, damage, message):
    before = algorithm.weights_digest()
    damage(copy)
    with pytest.raises(CheckpointError, match=message) as raised:
        algorithm.restore_from_path(copy)
    assert str(copy) in str(raised.value)
    with pytest.raises(CheckpointError, match=message):
        GeoffPAC.from_checkpoint(copy)
    assert algorithm.weights_digest() == before


def test_a_checkpoint_of_another_algorithm_is_refused(algorithm, tmp_path):
    path = tmp_path / "ace"
    with built(ACEConfig().environment(DriftEnv)) as ace:
        ace.save_to_path(path)
    with pytest.raises(CheckpointError, match=r"is one of ACE, not of GeoffPAC.*ACE.from_check"):
        algorithm.restore_from_path(path)


def test_a_checkpoint_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no checkpoint"):
        GeoffPAC.from_checkpoint(tmp_path / "nothing")


def test_a_good_checkpoint_gives_the_algorithm_back(good):
    algorithm = GeoffPAC.from_checkpoint(good[0])
    assert algorithm.weights_digest() == good[1]
    algorithm.stop()
