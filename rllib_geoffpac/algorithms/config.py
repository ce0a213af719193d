"""The configuration that all our algorithms share: lanes, behaviour, sampling, evaluation of pi."""

from __future__ import annotations

import inspect
import logging
import math
import os
from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.learner import LearnerConnectorPipeline
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.utils.annotations import override
from ray.util.debug import log_once

from rllib_geoffpac.algorithms.config_checks import Check, shared_checks
from rllib_geoffpac.algorithms.schedules import (
    ALLOWED,
    can_be_scheduled,
    held_at,
    numbers_at,
    turning_points,
)
from rllib_geoffpac.algorithms.served_config import ServedConfig
from rllib_geoffpac.algorithms.unsupported import settings_without_effect
from rllib_geoffpac.compat import SETTING_ATTRIBUTES
from rllib_geoffpac.connectors import LaneAligner
from rllib_geoffpac.connectors.learner_pipeline import make_learner_pipeline
from rllib_geoffpac.connectors.pipelines import spaces_of
from rllib_geoffpac.env_runners import (
    BehaviorEnvRunner,
    LoggedEnvRunner,
    TargetPolicyEnvRunner,
)
from rllib_geoffpac.env_runners.callbacks import sampling_hooks
from rllib_geoffpac.envs.make_env import check_env
from rllib_geoffpac.evaluation.target_policy import evaluate_target_policy
from rllib_geoffpac.lanes.behavior import BehaviorPolicy, make_behavior
from rllib_geoffpac.lanes.stream_identity import why_not_recordable
from rllib_geoffpac.modules.protocol import ModuleProtocol
from rllib_geoffpac.updates.choice import why_not_fast
from rllib_geoffpac.validation import did_you_mean, unknown_key_message

logger = logging.getLogger(__name__)

RLLIB_TIMEOUTS = {
    "sample_timeout_s": "env_hang_timeout_s",
    "env_runner_restore_timeout_s": "env_runner_lost_timeout_s",
}
"""Settings of RLlib that mean what settings of ours do, and take over if they are changed."""

FRAGMENT_LENGTH = 100
"""Locksteps of a fragment whose data don't depend on the weights."""


class LaneAlgorithmConfig(ServedConfig):
    """Configuration of an algorithm that learns from lanes of a fixed behaviour policy.

    Hyperparameters change the result; resources (`num_env_runners`, `num_learners`,
    `rollout_fragment_length`, `sample_ahead`) never do.
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class)
        self.seed = 0
        self.gamma = 0.99
        # Lanes and behaviour.
        self.num_lanes = 10
        self.behavior: Any = "uniform"
        self.sample_ahead = 2
        self.experience_cache: str | None = None
        self.experience_cache_max_gb = 50.0
        self.max_env_failures_in_a_row = 3
        self.env_hang_timeout_s = 300.0
        self.env_runner_lost_timeout_s = 600.0
        self.rollout_fragment_length: Any = FRAGMENT_LENGTH  # DDPG's default is "auto"
        self.min_sample_timesteps_per_iteration = 2000
        self.min_time_s_per_iteration = None
        self.truncation = "terminate"
        self.checkpoint_replay = True
        self.kernel = "auto"
        # Evaluation.
        self.evaluation_horizon: int | None = None
        self.evaluation_duration = 10
        self.custom_evaluation_function = evaluate_target_policy
        # The samplers need no weights and no connectors.
        self.env_runner_cls = BehaviorEnvRunner
        self._dont_auto_sync_env_runner_states = True
        self.broadcast_env_runner_states = False
        self.merge_env_runner_states = False

    @override(AlgorithmConfig)
    def training(
        self,
        *,
        num_lanes: int = NotProvided,
        checkpoint_replay: bool = NotProvided,
        kernel: str = NotProvided,
        **kwargs: Any,
    ) -> LaneAlgorithmConfig:
        """Sets the training related configuration.

        Args:
            num_lanes: Environment instances, each with its own traces (the paper's 'number of
                workers'). A hyperparameter: it changes what is learned.
            checkpoint_replay: Whether checkpoints hold the replay ring. Exact resume needs it.
            kernel: "auto" (the compiled backend wherever it can serve: the default networks on
                the CPU, with the extra `fast` installed; else torch), "torch" or "fast". They
                agree up to rounding; the choice and its reason are logged.
            kwargs: RLlib's: gamma, lr, grad_clip, ...
        """
        own = {"num_lanes": num_lanes, "checkpoint_replay": checkpoint_replay, "kernel": kernel}
        self._set_own(own)
        rllibs = inspect.signature(AlgorithmConfig.training).parameters
        for key in kwargs.keys() - rllibs.keys():
            if not hasattr(self, key):
                raise ValueError(unknown_key_message(key, vars(self), type(self).__name__))
        super().training(**kwargs)
        return self

    @override(AlgorithmConfig)
    def env_runners(
        self,
        *,
        behavior: Any = NotProvided,
        sample_ahead: int = NotProvided,
        experience_cache: str | None = NotProvided,
        experience_cache_max_gb: float = NotProvided,
        max_env_failures_in_a_row: int = NotProvided,
        env_hang_timeout_s: float = NotProvided,
        env_runner_lost_timeout_s: float = NotProvided,
        **kwargs: Any,
    ) -> LaneAlgorithmConfig:
        """Sets the sampling related configuration.

        Args:
            behavior: mu: "uniform", or a fixed policy with `sample(observation, rng) -> action,
                log_density` (the object, a factory of (observation_space, action_space), or
                'package.module:name'). With logged data (`input_`) a policy needs
                `logp(observations, actions)` instead; "uniform" stands behind log-densities that
                were logged; "estimated" fits mu to its actions.
            sample_ahead: Fragments that remote env runners may simulate ahead of the learner.
            experience_cache: A folder. What the lanes produce is recorded there and read by every
                trial that would simulate the same: same environment, `env_config`, behaviour,
                seed, lane and library versions. The weights are the same with and without it. An
                edit of the file that defines the environment starts a new stream; one in a
                module that it imports is not seen: empty the folder then.
            experience_cache_max_gb: Nothing more is recorded once the folder holds so much.
            max_env_failures_in_a_row: With `restart_failed_sub_environments`, how many failures
                of a lane's environment in a row are survived.
            env_hang_timeout_s: An env runner that gives no fragment for so long is replaced.
            env_runner_lost_timeout_s: How long to wait for a lost env runner to come back.
            kwargs: RLlib's: num_env_runners, rollout_fragment_length (in locksteps), ...
        """
        own = {k: v for k, v in locals().items() if k not in ("self", "kwargs", "__class__")}
        self._set_own(own)
        super().env_runners(**kwargs)
        return self

    @override(AlgorithmConfig)
    def evaluation(
        self, *, evaluation_horizon: int | None = NotProvided, **kwargs: Any
    ) -> LaneAlgorithmConfig:
        """Sets the evaluation related configuration.

        Args:
            evaluation_horizon: Cut evaluation episodes after so many steps; None: the
                environment's own time limit, or 1000 where it has none.
            kwargs: RLlib's. Actions are sampled from pi; `evaluation_config={"explore": False}`
                takes the mean or the most likely action instead. Whole episodes are played, also
                for `evaluation_duration_unit="timesteps"`: the first ones that have so many.
        """
        self._set_own({"evaluation_horizon": evaluation_horizon})
        if isinstance(kwargs.get("evaluation_config"), AlgorithmConfig):
            kwargs["evaluation_config"] = _settings_of(kwargs["evaluation_config"])
        super().evaluation(**kwargs)
        return self

    def _set_own(self, values: dict[str, Any]) -> None:
        for key, value in values.items():
            if value is not NotProvided:
                setattr(self, key, value)

    @override(AlgorithmConfig)
    def update_from_dict(self, config_dict: dict[str, Any]) -> LaneAlgorithmConfig:
        # "class" is RLlib's mark in a config that `from_state` has made.
        known = set(vars(self)) | set(self.to_dict()) | {"class"}
        for key, _ in config_dict.items():  # RLlib gives a whole config as well
            translated = self._translate_special_keys(key, warn_deprecated=False)
            if {key, translated} & known or key.startswith("_"):
                continue
            name = type(self).__name__
            if did_you_mean(key, known):
                raise ValueError(unknown_key_message(key, known, name))
            # As in RLlib, where code of the user's may read it.
            if log_once(f"{name} keeps {key}"):
                logger.warning("%s has no key `%s`: it is kept for code of your own.", name, key)
        return super().update_from_dict(config_dict)

    def _checks(self) -> list[Check]:
        """The keys to validate; subclasses add theirs."""
        return shared_checks(self)

    def check_behavior(self) -> tuple[bool, str]:
        """Whether `behavior` can be, or can name, a behaviour policy; and what can."""
        behavior = self.behavior
        if isinstance(behavior, str):
            possible = behavior == "uniform" or ":" in behavior
        else:
            possible = callable(behavior) or isinstance(behavior, BehaviorPolicy)
        allowed = "'uniform', a behaviour policy, or its name 'package.module:name'"
        if self.has_data:
            return possible or self._is_density(), f"'estimated', {allowed}"
        return possible, allowed

    def check_env(self, env: gym.Env) -> None:
        """Finds out whether behaviour, networks and kernel can serve an environment.

        Nothing is started: who has an environment at hand can ask before Ray is there.

        Raises:
            ValueError: If not, with the reason.
        """
        check_env(env, self.env)
        if not self.reads_data:
            make_behavior("uniform" if self.explores else self.behavior, env)
        spaces = spaces_of(self, (env.observation_space, env.action_space))
        self.build_learner_connector(*spaces[DEFAULT_MODULE_ID])
        module = self.get_multi_rl_module_spec(spaces=spaces).build()[DEFAULT_MODULE_ID]
        self.module_protocol().check(module)
        if self.kernel == "fast":
            why_not_fast(self.kernel, module, learner_class=self.learner_class)

    @property
    def longest_fragment(self) -> int:
        """Locksteps of a fragment where nobody says how many."""
        return FRAGMENT_LENGTH

    @override(AlgorithmConfig)
    def validate(self) -> None:
        self._apply_module_overrides()
        if self.rollout_fragment_length == "auto":
            self.rollout_fragment_length = self.longest_fragment
        self._take_rllib_timeouts()
        schedulable = can_be_scheduled(self)
        for env_step in turning_points(self):
            with held_at(self, env_step):
                checks = self._checks()
            for key, value, possible, allowed in checks:
                if not possible:
                    more = ALLOWED if key in schedulable else ""
                    self._value_error(f"`{key}` is {value!r}; allowed is {allowed}{more}.")
        if self.reads_data:
            self._validate_data()
        if self.output is not None and not self.in_evaluation:
            self._validate_output()
        self._validate_env_runner()
        self._validate_module()
        if self.experience_cache is not None:
            self._validate_recording()
        if self.is_multi_agent:
            self._value_error(
                "Multi-agent setups are not supported: remove `policies` and "
                "`policy_mapping_fn`, and use a single-agent environment."
            )
        for key, value, possible, allowed in settings_without_effect(self):
            if not possible:
                self._value_error(f"`{key}` is {value!r}; allowed is {allowed}.")
        # RLlib's advice to switch the new API stack off would lead nowhere: say it is said.
        log_once(f"{self.algo_class.__name__}_on_new_api_stack")
        super().validate()

    @override(AlgorithmConfig)
    def _value_error(self, errmsg: str) -> None:
        # Without RLlib's advice how to switch its checks off, which is a private name.
        if self._validate_config:
            raise ValueError(errmsg)

    def _apply_module_overrides(self) -> None:
        """There is one module: what is overridden for it is the setting."""
        overrides = self.algorithm_config_overrides_per_module
        for module, settings in overrides.items():
            if module != DEFAULT_MODULE_ID:
                self._value_error(
                    f"`algorithm_config_overrides_per_module` names the module {module!r}; "
                    f"allowed is {DEFAULT_MODULE_ID!r}, the only one."
                )
            self.update_from_dict(settings)

    def _take_rllib_timeouts(self) -> None:
        """RLlib's words for ours, where somebody has changed them; None is RLlib's for ever."""
        standard = AlgorithmConfig()
        for theirs, ours in RLLIB_TIMEOUTS.items():
            given = getattr(self, theirs)
            if given != getattr(standard, theirs):
                setattr(self, ours, math.inf if given is None else given)

    def _validate_env_runner(self) -> None:
        if self.in_evaluation:
            base, why = TargetPolicyEnvRunner, "it plays the episodes that J_pi is made of"
            if self.custom_evaluation_function is not evaluate_target_policy:
                return
        elif self.reads_data:
            base, why = LoggedEnvRunner, "it reads lanes of a data set (`input_`)"
        else:
            base, why = BehaviorEnvRunner, "it steps lanes, so that data are reproducible"
        given = self.env_runner_cls
        if not (isinstance(given, type) and issubclass(given, base)):
            self._value_error(
                f"`env_runner_cls` is {given!r}; allowed is a subclass of "
                f"{base.__module__}.{base.__name__}: {why}. Leave it out, or derive yours from it."
            )

    def _validate_module(self) -> None:
        spec = self.rl_module_spec
        if isinstance(spec, MultiRLModuleSpec):
            if DEFAULT_MODULE_ID not in spec:
                return  # RLlib says what is wrong with it.
            spec = spec[DEFAULT_MODULE_ID]
        given = getattr(self, SETTING_ATTRIBUTES["rl_module_spec"])
        setting = "module" if given is None else "rl_module_spec"
        complaint = self.module_protocol().complaint_about_class(spec.module_class, setting)
        if complaint:
            self._value_error(complaint)

    def module_protocol(self) -> ModuleProtocol:
        """What is asked of the module that is learned."""
        raise NotImplementedError

    def _validate_recording(self) -> None:
        # Tune's trials run in folders of their own: a relative path is meant from where the
        # experiment was started.
        started_in = os.environ.get("TUNE_ORIG_WORKING_DIR", "")
        folder = os.path.expanduser(self.experience_cache or "")
        self.experience_cache = os.path.abspath(os.path.join(started_in, folder))
        obstacle = why_not_recordable(self)
        hooks = sorted(sampling_hooks(self) - {"on_environment_created"})
        if hooks:
            obstacle = (
                f"the callback `{hooks[0]}` asks for episodes, of which a recorded stream has "
                "none. Leave `experience_cache` or that callback out"
            )
        if obstacle:
            self._value_error(f"`experience_cache` is {self.experience_cache!r}, but {obstacle}.")

    def numbers_at(self, locksteps: np.ndarray) -> dict[str, np.ndarray]:
        """The numbers that the update takes at each of some locksteps: [T] -> [T] each."""
        return numbers_at(self, locksteps * self.num_lanes)

    def fragment_length(self, lockstep: int) -> int:
        """How many locksteps a fragment that begins at `lockstep` may have."""
        return self.rollout_fragment_length

    @override(AlgorithmConfig)
    def build_learner_connector(
        self,
        input_observation_space: gym.Space,
        input_action_space: gym.Space,
        device: str | None = None,
    ) -> LearnerConnectorPipeline:
        spaces = input_observation_space, input_action_space
        return make_learner_pipeline(self, spaces, self.learner_pieces())

    def learner_pieces(self) -> list[ConnectorV2]:
        """The learner's pipeline without the user's pieces, which come behind the first."""
        return [LaneAligner(gamma=self.gamma, truncation=self.truncation)]

    @override(AlgorithmConfig)
    def get_evaluation_config_object(self) -> AlgorithmConfig | None:
        given = self.evaluation_config or {}
        if isinstance(given, AlgorithmConfig):
            with_settings = self.copy(copy_frozen=False)
            with_settings.evaluation_config = _settings_of(given)
            return with_settings.get_evaluation_config_object()
        config = super().get_evaluation_config_object()
        if config is not None and "env_runner_cls" not in given:
            config.env_runner_cls = TargetPolicyEnvRunner
        return config


def _settings_of(config: AlgorithmConfig) -> dict[str, Any]:
    """What was set in a config: where it differs from the defaults of its class."""
    defaults = type(config)().to_dict()
    missing = object()
    return {
        key: value
        for key, value in config.to_dict().items()
        if key != "evaluation_config" and value != defaults.get(key, missing)
    }
