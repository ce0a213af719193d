"""Learner connectors: aligned lanes in, emphatic traces beside them."""

from rllib_geoffpac.connectors.emphatic_traces import EmphaticTraces
from rllib_geoffpac.connectors.lane_aligner import LaneAligner

__all__ = ["EmphaticTraces", "LaneAligner"]
