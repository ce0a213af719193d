"""RLModules: what the learner needs of pi, V and C, as networks and as tables."""

from rllib_geoffpac.modules.actor_critic import EmphaticRLModule
from rllib_geoffpac.modules.mlp import MLPRLModule
from rllib_geoffpac.modules.tabular import TabularRLModule

__all__ = ["EmphaticRLModule", "MLPRLModule", "TabularRLModule"]
