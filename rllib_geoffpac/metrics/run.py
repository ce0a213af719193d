"""Metrics of a run as a whole."""

from __future__ import annotations

from rllib_geoffpac.metrics.row import ALGORITHMS, ALL_MODULES, TEXT, YES_OR_NO, Metric, Section

RUN = Section(
    "The run",
    "",
    ALGORITHMS,
    (
        Metric(
            "num_env_steps_sampled_lifetime",
            "env steps",
            "transitions handed to the learner, so that stops and evaluations fall on the "
            "same step however sampling is spread",
            rllib=True,
            label="environment steps",
        ),
        Metric("env_steps_per_s", "env steps / s", "speed of this iteration"),
        Metric(
            "data_source",
            TEXT,
            "`simulated`, `replayed` from a recorded stream, `mixed`, or `logged`",
        ),
        Metric(
            "data_epochs",
            "",
            "passes over the data set: transitions handed to the learner / those it has",
            when="with logged data (`input_`)",
        ),
        Metric(
            "behavior_model",
            TEXT,
            "what mu was estimated as: `truncated_gaussian`, `beta`, `categorical` or `table`",
            when='with behavior="estimated"',
        ),
        Metric(
            "behavior_log_likelihood",
            "",
            "held-out mean of log mu of the estimated mu",
            when='with behavior="estimated"',
        ),
        Metric(
            "behavior_log_likelihood_uniform",
            "",
            "the same of the uniform policy, to compare",
            when='with behavior="estimated"',
        ),
        Metric(
            "weights_digest",
            TEXT,
            "first 12 hex digits of a sha256 over all parameters, the target copies included",
        ),
        Metric(
            "diverged",
            YES_OR_NO,
            "a parameter became NaN or infinite; the trial ends and keeps the last finite ones",
        ),
    ),
)

BOOKKEEPING = Section(
    "RLlib's bookkeeping",
    "",
    ALGORITHMS,
    (
        Metric(
            "training_iteration",
            "iterations",
            "in this run",
            rllib=True,
            label="training iterations",
        ),
        Metric("iterations_since_restore", "iterations", "of this process", rllib=True),
        Metric("num_training_step_calls_per_iteration", "calls", "in this iteration", rllib=True),
        Metric("time_total_s", "s", "training time of this run", rllib=True),
        Metric("time_this_iter_s", "s", "of this iteration", rllib=True),
        Metric("time_since_restore", "s", "training time of this process", rllib=True),
        Metric("timestamp", "s", "since 1970", rllib=True),
        Metric("timers/<part...>", "s", "smoothed times of an iteration's parts", rllib=True),
        Metric("perf/<resource...>", "%", "use of CPU, RAM, GPU", "now and then", rllib=True),
        Metric("fault_tolerance/<count>", "env runners", "healthy, restarted", rllib=True),
        Metric("env_runner_group/<count>", "requests", "that are under way", rllib=True),
        Metric("evaluation/<count>", "env runners", "the same of evaluation", "if new", rllib=True),
        Metric(
            f"{ALL_MODULES}/num_env_steps_trained_lifetime",
            "env steps",
            "in this run; for us these are locksteps",
            rllib=True,
            label="trained steps",
        ),
        Metric(f"{ALL_MODULES}/<name...>", "", "sums over all modules", rllib=True),
        Metric("done", YES_OR_NO, "whether the trial ends with this result", rllib=True),
        Metric("trial_id", TEXT, "Tune's name of the trial", rllib=True),
        Metric("date", TEXT, "and time of the result", rllib=True),
        Metric("pid", TEXT, "of the trial's process", rllib=True),
        Metric("hostname", TEXT, "of its machine", rllib=True),
        Metric("node_ip", TEXT, "of its machine", rllib=True),
    ),
)

CALLBACKS = Section(
    "Callbacks",
    "",
    (),  # whichever the callback is given to
    (
        Metric(
            "two_circle/pi_outer",
            "probability",
            "pi(A -> B), the way to the outer circle",
            "with `callbacks: rllib_geoffpac.callbacks:TwoCirclePolicy`",
            label=r"$\pi(A \to B)$",
        ),
    ),
)
