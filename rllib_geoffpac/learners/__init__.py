"""Learners: the paper's pseudocode over RLlib's Learner."""

from rllib_geoffpac.learners.emphatic_learner import EmphaticLearner

__all__ = ["EmphaticLearner"]
