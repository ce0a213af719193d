"""Env runners: behaviour data for learning, rollouts of the target policy for evaluation."""

from rllib_geoffpac.env_runners.behavior_env_runner import BehaviorEnvRunner
from rllib_geoffpac.env_runners.exploring_env_runner import ExploringEnvRunner
from rllib_geoffpac.env_runners.logged_env_runner import LoggedEnvRunner
from rllib_geoffpac.env_runners.target_policy_env_runner import TargetPolicyEnvRunner

__all__ = ["BehaviorEnvRunner", "ExploringEnvRunner", "LoggedEnvRunner", "TargetPolicyEnvRunner"]
