"""Metrics of what learns."""

from __future__ import annotations

from rllib_geoffpac.metrics.row import (
    ALGORITHMS,
    DETERMINISTIC,
    EMPHATIC,
    LEARNER,
    Metric,
    Section,
)

_SECOND_TERM = "with `gamma_hat` or `overlap_coeff` above 0, in the backward view of state values"
_ONE_ROW = "in the backward view of state values, without actor replay"
_STATE_VALUES = "with `critic='state_value'`"
_ACTION_VALUES = "with `critic='action_value'`"
_OVERLAP = "with `overlap_target`, once the actor learns"
_UPDATE = "from the first update on"
_FIRST = "in the first result; NaN later"

EMPHATIC_LEARNER = Section(
    "The learner of GeoffPAC, ACE and OffPAC",
    LEARNER,
    EMPHATIC,
    (
        Metric("value_loss", "reward^2", "loss of V: rho delta^2 / 2 for TD", _STATE_VALUES),
        Metric(
            "action_value_loss",
            "reward^2",
            "loss of Q, both critics together: (Q(S, A) - y)^2",
            _ACTION_VALUES,
        ),
        Metric(
            "counterfactual_action_value_loss",
            "reward^2",
            "the same of Q_u",
            f"{_ACTION_VALUES} and `gamma_hat` above 0",
            algorithms=("GeoffPAC",),
        ),
        Metric(
            "action_value_mean",
            "reward",
            "Q(S_t, A_t) of the first critic",
            _ACTION_VALUES,
        ),
        Metric(
            "density_ratio_loss",
            "",
            "loss of C without its normalisation",
            "with `gamma_hat` above 0",
            algorithms=("GeoffPAC",),
        ),
        Metric(
            "counterfactual_value_loss",
            "reward^2",
            "loss of U: rho (delta^u)^2 / 2",
            "with `view='forward'` and `gamma_hat` above 0",
            algorithms=("GeoffPAC",),
        ),
        Metric("emphasis_loss", "", "loss of M", "with `emphasis='learned'`"),
        Metric("correction_loss", "reward^2", "loss of TDRC's h", "with `value_estimator='tdrc'`"),
        Metric("density_ratio_mean", "", "C(S_t) before its clip; the normalisation pulls it to 1"),
        Metric(
            "rho_mean",
            "",
            "E_mu[rho], unclipped: 1 where coverage holds, P_pi(a in box) for the Gaussian",
        ),
        Metric("rho_clipped_mean", "", "mean of the clipped rho"),
        Metric("rho_clipped_share", "share", "transitions that the clip binds on"),
        Metric(
            "rho_effective_sample_fraction",
            "share",
            "(sum rho)^2 / (n sum rho^2): near 0 when pi has left mu's data",
        ),
        Metric(
            "overlap",
            "",
            "E_mu[min(rho, rho_clip)] of what the actor learns from, held at `overlap_target`",
            _OVERLAP,
        ),
        Metric("overlap_multiplier", "", "eta, the strength of the force that does it", _OVERLAP),
        Metric("f1_mean", "", "F1_t, the follow-on trace, or what stands for it"),
        Metric("m1_mean", "", "M1_t, the emphasis of the first term"),
        Metric("f2_norm", "", "norm of F2_t, mean over lanes", _SECOND_TERM),
        Metric(
            "z1_norm",
            "",
            "norm of the ascent direction's first term, before clipping",
            _ONE_ROW,
        ),
        Metric("z2_norm", "", "norm of its second term", _SECOND_TERM),
        Metric(
            "value_mean",
            "reward",
            "running mean of V(S_t): the baseline b; of Q(S_t, a), a from pi, with action values",
        ),
        Metric("value_std", "reward", "its standard deviation: the scale of the overlap force"),
        Metric("policy_std", "", "mean std of pi in the unit box", "with continuous actions"),
        Metric("policy_entropy", "nats", "mean entropy of pi over replayed states"),
        Metric(
            "objective_estimate",
            "reward",
            "J_gamma_hat off-policy: mean over replayed states of C(S) i(S) V(S), or Q(S, a)",
        ),
    ),
)

DETERMINISTIC_LEARNER = Section(
    "The learner of DDPG and TD3",
    LEARNER,
    DETERMINISTIC,
    (
        Metric("critic_loss", "reward^2", "loss of Q, all critics together", _UPDATE),
        Metric("q_mean", "reward", "mean Q(S, A) of the first critic", _UPDATE),
        Metric("q_target_mean", "reward", "mean target of the critics", _UPDATE),
        Metric("actor_objective", "reward", "mean Q(S, pi(S))", _UPDATE),
        Metric("action_saturation_share", "share", "pi's actions at the bounds", _UPDATE),
        Metric("num_updates", "updates", "of the critics, in this run"),
    ),
)

EVERY_LEARNER = Section(
    "Every learner",
    LEARNER,
    ALGORITHMS,
    (
        Metric("learn_seconds", "s", "spent on learning in this iteration, transport included"),
        Metric("diverged", "", "1 if a loss or a parameter is NaN or infinite, else 0"),
        Metric("total_loss", "reward^2", "the loss of V or of Q, by RLlib's name"),
        Metric("<network>_learning_rate", "", "of the optimizer of pi or of a critic"),
        Metric("num_trainable_parameters", "parameters", "of the optimizers", _FIRST),
        Metric("num_non_trainable_parameters", "parameters", "the target copies", _FIRST),
        Metric("module_train_batch_size_mean", "env steps", "of a fragment, by RLlib's name"),
        Metric("num_module_steps_trained", "env steps", "in this iteration, likewise"),
        Metric("num_module_steps_trained_lifetime", "env steps", "in this run, likewise"),
        Metric(
            "num_module_steps_trained_lifetime_throughput/<since>",
            "env steps / s",
            "RLlib's measure of speed, since the last result or restore",
        ),
        Metric("weights_seq_no", "", "RLlib's number of the weights' version"),
    ),
)
