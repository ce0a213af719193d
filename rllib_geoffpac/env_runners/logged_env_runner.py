"""Reads its share of the lanes from a data set: no environment, no simulation."""

from __future__ import annotations

from typing import Any

from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.utils.annotations import override

from rllib_geoffpac.connectors.pipelines import spaces_of
from rllib_geoffpac.data.survey import Survey
from rllib_geoffpac.env_runners.behavior_env_runner import BehaviorEnvRunner
from rllib_geoffpac.lanes.logged import EpisodeDealer, LoggedLane
from rllib_geoffpac.lanes.positions import LaneAnchor


class LoggedEnvRunner(BehaviorEnvRunner):
    """Reads lanes of a data set, whose survey comes with every request.

    So a runner that was lost and rebuilt answers the same request with the same data.
    """

    @override(BehaviorEnvRunner)
    def _make_lanes(self) -> list:
        return []  # made by the first request

    @override(EnvRunner)
    def sample(
        self,
        *,
        start: int | None = None,
        num_locksteps: int = 0,
        anchor: LaneAnchor | None = None,
        survey: Survey | None = None,
        **rllibs: Any,
    ) -> Any:
        """Returns the fragment of locksteps [start, start + num_locksteps) of this runner's lanes.

        Args:
            start: First lockstep.
            num_locksteps: How many.
            anchor: A position of these lanes at or before `start`.
            survey: Of the data set.
            rllibs: Of RLlib's env runners, whose episodes there are none of.
        """
        if survey is None:
            raise ValueError(
                "This env runner reads logged data (`input_`) and has no environment to sample "
                "episodes from: `algorithm.evaluate()` plays the target policy."
            )
        if not self._lanes:
            dealer = EpisodeDealer(survey, self.lane_numbers, self.config.num_lanes)
            self._lanes = [LoggedLane(dealer, lane) for lane in self.lane_numbers]
        return super().sample(start=start, num_locksteps=num_locksteps, anchor=anchor)

    @override(EnvRunner)
    def get_spaces(self) -> dict[str, Any]:
        return spaces_of(self.config, (self.config.observation_space, self.config.action_space))

    @override(EnvRunner)
    def assert_healthy(self) -> None:
        assert len(self._lanes) in (0, len(self.lane_numbers))
