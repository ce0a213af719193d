"""What follows from the settings of Geoff-PAC, ACE and Off-PAC, for learner and module."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.utils.annotations import override

from rllib_geoffpac.algorithms.config import LaneAlgorithmConfig
from rllib_geoffpac.connectors import EmphaticTraces, LaneAligner
from rllib_geoffpac.maths.schedules import largest
from rllib_geoffpac.modules import EmphaticRLModule
from rllib_geoffpac.modules.protocol import ModuleProtocol
from rllib_geoffpac.updates.learned import (
    LEARNED,
    Q_U,
    VALUE_FUNCTIONS,
    C,
    LearnedFunction,
    M,
    Q,
    U,
)
from rllib_geoffpac.updates.lockstep import EmphaticSettings


class EmphaticConfig(LaneAlgorithmConfig):
    """What is learned, and with which numbers, by the settings of `GeoffPACConfig`."""

    gamma_hat: float
    view: str
    emphasis: str
    trace_length: int
    critic: str
    value_estimator: str
    vtrace_length: int
    tdrc_regularization: float
    actor_ascends: str
    conservatism: float
    learning_gamma: float | None
    policy_average: float | None
    value_baseline: str | None
    overlap_coeff: float
    overlap_gamma_hat: float
    overlap_target: float | None
    policy_distribution: str
    dtype: str
    lr: float
    actor_replay_batch_size: int

    @property
    def uses_density_ratio(self) -> bool:
        """Whether there is a C to learn (ACE and Off-PAC have none)."""
        return largest(self.gamma_hat) > 0

    @property
    def uses_second_trace(self) -> bool:
        """Whether F2 is needed: for the counterfactual term, or for the overlap force alone."""
        used = largest(self.gamma_hat) > 0 or largest(self.overlap_coeff) > 0
        traced = self.view == "backward" and self.emphasis != "truncated"
        return used and traced and not self.uses_action_values

    @property
    def uses_action_values(self) -> bool:
        """Whether there is a Q in place of V."""
        return self.critic == "action_value"

    @property
    def is_conservative(self) -> bool:
        """Whether Q is pressed down where pi acts more often than the data."""
        return self.uses_action_values and largest(self.conservatism) > 0

    @property
    def replays_interest(self) -> bool:
        """Whether replayed transitions need i(S_t), and any need i(S_{t+1})."""
        return (
            self.view == "forward"
            or self.emphasis != "followon"
            or self.value_estimator == "etd"
            or self.actor_replay_batch_size > 0
            or self.uses_action_values
        )

    @property
    def window_length(self) -> int:
        """How many locksteps before a transition the update looks at."""
        trace = self.trace_length if self.emphasis == "truncated" else 0
        return max(trace, self.vtrace_length - 1 if self.value_estimator == "vtrace" else 0)

    @property
    def learned_functions(self) -> tuple[LearnedFunction, ...]:
        """What is learned beside pi, in the order in which it learns."""
        if self.uses_action_values:
            functions = [Q, Q_U, C] if self.uses_density_ratio else [Q]
        else:
            functions = list(VALUE_FUNCTIONS.get(self.value_estimator, ()))
            if self.uses_density_ratio:
                functions += [C, U] if self.view == "forward" else [C]
        if self.emphasis == "learned":
            functions.append(M)
        return tuple(functions)

    def learning_rate(self, network: str) -> float:
        """The learning rate of "pi" or of a learned function, by its name."""
        own = getattr(self, "actor_lr" if network == "pi" else LEARNED[network].learning_rate)
        return self.lr if own is None else own

    @property
    def weight_decays(self) -> dict[str, float]:
        """The weight decay of everything that has an optimizer."""
        decays = dict.fromkeys(["pi", *(function.name for function in self.learned_functions)], 0.0)
        if "h" in decays:
            decays["h"] = self.tdrc_regularization
        return decays

    def update_settings(self) -> EmphaticSettings:
        """What is decided once for the update."""
        return EmphaticSettings(
            functions=self.learned_functions,
            uses_density_ratio=self.uses_density_ratio,
            uses_second_trace=self.uses_second_trace,
            centers_values=self.value_baseline == "ema",
            view=self.view,
            emphasis=self.emphasis,
            trace_length=self.trace_length,
            value_estimator=self.value_estimator,
            vtrace_length=self.vtrace_length,
            num_actor_replayed=self.actor_replay_batch_size * self.num_lanes,
            controls_overlap=self.overlap_target is not None,
            ascends_lower=self.actor_ascends == "lower",
            is_conservative=self.is_conservative,
        )

    def numbers(self) -> dict[str, float]:
        """The hyperparameters that the update takes as numbers."""
        traces = ("gamma_hat", "lambda_1", "lambda_2", "rho_clip", "density_ratio_clip")
        others = ("sn_loss_coeff", "baseline_decay", "overlap_coeff", "overlap_gamma_hat")
        numbers = {key: float(getattr(self, key)) for key in (*traces, *others)}
        if self.overlap_target is not None:
            numbers["overlap_target"] = self.overlap_target
        if self.is_conservative:
            numbers["conservatism"] = self.conservatism
        return numbers | {"trace_gamma_hat": self.gamma_hat or self.overlap_gamma_hat}

    @override(LaneAlgorithmConfig)
    def module_protocol(self) -> ModuleProtocol:
        protocol = ModuleProtocol(EmphaticRLModule).with_methods("log_prob", "entropy")
        if self.critic == "action_value":
            protocol = protocol.with_methods("action")
        if self.policy_average is not None:
            protocol = protocol.with_methods("average_parameters")
        return protocol

    @property
    @override(AlgorithmConfig)
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return super()._model_config_auto_includes | {
            "fcnet_hiddens": [64, 64],
            "fcnet_activation": "relu",
            "policy_distribution": self.policy_distribution,
            "learned_functions": [function.name for function in self.learned_functions],
            "averages_policy": self.policy_average is not None,
            "dtype": self.dtype,
        }

    @override(LaneAlgorithmConfig)
    def learner_pieces(self) -> list[ConnectorV2]:
        aligner = LaneAligner(
            gamma=self.gamma if self.learning_gamma is None else self.learning_gamma,
            truncation=self.truncation,
            chain_successors=self.emphasis == "learned" and self.truncation == "bootstrap",
        )
        return [aligner, EmphaticTraces()]
