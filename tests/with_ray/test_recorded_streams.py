"""Recorded streams: the same data and weights as without them, whatever happens to the files."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from harness import Walk, built, tiny_config, train
from ray.tune.registry import register_env

from rllib_geoffpac import TD3Config
from rllib_geoffpac.env_runners import BehaviorEnvRunner
from rllib_geoffpac.lanes.fragments import Fragment
from rllib_geoffpac.lanes.positions import LaneAnchor
from rllib_geoffpac.lanes.recorded_stream import CHUNK_LENGTH
from rllib_geoffpac.lanes.stream_identity import describe_stream, stream_name

LANES = 3


class CountingWalk(Walk):
    """Counts what is done with all its instances."""

    made = steps = 0

    def __init__(self, config=None):
        super().__init__(config)
        CountingWalk.made += 1

    def step(self, action):
        CountingWalk.steps += 1
        return super().step(action)


class FragileWalk(Walk):
    """Fails once, in the first episode that lasts five steps."""

    broken = False

    def step(self, action):
        if self._time == 5 and not FragileWalk.broken:
            FragileWalk.broken = True
            raise OSError("lost")
        return super().step(action)


class MoodyWalk(Walk):
    """Not reproducible: noise that no seed governs."""

    def step(self, action):
        self._place = self._place + np.random.normal(size=2)
        return super().step(action)


class ByTheScore:
    """A behaviour policy of its own."""

    def sample(self, observation, rng):
        """Uniform."""
        return rng.uniform(-1, 1, 2).astype(np.float32), -2 * np.log(2)


def recording_config(folder, env=Walk, **env_config):
    config = tiny_config(num_lanes=LANES, env_config=env_config).environment(env)
    config.env_runners(experience_cache=None if folder is None else str(folder))
    config.fault_tolerance(restart_failed_sub_environments=True)
    return config


def sample(config, lengths, anchor=None) -> list[Fragment]:
    """The fragments of so many locksteps, by a runner of its own, from an anchor on."""
    runner = BehaviorEnvRunner(config=config)
    anchor = anchor or LaneAnchor.start(range(LANES))
    fragments = []
    for length in lengths:
        fragments.append(runner.sample(start=anchor.lockstep, num_locksteps=length, anchor=anchor))
        anchor = fragments[-1].end
    runner.stop()
    return fragments


def sources(fragments) -> list[str]:
    return [fragment.data_source for fragment in fragments]


def assert_same_data(fragments, others) -> None:
    for one, other in zip(fragments, others, strict=True):
        for parts in ((one, other), (one.end, other.end)):
            arrays = [f.name for f in fields(parts[0]) if f.name not in ("end", "seconds")]
            for name in arrays:
                mine, yours = (getattr(part, name) for part in parts)
                if isinstance(mine, np.ndarray):
                    assert mine.dtype == yours.dtype, name
                    np.testing.assert_array_equal(mine, yours, err_msg=name)
        assert one.finished == other.finished


def chunks(folder) -> list[Path]:
    return sorted(Path(folder).glob("*/lane-*/*.chunk"))


@pytest.mark.parametrize(
    "env_config",
    [
        {},
        {"discounts": True, "observation_space": gym.spaces.Discrete(4, start=2)},
        {"observation_space": gym.spaces.Box(-9, 9, (3, 1), np.float64), "end": 0.0},
    ],
)
def test_replayed_data_are_the_simulated_ones(tmp_path, env_config):
    lengths = [1, 7, 90, CHUNK_LENGTH + 3, 399]
    simulated = sample(recording_config(None, **env_config), lengths)
    recorded = sample(recording_config(tmp_path, **env_config), lengths)
    replayed = sample(recording_config(tmp_path, **env_config), lengths)
    assert sources(recorded) == ["simulated"] * 5 and sources(replayed) == ["replayed"] * 5
    assert_same_data(recorded, simulated)
    assert_same_data(replayed, simulated)


def test_the_fragments_may_be_cut_differently(tmp_path):
    sample(recording_config(tmp_path), [130] * 8)
    other_cut = [CHUNK_LENGTH - 30, 60, 510]
    replayed = sample(recording_config(tmp_path), other_cut)
    assert sources(replayed) == ["replayed"] * 3
    assert_same_data(replayed, sample(recording_config(None), other_cut))


def test_a_replayed_stream_needs_no_simulation(tmp_path):
    sample(recording_config(tmp_path, CountingWalk), [600])
    CountingWalk.made = CountingWalk.steps = 0
    sample(recording_config(tmp_path, CountingWalk), [600])
    assert (CountingWalk.made, CountingWalk.steps) == (1, 0)  # one for its spaces


def test_simulation_goes_on_where_the_record_ends(tmp_path):
    sample(recording_config(tmp_path), [650])
    lengths = [400, 400, 400]
    mixed = sample(recording_config(tmp_path), lengths)
    assert sources(mixed) == ["replayed", "mixed", "simulated"]
    assert_same_data(mixed, sample(recording_config(None), lengths))
    longer = sample(recording_config(tmp_path), lengths)
    assert sources(longer) == ["replayed"] * 3
    assert_same_data(longer, mixed)


@pytest.mark.parametrize("recorded", [0, 300, 1200])
def test_a_run_resumes_anywhere_in_a_chunk(tmp_path, recorded):
    lengths = [333, 400, 400]
    simulated = sample(recording_config(None), lengths)
    if recorded:
        sample(recording_config(tmp_path), [recorded])
    resumed = sample(recording_config(tmp_path), lengths[1:], simulated[0].end)
    assert_same_data(resumed, simulated[1:])


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data[:900] + bytes([data[900] ^ 1]) + data[901:],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    ],
    ids=["truncated", "empty", "altered", "checksum"],
)
def test_a_damaged_chunk_is_detected_and_simulated_again(tmp_path, damage, caplog):
    lengths = [250] * 4
    good = sample(recording_config(tmp_path), lengths)
    victim = chunks(tmp_path)[1]
    content = victim.read_bytes()
    victim.write_bytes(damage(content))
    again = sample(recording_config(tmp_path), lengths)
    assert_same_data(again, good)
    assert sum(fragment.events["recorded_chunks_damaged"] for fragment in again) == 1
    assert str(victim) in caplog.text and "simulated again" in caplog.text
    assert victim.read_bytes() == content
    assert sources(sample(recording_config(tmp_path), lengths)) == ["replayed"] * 4


def test_a_half_written_file_is_never_read_and_later_removed(tmp_path):
    sample(recording_config(tmp_path), [500])
    left_behind = chunks(tmp_path)[0].with_name(".00001.chunk.abc.tmp")
    left_behind.write_bytes(chunks(tmp_path)[0].read_bytes()[:1000])
    lengths = [500, 500]
    assert_same_data(
        sample(recording_config(tmp_path), lengths), sample(recording_config(None), lengths)
    )
    assert left_behind.exists()  # somebody may still be writing it
    os.utime(left_behind, (0, 0))
    sample(recording_config(tmp_path), [1500])
    assert not left_behind.exists()


def test_trials_may_record_the_same_stream_at_the_same_time(tmp_path):
    lengths = [100] * 12
    config = recording_config(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: sample(config.copy(), lengths), range(4)))
    simulated = sample(recording_config(None), lengths)
    for run in runs:
        assert_same_data(run, simulated)
    assert sources(sample(recording_config(tmp_path), lengths)) == ["replayed"] * 12
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_full_cache_is_said_once_and_the_run_goes_on(tmp_path, caplog):
    config = recording_config(tmp_path)
    config.env_runners(experience_cache_max_gb=60e3 / 1e9)
    lengths = [500] * 4
    fragments = sample(config, lengths)
    assert_same_data(fragments, sample(recording_config(None), lengths))
    assert caplog.text.count("experience_cache_max_gb") == 1
    size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert 0 < size <= 60e3


def test_a_folder_that_cannot_be_written_to_stops_nothing(tmp_path, caplog):
    (tmp_path / "file").touch()
    fragments = sample(recording_config(tmp_path / "file" / "cache"), [500, 500])
    assert_same_data(fragments, sample(recording_config(None), [500, 500]))
    assert caplog.text.count("can't be written to") == 1


def test_data_after_a_failure_of_the_environment_are_not_recorded(tmp_path):
    FragileWalk.broken = False
    config = recording_config(tmp_path, FragileWalk, end=0.0)
    failed = sample(config, [500, 500])
    assert failed[0].events["env_failures"] == 1
    assert {path.parent.name for path in chunks(tmp_path)} == {"lane-1", "lane-2"}
    later = sample(config, [500, 500])  # now it works
    assert later[0].data_source == "mixed"
    assert not np.array_equal(later[0].rewards, failed[0].rewards)
    assert_same_data(sample(config, [500, 500]), later)


def test_an_environment_that_is_not_reproducible_leaves_the_stream(tmp_path, caplog):
    config = recording_config(tmp_path, MoodyWalk, end=0.01, limit=300)
    recorded = sample(config, [450])
    beyond = sample(config, [450, 300])
    assert_same_data(beyond[:1], recorded)
    assert beyond[1].events["lanes_not_reproducible"] > 0
    assert "not deterministic" in caplog.text
    recorded_again = sample(config, [450])
    assert_same_data(recorded_again, recorded)  # nothing was added to it


def stream_of(config) -> str:
    return stream_name(describe_stream(config, Walk(config.env_config)))


def test_streams_are_shared_exactly_when_the_data_are_the_same(tmp_path):
    plain = stream_of(recording_config(tmp_path))
    same = recording_config(tmp_path).training(gamma=0.5, num_lanes=7, lr=0.1)
    assert stream_of(same.env_runners(num_env_runners=2)) == plain
    others = [
        recording_config(tmp_path).debugging(seed=1),
        recording_config(tmp_path, limit=9),
        recording_config(tmp_path, observation_space=gym.spaces.Discrete(4)),
        recording_config(tmp_path, CountingWalk),
        recording_config(tmp_path).env_runners(behavior=ByTheScore),
    ]
    assert len({plain, *map(stream_of, others)}) == 6


def test_an_edit_of_the_environment_starts_a_new_stream(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "edited_walk.py"
    file.write_text("from harness import Walk\n\nclass EditedWalk(Walk):\n    pass\n")
    import edited_walk

    before = stream_of(recording_config(tmp_path, edited_walk.EditedWalk))
    file.write_text(file.read_text() + "    bonus = 1\n")
    assert stream_of(recording_config(tmp_path, edited_walk.EditedWalk)) != before


def local_class():
    class LocalWalk(Walk):
        pass

    return LocalWalk


def exploring(config):
    cache = config.experience_cache
    return TD3Config().environment(Walk).env_runners(behavior="noise", experience_cache=cache)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.env_runners(experience_cache=3), "the path of a folder"),
        (lambda c: c.env_runners(experience_cache=""), "the path of a folder"),
        (lambda c: c.env_runners(experience_cache=__file__), "the path of a folder"),
        (lambda c: c.env_runners(experience_cache_max_gb=0), "experience_cache_max_gb"),
        (exploring, "follows the learned weights"),
        (lambda c: c.env_runners(behavior=lambda *_: ByTheScore()), "top level of an importable"),
        (lambda c: c.environment(local_class()), "top level of an importable"),
        (lambda c: c.environment("lambda_walk"), "top level of an importable"),
        (lambda c: c.environment(Walk, env_config={"f": lambda: 0}), "`env_config` (f)"),
    ],
)
def test_what_cannot_be_recorded_is_refused(tmp_path, change, words):
    register_env("lambda_walk", lambda config: Walk(config))
    config = change(recording_config(tmp_path))
    with pytest.raises(ValueError) as error:
        config.validate()
    assert "experience_cache" in str(error.value) and words in str(error.value)


def test_a_relative_path_is_meant_from_where_the_experiment_was_started(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_ORIG_WORKING_DIR", str(tmp_path))
    config = recording_config("streams")
    config.validate()
    assert config.experience_cache == str(tmp_path / "streams")


def test_the_weights_are_the_same_with_and_without_a_record(ray, tmp_path):
    def digests_and_sources(folder, runners=0):
        with built(recording_config(folder).env_runners(num_env_runners=runners)) as algo:
            results = train(algo, 3)
        return [r["weights_digest"] for r in results], {r["data_source"] for r in results}

    plain, _ = digests_and_sources(None)
    assert digests_and_sources(tmp_path) == (plain, {"simulated"})
    assert digests_and_sources(tmp_path) == (plain, {"replayed"})
    # Two runners look further ahead than was recorded.
    assert digests_and_sources(tmp_path, runners=2) == (plain, {"replayed"})


def test_a_restored_run_replays_too(ray, tmp_path):
    with built(recording_config(None)) as algo:
        digests = [result["weights_digest"] for result in train(algo, 4)]
    cache = tmp_path / "cache"
    with built(recording_config(cache)) as algo:
        train(algo, 3)
    with built(recording_config(cache)) as algo:
        train(algo, 1)
        checkpoint = algo.save_to_path(str(tmp_path / "checkpoint"))
    with built(recording_config(cache)) as algo:
        algo.restore_from_path(checkpoint)
        results = train(algo, 3)
    assert [result["weights_digest"] for result in results] == digests[1:]
    assert [result["data_source"] for result in results] == ["replayed", "replayed", "simulated"]
