"""One simulated lane: steps its environment with the behaviour policy, episode after episode."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np

from rllib_geoffpac.envs.observations import (
    is_structured,
    make_encoder,
    observation_dtype,
    observation_shape,
)
from rllib_geoffpac.lanes.behavior import BehaviorPolicy, UniformBehavior
from rllib_geoffpac.lanes.events import (
    ENV_FAILURES,
    LANES_NOT_REPRODUCIBLE,
    LANES_RESIMULATED,
    EventCounts,
)
from rllib_geoffpac.lanes.fragments import LaneColumns, Spent
from rllib_geoffpac.lanes.positions import LanePosition
from rllib_geoffpac.lanes.seeding import behavior_stream

logger = logging.getLogger(__name__)

# Actions are drawn in blocks of this size: the episode's action stream is defined by them.
_ACTION_BLOCK = 128


class EnvironmentFailure(RuntimeError):
    """An environment raised, or returned something that can't be learned from."""


class SimulatedLane:
    """One environment instance; its data are a pure function of (seed, lane, episode, step).

    Args:
        make_env: Makes a fresh environment (called again after a failure).
        make_behavior: Makes the behaviour policy of an environment.
        seed: The experiment's seed.
        lane: This lane's number.
        max_failures: How many failures in a row of the environment are survived; 0: none.
    """

    def __init__(
        self,
        make_env: Callable[[], gym.Env],
        make_behavior: Callable[[gym.Env], BehaviorPolicy],
        seed: int,
        lane: int,
        max_failures: int = 0,
    ):
        self._make_env = make_env
        self.data_source = "simulated"
        self.seed, self.lane, self.max_failures = seed, lane, max_failures
        self.env = make_env()
        self.behavior = make_behavior(self.env)
        self._encode = make_encoder(self.env.observation_space)
        self.episode, self.step, self.episode_return = 0, 0, 0.0
        self.events = EventCounts()
        self._spent = Spent()
        self._observation: Any = None  # as the environment gave it; None before the first reset
        self._chain_starts = True
        self._failures_in_a_row = 0
        self._block: np.ndarray = np.empty(0)  # actions drawn ahead
        self._block_index = _ACTION_BLOCK
        self._checked_kind: Any = None  # dtype or type of observations that was found good
        self.starts: list[tuple[int, int, int]] = []
        """Where the latest rows belong: (row, episode, step) of the first row of each episode."""

    @property
    def observation(self) -> np.ndarray:
        """The current observation, flat, as it travels."""
        return self._encode(self._observation)

    @property
    def position(self) -> LanePosition:
        """Where the lane stands, after its first reset."""
        return LanePosition(
            self.episode, self.step, self.observation, self.episode_return, self._chain_starts
        )

    def run(self, count: int) -> LaneColumns:
        """Makes `count` transitions."""
        columns = self._allocate(count)
        if self._observation is None:
            self._reset()
        columns.observations[0] = self.observation
        self.starts = [(0, self.episode, self.step)]
        t = 0
        while t < count:
            try:
                t = self._run_episodes(columns, t, count)
            except EnvironmentFailure:
                raise
            except Exception as error:
                t = len(columns.rewards)
                if t:
                    # The state where the environment failed stays the successor of the
                    # transition that led to it; the lane itself goes on somewhere else.
                    columns.final.setdefault(t - 1, columns.observations[t].copy())
                self._new_episode_after_failure(error, "step")
                columns.observations[t] = self.observation
                self.starts.append((t, self.episode, 0))
        self._check(columns)
        columns.spent, self._spent = self._spent, Spent()
        return columns

    def _allocate(self, count: int) -> LaneColumns:
        observations, actions = self.env.observation_space, self.env.action_space
        shape, dtype = observation_shape(observations), observation_dtype(observations)
        return LaneColumns(
            np.empty((count + 1, *shape), dtype),
            np.empty((count, *(actions.shape or ())), actions.dtype),
            terminated=np.zeros(count, bool),
            truncated=np.zeros(count, bool),
            chain_start=np.zeros(count, bool),
        )

    def seek(self, position: LanePosition) -> None:
        """Brings the lane to a position by simulating its episode again from the start."""
        self.episode, self._chain_starts = position.episode, position.chain_starts
        if position.observation is None:
            self._observation = None
            return
        self.events[LANES_RESIMULATED] += 1
        self._reset()
        if self.episode != position.episode:  # its reset failed, and the next episode has begun
            return
        try:
            for _ in range(position.step):
                action, _ = self._next_action()
                self._observation, _, terminated, truncated, _ = self.env.step(action)
                if terminated or truncated:
                    break
                self.step += 1
        except Exception as error:
            self._new_episode_after_failure(error, "step")
            return
        if self.step == position.step and np.array_equal(self.observation, position.observation):
            self.episode_return = position.episode_return
            return
        logger.warning(
            "%s is not deterministic given its reset seed: lane %d could not be brought back to "
            "step %d of episode %d, so it starts a new episode and its traces restart.",
            self.name,
            self.lane,
            position.step,
            position.episode,
        )
        self.events[LANES_NOT_REPRODUCIBLE] += 1
        self.episode += 1
        self._chain_starts = True
        self._reset()

    def skip_episode(self) -> None:
        """Goes on with the next episode, wherever this one stands."""
        self.episode += 1
        self._chain_starts = True
        self._reset()

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()

    @property
    def name(self) -> str:
        """What to call the environment in messages."""
        return self.env.spec.id if self.env.spec else type(self.env.unwrapped).__name__

    def failure(self, what: str, episode: int, step: int) -> EnvironmentFailure:
        """Returns an error that says where it happened and how to see it again."""
        reset_seed, _ = behavior_stream(self.seed, self.lane, episode)
        return EnvironmentFailure(
            f"{self.name}, lane {self.lane}, episode {episode}, step {step}: {what}. To reproduce: "
            f"reset(seed={reset_seed}), then the actions of behavior_stream(seed={self.seed}, "
            f"lane={self.lane}, episode={episode})."
        )

    def _run_episodes(self, columns: LaneColumns, t: int, count: int) -> int:
        """The hot loop: steps from row t to row `count`, through the ends of episodes."""
        step_env, next_action = self.env.step, self._next_action
        encode = self._encode if is_structured(self.env.observation_space) else None
        shape = self.env.observation_space.shape or ()
        observations = columns.observations
        if encode is None:
            observations = observations.reshape(-1, *shape)
        actions = columns.actions
        rewards, discounts, logps = columns.rewards, columns.discounts, columns.behavior_logp
        assert isinstance(rewards, list) and isinstance(discounts, list) and isinstance(logps, list)
        nan, spent = np.nan, self._spent
        while t < count:
            if self._chain_starts:
                columns.chain_start[t] = True
                self._chain_starts = False
            action, logp = next_action()
            began = perf_counter()
            observation, reward, terminated, truncated, info = step_env(action)
            spent.steps += perf_counter() - began
            # All that can raise comes before the first append: a row is complete or absent.
            if encode is None:
                if getattr(observation, "shape", ()) != shape:
                    _check_shape(observation, shape)
                if getattr(observation, "dtype", type(observation)) is not self._checked_kind:
                    self._check_kind(observation)
                observations[t + 1] = observation
            else:
                observations[t + 1] = encode(observation)
            self._observation = observation
            reward, discount = float(reward), float(info.get("discount", nan))
            actions[t] = action
            rewards.append(reward)
            discounts.append(discount)
            logps.append(logp)
            self.episode_return += reward
            self.step += 1
            t += 1
            if terminated or truncated:
                columns.finished.append((t - 1, self.episode_return, self.step))
                if terminated:
                    columns.terminated[t - 1] = True
                else:
                    columns.truncated[t - 1] = True
                    columns.final[t - 1] = columns.observations[t].copy()
                self._failures_in_a_row = 0
                self.episode += 1
                self._reset()
                step_env = self.env.step
                columns.observations[t] = self.observation
                self.starts.append((t, self.episode, 0))
        return t

    def _next_action(self) -> tuple[Any, float]:
        behavior = self.behavior
        if type(behavior) is not UniformBehavior:
            return behavior.sample(self._observation, self._rng)
        index = self._block_index
        if index == _ACTION_BLOCK:
            self._block = behavior.sample_block(self._rng, _ACTION_BLOCK)
            index = 0
        self._block_index = index + 1
        return self._block[index], behavior.log_density

    def _reset(self) -> None:
        """Starts the episode `self.episode`; a failing one is skipped, if failures are survived."""
        reset_seed, self._rng = behavior_stream(self.seed, self.lane, self.episode)
        self._block_index = _ACTION_BLOCK
        self.step, self.episode_return = 0, 0.0
        try:
            began = perf_counter()
            self._observation, _ = self.env.reset(seed=reset_seed)
            self._spent.resets += perf_counter() - began
            self._spent.num_resets += 1
            if is_structured(self.env.observation_space):
                self._encode(self._observation)  # which finds out whether it can be
            else:
                _check_shape(self._observation, self.env.observation_space.shape or ())
                self._check_kind(self._observation)
        except Exception as error:
            self._new_episode_after_failure(error, "reset")

    def _new_episode_after_failure(self, error: Exception, where: str) -> None:
        self._survive(error, where)
        with contextlib.suppress(Exception):  # It is broken already.
            self.env.close()
        while True:
            try:
                self.env = self._make_env()
                break
            except Exception as again:
                self._survive(again, "the constructor")
        self.episode += 1
        self._chain_starts = True
        self._reset()

    def _survive(self, error: Exception, where: str) -> None:
        """Counts a failure of the environment; raises it when there were too many in a row."""
        self.events[ENV_FAILURES] += 1
        self._failures_in_a_row += 1
        if self._failures_in_a_row > self.max_failures:
            what = f"{where} raised {type(error).__name__}: {error}"
            raise self.failure(what, self.episode, self.step) from error
        logger.warning(
            "%s failed in %s (lane %d, episode %d, step %d: %s); the lane starts a new episode.",
            self.name,
            where,
            self.lane,
            self.episode,
            self.step,
            error,
        )

    def _place(self, row: int) -> tuple[int, int]:
        """Returns the episode and the step of one of the latest rows."""
        first, episode, step = next(start for start in reversed(self.starts) if start[0] <= row)
        return episode, step + row - first

    def _check(self, columns: LaneColumns) -> None:
        """Refuses what would poison the learner, naming the first bad transition."""
        discounts = np.asarray(columns.discounts)
        checks = [
            ("reward", ~np.isfinite(columns.rewards), columns.rewards),
            ("log-density of mu", ~np.isfinite(columns.behavior_logp), columns.behavior_logp),
            ("discount (allowed: 0 to 1)", (discounts < 0) | (discounts > 1), columns.discounts),
        ]
        for name, bad, values in checks:
            if bad.any():
                row = int(bad.argmax())
                raise self.failure(f"the {name} is {values[row]}", *self._place(row))
        for row, observation in columns.final.items():
            if self._is_bad(observation[None])[0]:
                raise self.failure(f"the observation is {observation}", *self._place(row))
        for row in np.flatnonzero(self._is_bad(columns.observations)).tolist():
            what = f"the observation is {columns.observations[row]}"
            if any(row == first and not step for first, _, step in self.starts):
                raise self.failure(f"{what} after reset", *self._place(row))
            raise self.failure(what, *self._place(max(0, row - 1)))

    def _is_bad(self, observations: np.ndarray) -> np.ndarray:
        """[N] whether an observation of [N, ...] is not finite, or not one of the states."""
        space = self.env.observation_space
        if isinstance(space, gym.spaces.Discrete):
            return (observations < space.start) | (observations >= space.start + space.n)
        return ~np.isfinite(observations).all(axis=1)

    def _check_kind(self, observation: Any) -> None:
        """Refuses an observation whose conversion to the space's numbers would lose something."""
        space = self.env.observation_space
        dtype = np.asarray(observation).dtype
        kinds = "iub" if isinstance(space, gym.spaces.Discrete) else "fiub"
        bytes_expected = observation_dtype(space) == np.uint8
        if dtype.kind not in kinds or (bytes_expected and not np.can_cast(dtype, np.uint8)):
            raise TypeError(f"the observation has dtype {dtype} instead of {space.dtype}")
        self._checked_kind = getattr(observation, "dtype", type(observation))


def _check_shape(observation: Any, shape: tuple[int, ...]) -> None:
    if np.shape(observation) != shape:
        raise ValueError(f"the observation has shape {np.shape(observation)} instead of {shape}")
