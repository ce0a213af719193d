"""The part of the configuration that is about logged data: RLlib's `.offline_data()`."""

from __future__ import annotations

import os
from typing import Any

import gymnasium as gym
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.utils.annotations import override

from rllib_geoffpac.data.data_set import MINARI
from rllib_geoffpac.data.densities import ESTIMATED
from rllib_geoffpac.data.record import Recorded, record_data
from rllib_geoffpac.env_runners import BehaviorEnvRunner, LoggedEnvRunner
from rllib_geoffpac.env_runners.callbacks import sampling_hooks
from rllib_geoffpac.envs.make_env import make_env

_SAMPLER = "sampler"


class DataConfig(AlgorithmConfig):
    """Learning from a data set: `input_` and what belongs to it."""

    behavior: Any
    experience_cache: str | None
    env_runner_cls: Any
    input_: Any
    output: Any

    @property
    def explores(self) -> bool:
        """Whether the behaviour follows the learned policy."""
        return False

    @property
    def has_data(self) -> bool:
        """Whether a data set is learned from."""
        return self.input_ not in (None, _SAMPLER)

    @property
    def reads_data(self) -> bool:
        """Whether the lanes are those of a data set; evaluation has none."""
        return self.has_data and not self.in_evaluation

    @property
    @override(AlgorithmConfig)
    def is_offline(self) -> bool:
        return False  # to RLlib: lanes are read by env runners, in order, and not by `OfflineData`

    def record_data(self, out: str, num_steps: int) -> Recorded:
        """Writes what the lanes of this config see, see `rllib_geoffpac.data.record`."""
        return record_data(self, out, num_steps)

    def known_spaces(self) -> tuple[gym.Space | None, gym.Space | None]:
        """Observation and action space as far as they are known without the data."""
        if self.env is None:
            return self.observation_space, self.action_space
        env = make_env(self)
        env.close()
        return env.observation_space, env.action_space

    def _validate_data(self) -> None:
        """What can't be together with a data set."""
        if self.input_filesystem is None:  # else it says what a path means
            several = not isinstance(self.input_, str)
            self.input_ = [*map(_absolute, self.input_)] if several else _absolute(self.input_)
        if self.explores:
            self._value_error(
                "`behavior` is 'noise', but the actions of logged data (`input_`) are fixed: use "
                "'uniform' (or the logged log-densities), a policy, or 'estimated'."
            )
        if self.experience_cache is not None:
            self._value_error(
                f"`experience_cache` is {self.experience_cache!r}, but logged data (`input_`) are "
                "not simulated: leave one of the two out."
            )
        hooks = sorted(sampling_hooks(self))
        if hooks:
            self._value_error(
                f"The callback `{hooks[0]}` asks for environments or episodes, of which logged "
                "data (`input_`) have none: leave it out."
            )
        if self.env is None and (self.evaluation_interval or self.evaluation_num_env_runners):
            self._value_error(
                f"`evaluation_interval` is {self.evaluation_interval!r}, but there is no `env` in "
                "which pi could be played: give one, or leave evaluation out."
            )
        if self.env_runner_cls is BehaviorEnvRunner:
            self.env_runner_cls = LoggedEnvRunner

    def _validate_output(self) -> None:
        """What can't be together with writing a data set."""
        self.output = _absolute(self.output)
        obstacle = None
        if self.has_data:
            obstacle = "`input_` is a data set already"
        elif self.explores:
            obstacle = "with `behavior`='noise' the actions have no known log-densities"
        elif self.experience_cache is not None:
            obstacle = "`experience_cache` hands out what was recorded before without episodes"
        if obstacle:
            self._value_error(
                f"`output` is {self.output!r}, but {obstacle}: leave one of them out."
            )
        self.batch_mode = "complete_episodes"  # RLlib asks for it: whole episodes are written

    def _is_density(self) -> bool:
        """Whether `behavior` is something that has log-densities of logged actions alone."""
        behavior = self.behavior
        return self.has_data and (
            (isinstance(behavior, str) and behavior == ESTIMATED) or hasattr(behavior, "logp")
        )


def _absolute(path: str) -> str:
    """Tune's trials run in folders of their own: a relative path is meant from where one began."""
    if path.startswith(MINARI) or "://" in path:
        return path
    started_in = os.environ.get("TUNE_ORIG_WORKING_DIR", "")
    return os.path.abspath(os.path.join(started_in, os.path.expanduser(path)))
