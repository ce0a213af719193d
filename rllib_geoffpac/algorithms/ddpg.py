"""DDPG: deep deterministic policy gradient (Lillicrap et al., 2015)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils.annotations import override

from rllib_geoffpac.algorithms.algorithm import LaneAlgorithm
from rllib_geoffpac.algorithms.config import FRAGMENT_LENGTH, LaneAlgorithmConfig
from rllib_geoffpac.algorithms.config_checks import Check, possible_lanes, with_values
from rllib_geoffpac.connectors.pipelines import has_env_to_module, has_module_to_env
from rllib_geoffpac.env_runners import BehaviorEnvRunner, ExploringEnvRunner
from rllib_geoffpac.learners.deterministic_learner import DDPGLearner
from rllib_geoffpac.modules.deterministic_actor_critic import DeterministicActorCriticRLModule
from rllib_geoffpac.modules.protocol import ModuleProtocol
from rllib_geoffpac.updates.optimizers import OPTIMIZER_TYPES
from rllib_geoffpac.validation import is_choice, is_count, is_number


class DDPGConfig(LaneAlgorithmConfig):
    """Configuration of DDPG; the defaults are Lillicrap et al.'s, as in the Geoff-PAC paper.

    With a replay batch of N transitions (S, A, R, S'), gamma 0 after a termination, and the
    target copies pi', Q':

        y = R + gamma Q'(S', pi'(S'))
        descend  mean (Q(S, A) - y)^2 + weight decay,  ascend  mean Q(S, pi(S))
        theta' <- tau theta + (1 - tau) theta'

    after every environment step. Behaviour: "uniform" (the paper's comparison), "noise" (pi plus
    Gaussian noise, uniform until learning starts), or a fixed policy as for the other algorithms.

    With a fixed behaviour, what is learned depends on no resource, as for the other algorithms.
    With "noise" the data follow the weights: `rollout_fragment_length` becomes a hyperparameter
    (locksteps between two refreshes of the acting policy, default 1) and nothing is sampled ahead.
    Env runners, faults and resuming from a checkpoint still change nothing.

    Differences from Lillicrap et al.: no batch normalisation (as in the Geoff-PAC paper); the
    critic sees actions scaled to [-1, 1]; Gaussian noise instead of an Ornstein-Uhlenbeck process;
    time limits bootstrap (there it is left open); learning starts after 10,000 steps.

    Example:
        >>> from rllib_geoffpac import DDPGConfig
        >>> config = DDPGConfig().environment("Pendulum-v1").env_runners(behavior="noise")
        >>> algorithm = config.build_algo()  # doctest: +SKIP
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or DDPG)
        # One lane, one update per environment step.
        self.num_lanes = 1
        self.rollout_fragment_length = "auto"
        # Targets.
        self.tau = 1e-3
        self.truncation = "bootstrap"
        # Optimisation.
        self.lr = 1e-3
        self.actor_lr: float | None = 1e-4
        self.critic_lr: float | None = None
        self.critic_weight_decay = 1e-2
        self.optimizer_type = "adam"
        # Replay.
        self.replay_capacity = 1_000_000
        self.replay_batch_size = 64
        self.learning_starts = 10_000
        # Exploration (behavior="noise").
        self.exploration_noise = 0.1
        # Networks.
        self.dtype = "float32"

    @override(AlgorithmConfig)
    def training(
        self,
        *,
        tau: float | list = NotProvided,
        truncation: str = NotProvided,
        actor_lr: float | list | None = NotProvided,
        critic_lr: float | list | None = NotProvided,
        critic_weight_decay: float = NotProvided,
        optimizer_type: str = NotProvided,
        replay_capacity: int = NotProvided,
        replay_batch_size: int = NotProvided,
        learning_starts: int = NotProvided,
        exploration_noise: float = NotProvided,
        dtype: str = NotProvided,
        **kwargs: Any,
    ) -> DDPGConfig:
        """Sets the training related configuration.

        Args:
            tau: Share of the learned parameters that enters the target copies at each step.
            truncation: What a time limit does. "bootstrap" (as in the literature): the target
                goes on from the final observation. "terminate": as a termination, the Geoff-PAC
                paper's scheme.
            actor_lr: Learning rate of pi; None: `lr`.
            critic_lr: Learning rate of Q; None: `lr`.
            critic_weight_decay: Adds decay times the parameter to the gradient of each of Q's.
            optimizer_type: "adam" (as in the literature), "rmsprop" or "sgd".
            replay_capacity: Transitions kept for replay.
            replay_batch_size: Transitions per update.
            learning_starts: Environment steps before anything is learned; with behavior="noise",
                their actions are uniform.
            exploration_noise: Standard deviation of the noise on pi's actions, relative to half
                the width of the action box. Used with behavior="noise" only.
            dtype: "float32", or "float64" to study exactness.
            kwargs: See `LaneAlgorithmConfig.training` and RLlib: gamma, lr, grad_clip (norm, pi
                and Q each; None by default), num_lanes (there are as many updates per lockstep),
                kernel, checkpoint_replay. Layer sizes: `.rl_module(model_config=dict(
                fcnet_hiddens=[400, 300]))`.
        """
        own = {k: v for k, v in locals().items() if k not in ("self", "kwargs", "__class__")}
        self._set_own(own)
        super().training(**kwargs)
        return self

    @property
    @override(LaneAlgorithmConfig)
    def explores(self) -> bool:
        return isinstance(self.behavior, str) and self.behavior == "noise"

    @override(LaneAlgorithmConfig)
    def check_behavior(self) -> tuple[bool, str]:
        possible, allowed = super().check_behavior()
        return self.explores or possible, f"'noise', {allowed}"

    @property
    def warm_up_locksteps(self) -> int:
        """Locksteps until `learning_starts` environment steps are there."""
        return -(-self.learning_starts // self.num_lanes)

    def learning_rate(self, network: str) -> float:
        """The learning rate of "pi" or "q"."""
        own = {"pi": self.actor_lr, "q": self.critic_lr}[network]
        return self.lr if own is None else own

    @property
    @override(LaneAlgorithmConfig)
    def longest_fragment(self) -> int:
        return 1 if self.explores else FRAGMENT_LENGTH

    @property
    def actor_interval(self) -> int:
        """Updates of the critics per update of pi and of the target copies."""
        return 1

    @property
    def weight_decays(self) -> dict[str, float]:
        """The weight decay of everything that has an optimizer."""
        return {"pi": 0.0, "q": self.critic_weight_decay}

    def numbers(self) -> dict[str, float]:
        """The hyperparameters that the update takes as numbers."""
        return {"tau": float(self.tau)}

    @override(LaneAlgorithmConfig)
    def fragment_length(self, lockstep: int) -> int:
        # Uniform actions need no weights: until the warm-up ends, fragments are long.
        if self.explores and lockstep < self.warm_up_locksteps:
            return min(FRAGMENT_LENGTH, self.warm_up_locksteps - lockstep)
        return super().fragment_length(lockstep)

    @override(LaneAlgorithmConfig)
    def _checks(self) -> list[Check]:
        checks = [
            ("tau", is_number(self.tau, 0, 1, above=True), "a number above 0, at most 1"),
            ("truncation", *is_choice(self.truncation, "terminate", "bootstrap")),
            ("critic_weight_decay", is_number(self.critic_weight_decay, 0), "a number >= 0"),
            ("replay_capacity", *is_count(self.replay_capacity, possible_lanes(self))),
            ("replay_batch_size", *is_count(self.replay_batch_size, 1)),
            ("learning_starts", *is_count(self.learning_starts, 0)),
            ("exploration_noise", is_number(self.exploration_noise, 0), "a number >= 0"),
            ("dtype", *is_choice(self.dtype, "float32", "float64")),
            ("optimizer_type", *is_choice(self.optimizer_type, *OPTIMIZER_TYPES)),
        ]
        for key in ("actor_lr", "critic_lr"):
            value = getattr(self, key)
            ok = value is None or is_number(value, 0, above=True)
            checks.append((key, ok, "a number above 0, or None for `lr`"))
        own = with_values(self, checks)
        return [*super()._checks(), *own]

    @override(AlgorithmConfig)
    def validate(self) -> None:
        if self.explores and (has_env_to_module(self) or has_module_to_env(self)):
            self._value_error(
                "`behavior` is 'noise', which acts on what the environment shows: with "
                "`env_to_module_connector` or `module_to_env_connector` use a fixed behaviour "
                "policy, or wrap the environment."
            )
        if self.explores and self.env_runner_cls is BehaviorEnvRunner:
            self.env_runner_cls = ExploringEnvRunner
        super().validate()

    @override(LaneAlgorithmConfig)
    def module_protocol(self) -> ModuleProtocol:
        protocol = ModuleProtocol(DeterministicActorCriticRLModule)
        if not self.explores:
            return protocol
        return replace(protocol, attributes=(*protocol.attributes, "pi"))

    @override(AlgorithmConfig)
    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(module_class=DeterministicActorCriticRLModule)

    @override(AlgorithmConfig)
    def get_default_learner_class(self) -> type:
        return DDPGLearner

    @property
    @override(AlgorithmConfig)
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return super()._model_config_auto_includes | {
            "fcnet_hiddens": [400, 300],
            "fcnet_activation": "relu",
            "num_critics": 1,
            # Lillicrap et al.: the action enters Q at the second layer; last layers start small.
            "action_layer": 1,
            "last_layer_bound": 3e-3,
            "dtype": self.dtype,
        }


class DDPG(LaneAlgorithm):
    """Deep deterministic policy gradient."""

    @classmethod
    @override(Algorithm)
    def get_default_config(cls) -> DDPGConfig:
        return DDPGConfig()

    @override(LaneAlgorithm)
    def behavior_weights(self) -> Any:
        if not self.config.explores:
            return None
        weights, self.behavior_version = self.on_learner(
            lambda learner: (learner.policy_weights(), learner.weights_version)
        )
        return ray.put(weights) if self.config.num_env_runners else weights
