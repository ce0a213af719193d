"""Geoff-PAC: the Generalized Off-Policy Actor-Critic (Zhang, Boehmer, Whiteson, NeurIPS 2019)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils.annotations import override

from rllib_geoffpac.algorithms.algorithm import LaneAlgorithm
from rllib_geoffpac.algorithms.config import LaneAlgorithmConfig
from rllib_geoffpac.algorithms.config_checks import Check, with_values
from rllib_geoffpac.algorithms.emphatic_checks import value_checks
from rllib_geoffpac.algorithms.emphatic_config import EmphaticConfig
from rllib_geoffpac.algorithms.view_checks import combination_checks
from rllib_geoffpac.maths.schedules import smallest
from rllib_geoffpac.modules import MLPRLModule, TabularRLModule
from rllib_geoffpac.validation import import_by_name, is_count

ROBUST_UPDATES = 20_000
"""So many updates a run with `GeoffPACConfig.robust()` has at the least."""
ROBUST_FALL = 700_000
"""In no more steps its overlap target falls: Swimmer lost what it had learned when it went on with
an overlap below 0.25 for long (docs/what-makes-it-work.md)."""
MODULES = {"mlp": MLPRLModule, "tabular": TabularRLModule}


class GeoffPACConfig(EmphaticConfig):
    """Configuration of Geoff-PAC; the defaults are the paper's.

    With rho_t = pi(A_t|S_t) / mu(A_t|S_t), gamma_t the discount of the transition into S_t,
    C an estimate of the density ratio c = d_gamma_hat / d_mu and V of v_pi:

        F1_t = gamma_t rho_{t-1} F1_{t-1} + i(S_t) C(S_t)
        M1_t = (1 - lambda_1) i(S_t) C(S_t) + lambda_1 F1_t
        I_t  = C(S_{t-1}) rho_{t-1} grad log pi(A_{t-1}|S_{t-1})
        F2_t = gamma_hat rho_{t-1} F2_{t-1} + I_t
        M2_t = (1 - lambda_2) I_t + lambda_2 F2_t
        theta <- theta + alpha [gamma_hat i(S_t) V(S_t) M2_t
                                + rho_t M1_t delta_t grad log pi(A_t|S_t)]

    follows the gradient of the counterfactual objective J_gamma_hat.

    Example:
        >>> from rllib_geoffpac import GeoffPACConfig
        >>> config = GeoffPACConfig().environment("Reacher-v5").training(gamma_hat=0.2)
        >>> algorithm = config.build_algo()  # doctest: +SKIP
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or GeoffPAC)
        # The objective and its gradient.
        self.gamma_hat = 0.2
        self.lambda_1 = 0.7
        self.lambda_2 = 0.6
        self.view = "backward"
        self.emphasis = "followon"
        self.trace_length = 5
        self.critic = "state_value"
        self.interest_fn: Callable | str | None = None
        # Clipping.
        self.rho_clip = 2.0
        self.density_ratio_clip = 2.0
        self.grad_clip = 0.5
        # Critics.
        self.value_estimator = "td"
        self.vtrace_length = 5
        self.tdrc_regularization = 1.0
        self.sn_loss_coeff = 1e-3
        self.target_update_freq = 200
        self.tau: float | None = None
        self.policy_delay = 2
        self.clip_action_values = False
        self.actor_ascends = "first"
        self.conservatism = 0.0
        self.learning_gamma: float | None = None
        self.policy_average: float | None = None
        # Departures from the paper, off by default.
        self.value_baseline: str | None = None
        self.baseline_decay = 0.99
        self.overlap_coeff = 0.0
        self.overlap_gamma_hat = 0.2
        self.overlap_target: float | None = None
        # Policy and networks.
        self.policy_distribution = "gaussian"
        self.module: str | type = "mlp"
        self.dtype = "float32"
        # Optimisation.
        self.lr = 1e-3
        self.actor_lr: float | None = None
        self.value_lr: float | None = None
        self.density_ratio_lr: float | None = None
        self.counterfactual_value_lr: float | None = None
        self.emphasis_lr: float | None = None
        self.correction_lr: float | None = None
        self.action_value_lr: float | None = None
        self.counterfactual_action_value_lr: float | None = None
        self.optimizer_type = "rmsprop"
        # Replay.
        self.replay_capacity = 1_000_000
        self.replay_batch_size = 10
        self.actor_replay_batch_size = 0
        self.updates_per_lockstep = 1
        self.learning_starts = 100

    @override(AlgorithmConfig)
    def training(
        self,
        *,
        gamma_hat: float | list = NotProvided,
        lambda_1: float | list = NotProvided,
        lambda_2: float | list = NotProvided,
        view: str = NotProvided,
        emphasis: str = NotProvided,
        trace_length: int = NotProvided,
        critic: str = NotProvided,
        interest_fn: Callable[[np.ndarray], np.ndarray] | str | None = NotProvided,
        truncation: str = NotProvided,
        rho_clip: float | list = NotProvided,
        density_ratio_clip: float | list = NotProvided,
        value_estimator: str = NotProvided,
        vtrace_length: int = NotProvided,
        tdrc_regularization: float | list = NotProvided,
        sn_loss_coeff: float | list = NotProvided,
        target_update_freq: int = NotProvided,
        tau: float | list | None = NotProvided,
        policy_delay: int = NotProvided,
        clip_action_values: bool = NotProvided,
        actor_ascends: str = NotProvided,
        conservatism: float | list = NotProvided,
        learning_gamma: float | list | None = NotProvided,
        policy_average: float | list | None = NotProvided,
        value_baseline: str | None = NotProvided,
        baseline_decay: float | list = NotProvided,
        overlap_coeff: float | list = NotProvided,
        overlap_gamma_hat: float | list = NotProvided,
        overlap_target: float | list | None = NotProvided,
        policy_distribution: str = NotProvided,
        module: str | type = NotProvided,
        dtype: str = NotProvided,
        actor_lr: float | list | None = NotProvided,
        value_lr: float | list | None = NotProvided,
        density_ratio_lr: float | list | None = NotProvided,
        counterfactual_value_lr: float | list | None = NotProvided,
        emphasis_lr: float | list | None = NotProvided,
        correction_lr: float | list | None = NotProvided,
        action_value_lr: float | list | None = NotProvided,
        counterfactual_action_value_lr: float | list | None = NotProvided,
        optimizer_type: str = NotProvided,
        replay_capacity: int = NotProvided,
        replay_batch_size: int = NotProvided,
        actor_replay_batch_size: int = NotProvided,
        updates_per_lockstep: int = NotProvided,
        learning_starts: int = NotProvided,
        **kwargs: Any,
    ) -> GeoffPACConfig:
        """Sets the training related configuration.

        Args:
            gamma_hat: How counterfactual the objective is: 0 is J_mu, towards 1 is J_pi.
            lambda_1: Bias-variance trade-off of M1, in [0, 1]; 1 is unbiased.
            lambda_2: Bias-variance trade-off of M2, in [0, 1]; 1 is unbiased.
            view: "backward" (the paper: traces), or "forward": the same gradient without F2, from
                a critic U of u(s) = i(s) v_pi(s) + gamma_hat E_pi[u(S')|s],
                Z2_t = C(S_t) rho_t delta^u_t grad log pi(A_t|S_t), delta^u_t = i(S_t) V(S_t)
                + gamma_hat U'(S_{t+1}) - U(S_t); (1 - lambda_2) i V' + lambda_2 U' stands for U'.
            emphasis: What stands for F1_t in M1_t. "followon" (the paper): the trace. "truncated":
                F1, and F2 in the backward view, from the `trace_length` transitions before, with
                the current weights. "learned": a critic M(s) of F1's mean, M(s') = i(s') C(s') +
                E[gamma_{t+1} rho_t M(S_t) | S_{t+1} = s']. Replayed transitions have the last two.
            trace_length: n of the truncated traces, F1_t = sum_{k=0}^n (prod_{j=1}^k gamma_{t-j+1}
                rho_{t-j}) i(S_{t-k}) C(S_{t-k}).
            critic: "state_value" (the paper: V), or "action_value": two critics of Q(s, a) and,
                with gamma_hat > 0, two of Q_u(s, a) = gamma_hat E[i(S') Q(S', a') + Q_u(S', a')].
                The actor ascends M1_t Q(S_t, a) + C(S_t) Q_u(S_t, a) through a drawn from
                pi(.|S_t), for Discrete actions summed over all a, without rho. `view` does not
                matter then, and lambda_2 must be 1.
            interest_fn: i(s): maps observations [N, ...] to interests [N] >= 0, or its name as
                'package.module:name'. None is 1 everywhere.
            truncation: What a time limit does. "terminate": the paper's scheme, as a termination.
                "bootstrap": V bootstraps from the final observation, the lane's traces restart.
            rho_clip: rho is clipped to [0, rho_clip] wherever it is used; inf: not clipped.
            density_ratio_clip: C is clipped to [0, density_ratio_clip] in F1 and I.
            value_estimator: How V learns. "td" (the paper): rho_t delta_t grad V(S_t); "cop_td":
                times C(S_t); "etd": times M1_t, which must not be a trace; "tdrc": gradient TD,
                rho_t (delta_t grad V(S_t) - gamma_{t+1} h(S_t) grad V(S_{t+1})) with a critic h of
                E[rho_t delta_t | S_t] and no target copy of V in this delta_t; "vtrace": V-trace
                over `vtrace_length` transitions, with rho and c clipped at 1.
            vtrace_length: n of V-trace's target, v_t = V(S_t) + sum_{k<n} (prod_{j<k} gamma_{t+j+1}
                min(1, rho_{t+j})) min(1, rho_{t+k}) delta_{t+k}.
            tdrc_regularization: What multiple of h's weights is taken off them in its step.
            sn_loss_coeff: beta, the weight of the soft normalisation of C.
            target_update_freq: Updates (locksteps, if there is one for each) between copies of the
                critics into their target networks.
            tau: Share of the learned parameters that enters the target copies after every update,
                in place of a copy every `target_update_freq`; None: copies.
            policy_delay: With critic="action_value", updates of the critics per update of pi.
            clip_action_values: Whether Q's targets are clipped to the range of the returns that
                the rewards seen so far can add up to: r / (1 - gamma) of the lowest and of the
                highest, or r itself where that is farther out. It keeps Q from diverging.
            actor_ascends: With critic="action_value", "first": the first of the two critics, as
                TD3; "lower": the lower one in every state and action, which is more careful.
            conservatism: With critic="action_value", presses Q down by this much times pi / mu - 1,
                that is where pi acts more often than the data, in units of what terminations
                cost per transition. 0, or where no episode ends: not at all.
            learning_gamma: The discount of everything that learns, where J_pi keeps `gamma`; a
                lower one makes the critics overestimate less. None: `gamma`.
            policy_average: p: what acts in evaluation, in exports and for RLlib's inference is an
                average of pi's weights, theta_bar <- theta_bar + p / (n + p) (theta - theta_bar)
                after update n: iterate n weighs as n^(p-1). Learning does not see it. None: pi.
            value_baseline: b in Z2's V(S_t) - b: None (the paper) or "ema", a running mean of V.
            baseline_decay: Decay per lockstep of the running mean and deviation of V.
            overlap_coeff: k: adds k times the running standard deviation of V to the value in Z2,
                a force towards the data's region. For ACE and Off-PAC that force alone. 0: paper.
            overlap_gamma_hat: gamma_hat of the force's trace for ACE and Off-PAC.
            overlap_target: kappa in (0, 1]: keeps overlap = E_mu[min(rho, rho_clip)] >= kappa by
                the force eta E_mu[min(rho, rho_clip) grad log pi], in units of the actor's own
                gradient, with eta <- clip(eta + 0.01 (kappa - overlap), 0, 10). None: no force.
            policy_distribution: "gaussian" (the paper), "truncated_gaussian" (renormalised to the
                action box, which respects coverage) or "beta" (on the box, too, with a width of
                its own in every state). Discrete actions: categorical.
            module: "mlp" (the paper's networks), "tabular", or an EmphaticRLModule subclass, also
                as 'package.module:name'. Layer sizes: `.rl_module(model_config=dict(
                fcnet_hiddens=[64, 64]))`.
            dtype: "float32", or "float64" to study exactness.
            actor_lr: Learning rate of pi; None: `lr`.
            value_lr: Learning rate of V; None: `lr`.
            density_ratio_lr: Learning rate of C; None: `lr`.
            counterfactual_value_lr: Learning rate of U; None: `lr`.
            emphasis_lr: Learning rate of M; None: `lr`.
            correction_lr: Learning rate of h; None: `lr`.
            action_value_lr: Learning rate of Q; None: `lr`.
            counterfactual_action_value_lr: Learning rate of Q_u; None: `lr`.
            optimizer_type: "rmsprop" (the paper), "sgd" (tabular) or "adam".
            replay_capacity: Transitions kept for replay.
            replay_batch_size: Replayed locksteps per critic update (each one transition of every
                lane: 10 rows of 10 lanes are 100 transitions); 0 switches the replay off.
            actor_replay_batch_size: How many of these the actor learns from as well, beside the
                current lockstep, with the current rho, C, U and V. 0: the paper.
            updates_per_lockstep: Updates of critics and actor per lockstep, each with a replay
                batch of its own; the traces advance once.
            learning_starts: Locksteps before anything is learned; the traces advance.
            kwargs: See `LaneAlgorithmConfig.training` and RLlib: gamma, lr, grad_clip (norm, per
                network), num_lanes, kernel, checkpoint_replay.
        """
        own = {k: v for k, v in locals().items() if k not in ("self", "kwargs", "__class__")}
        self._set_own(own)
        super().training(**kwargs)
        return self

    @classmethod
    def robust(cls, steps: int = 1_000_000) -> GeoffPACConfig:
        """A new config with the departures from the paper that did best without diverging.

        Action values need no importance ratio, the actor learns from replayed transitions, the
        overlap of pi with the data is kept, Q's targets stay in the range of possible returns, Q is
        conservative where episodes end, the learning rate falls, and an average of pi's weights
        acts. For ACE the same at gamma_hat = 0.
        docs/what-makes-it-work.md says what each part is for and what was measured.

        Args:
            steps: Env steps of the run, over which the learning rate falls. The overlap target
                falls in the last 700,000 of them (or the last 0.7 of a shorter run). A run of
                less than 200,000 learns more than once per lockstep, to have 20,000 updates, too.

        Example:
            >>> from rllib_geoffpac import GeoffPACConfig
            >>> config = GeoffPACConfig.robust(steps=20_000).environment("Reacher-v5")
            >>> config.critic, config.conservatism, config.updates_per_lockstep
            ('action_value', 0.2, 10)
        """
        possible, allowed = is_count(steps, 1)
        if not possible:
            raise ValueError(f"`steps` is {steps!r}; allowed is {allowed}.")
        config = cls()
        updates = math.ceil(ROBUST_UPDATES * config.num_lanes / steps)
        fall = min(7 * steps // 10, ROBUST_FALL)
        return config.training(
            critic="action_value",
            lambda_1=0.0,
            lambda_2=1.0,
            clip_action_values=True,
            actor_ascends="lower",
            learning_gamma=0.98,
            actor_replay_batch_size=10,
            conservatism=0.2,
            overlap_target=[[0, 0.3], [steps - fall, 0.3], [steps, 0.15]],
            policy_average=2.0,
            policy_distribution="truncated_gaussian",
            truncation="bootstrap",
            optimizer_type="adam",
            lr=[[0, 1e-3], [steps // 2, 3e-4], [steps, 1e-5]],
            tau=0.005,
            grad_clip=None,
            updates_per_lockstep=updates,
        )

    @override(LaneAlgorithmConfig)
    def _checks(self) -> list[Check]:
        own = with_values(self, [*value_checks(self), *combination_checks(self)])
        return [*super()._checks(), *own, *self._callable_checks()]

    def _callable_checks(self) -> list[Check]:
        if isinstance(self.interest_fn, str):
            self.interest_fn = import_by_name(self.interest_fn, "interest_fn")
        interest_ok = self.interest_fn is None or callable(self.interest_fn)
        allowed = "None, a function of the observations, or its name 'package.module:name'"
        if isinstance(self.module, str):
            module_ok = self.module in MODULES or ":" in self.module
        else:
            module_ok = isinstance(self.module, type)
        return [
            ("interest_fn", self.interest_fn, interest_ok, allowed),
            (
                "module",
                self.module,
                module_ok,
                "'mlp', 'tabular', a class, or 'package.module:name'",
            ),
        ]

    @override(LaneAlgorithmConfig)
    def validate(self) -> None:
        super().validate()
        if self.uses_density_ratio and smallest(self.gamma_hat) == 0:
            self._value_error(
                f"`gamma_hat` is {self.gamma_hat!r}, a schedule that reaches 0; allowed is one "
                "that stays above, such as down to 0.01: at 0 there is no C to learn."
            )

    @override(AlgorithmConfig)
    def get_default_rl_module_spec(self) -> RLModuleSpec:
        module = self.module
        if isinstance(module, str):
            module = MODULES.get(module) or import_by_name(module, "module")
        return RLModuleSpec(module_class=module)

    @override(AlgorithmConfig)
    def get_default_learner_class(self) -> type:
        from rllib_geoffpac.learners import EmphaticLearner

        return EmphaticLearner


class GeoffPAC(LaneAlgorithm):
    """Generalized Off-Policy Actor-Critic."""

    @classmethod
    @override(Algorithm)
    def get_default_config(cls) -> GeoffPACConfig:
        return GeoffPACConfig()
