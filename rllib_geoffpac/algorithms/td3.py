"""TD3: twin delayed deep deterministic policy gradient (Fujimoto et al., 2018)."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.utils.annotations import override

from rllib_geoffpac.algorithms.config import LaneAlgorithmConfig
from rllib_geoffpac.algorithms.config_checks import Check, with_values
from rllib_geoffpac.algorithms.ddpg import DDPG, DDPGConfig
from rllib_geoffpac.learners.deterministic_learner import TD3Learner
from rllib_geoffpac.validation import is_count, is_number


class TD3Config(DDPGConfig):
    """Configuration of TD3; the defaults are Fujimoto et al.'s, as in the Geoff-PAC paper.

    DDPG with two critics, a smoothed target action and delayed updates of pi and all targets:

        A' = clip(pi'(S') + clip(N(0, target_noise), -target_noise_clip, target_noise_clip), -1, 1)
        y = R + gamma min_k Q'_k(S', A')
        descend  sum_k mean (Q_k(S, A) - y)^2
        every `policy_delay` updates:
        ascend  mean Q_1(S, pi(S)),  theta' <- tau theta + (1 - tau) theta'

    in units of half the width of the action box. See `DDPGConfig` for the behaviour policies.

    Differences from Fujimoto et al.: the critics see actions scaled to [-1, 1]; learning starts
    after 10,000 steps on all tasks.

    Example:
        >>> from rllib_geoffpac import TD3Config
        >>> config = TD3Config().environment("Pendulum-v1").env_runners(behavior="noise")
        >>> algorithm = config.build_algo()  # doctest: +SKIP
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or TD3)
        self.tau = 5e-3
        self.actor_lr = None
        self.critic_weight_decay = 0.0
        self.replay_batch_size = 100
        self.policy_delay = 2
        self.target_noise = 0.2
        self.target_noise_clip = 0.5

    @override(AlgorithmConfig)
    def training(
        self,
        *,
        policy_delay: int = NotProvided,
        target_noise: float | list = NotProvided,
        target_noise_clip: float | list = NotProvided,
        **kwargs: Any,
    ) -> TD3Config:
        """Sets the training related configuration.

        Args:
            policy_delay: Critic updates per update of pi and of the target copies.
            target_noise: Standard deviation of the noise on the target action, relative to half
                the width of the action box; 0: none.
            target_noise_clip: Bound of that noise, likewise.
            kwargs: See `DDPGConfig.training`.
        """
        own = {k: v for k, v in locals().items() if k not in ("self", "kwargs", "__class__")}
        self._set_own(own)
        super().training(**kwargs)
        return self

    @property
    @override(DDPGConfig)
    def actor_interval(self) -> int:
        return self.policy_delay

    @override(DDPGConfig)
    def numbers(self) -> dict[str, float]:
        noise = {key: float(getattr(self, key)) for key in ("target_noise", "target_noise_clip")}
        return super().numbers() | noise

    @override(LaneAlgorithmConfig)
    def _checks(self) -> list[Check]:
        checks = [
            ("policy_delay", *is_count(self.policy_delay, 1)),
            ("target_noise", is_number(self.target_noise, 0), "a number >= 0"),
            ("target_noise_clip", is_number(self.target_noise_clip, 0), "a number >= 0"),
        ]
        own = with_values(self, checks)
        return [*super()._checks(), *own]

    @override(AlgorithmConfig)
    def get_default_learner_class(self) -> type:
        return TD3Learner

    @property
    @override(AlgorithmConfig)
    def _model_config_auto_includes(self) -> dict[str, Any]:
        # Fujimoto et al.: the action enters the critics beside the state; torch's initialisation.
        return super()._model_config_auto_includes | {
            "num_critics": 2,
            "action_layer": 0,
            "last_layer_bound": None,
        }


class TD3(DDPG):
    """Twin delayed deep deterministic policy gradient."""

    @classmethod
    @override(Algorithm)
    def get_default_config(cls) -> TD3Config:
        return TD3Config()
