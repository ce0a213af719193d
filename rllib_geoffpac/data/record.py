"""Records the lanes of a config as a data set, without learning anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym

from rllib_geoffpac.data.data_set import MINARI
from rllib_geoffpac.data.episodes import DataError
from rllib_geoffpac.data.writing import EpisodeWriter, make_writer
from rllib_geoffpac.env_runners.behavior_env_runner import BehaviorEnvRunner
from rllib_geoffpac.lanes.fragments import Fragment
from rllib_geoffpac.lanes.positions import LaneAnchor

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

_CHUNK = 100  # locksteps
_PATIENCE = 100_000  # locksteps after the asked-for ones for the last episodes to end


class Recorded(NamedTuple):
    """What was recorded."""

    place: str
    episodes: int
    steps: int


def record_data(config: AlgorithmConfig, out: str, num_steps: int, **metadata: Any) -> Recorded:
    """Writes what the lanes of a config see, for anybody to learn from.

    The data set holds the very episodes that the algorithms learn from with this config
    (environment, seed, `num_lanes`, behaviour), whole and as many of each lane: a few more steps
    than asked for. An algorithm that reads it with as many lanes learns the same weights, bit for
    bit, as from the simulation. In an environment without a time limit whose episodes don't end,
    they are cut one step later, as truncated.

    Args:
        config: Any of our configs, e.g. `GeoffPACConfig().environment("Reacher-v5")`.
        out: A folder or URI that holds no data set yet (RLlib's episodes in parquet files, with
            `action_logp`), or `minari:DATASET-ID`.
        num_steps: Transitions of all lanes, at least.
        metadata: Of a Minari data set: arguments of `minari.create_dataset_from_buffers`.

    Raises:
        DataError: If it can't be written, or if episodes don't come to an end.

    Example:
        >>> config = GeoffPACConfig().environment("Reacher-v5")  # doctest: +SKIP
        >>> record_data(config, "~/logs/reacher", 10_000)  # doctest: +SKIP
    """
    config = config.copy(copy_frozen=False)
    config.offline_data(output=out.removeprefix(MINARI))  # to the lanes: keep your episodes
    config.validate()
    runner = BehaviorEnvRunner(config=config, worker_index=0, num_workers=0)
    try:
        env = runner.recording_lanes[0].env.env  # as others can make it: without the recorder
        writer = make_writer(out, env, config.num_lanes, **metadata)
        _record(runner, writer, -(-num_steps // config.num_lanes), env)
        writer.flush()
    finally:
        runner.stop()
    return Recorded(out, writer.written, writer.steps)


def _record(runner: BehaviorEnvRunner, writer: EpisodeWriter, asked: int, env: gym.Env) -> None:
    """Simulates `asked` locksteps, and on until all lanes have as many whole episodes."""
    anchor = LaneAnchor.start(range(writer.num_lanes))

    def simulate(count: int) -> Fragment:
        return runner.sample(start=anchor.lockstep, num_locksteps=count, anchor=anchor)

    while anchor.lockstep < asked:
        fragment = simulate(min(_CHUNK, asked - anchor.lockstep))
        writer.add(fragment.episodes)
        anchor = fragment.end
    rounds = int((anchor.episodes + (anchor.steps > 0)).max())
    may_never_end = env.spec is None or env.spec.max_episode_steps is None
    while anchor.episodes.min() < rounds:
        if anchor.lockstep > asked + _PATIENCE:
            raise DataError(
                f"An episode of {env} has not ended {_PATIENCE} steps after the {asked} of each "
                "lane: give the environment a time limit."
            )
        cuts = may_never_end and anchor.episodes.min() == rounds - 1
        fragment = simulate(1 if cuts else _CHUNK)
        writer.add(fragment.episodes, rounds)
        anchor = fragment.end
        if cuts:
            writer.add([lane.cut() for lane in runner.recording_lanes], rounds)
            break
