"""Every name that a training result contains: place, unit, meaning, and for which algorithms.

A metric is one row here. Who checks a stop criterion, labels a plot, shows progress or explains a
result looks it up; `python -m rllib_geoffpac.metrics` prints the glossary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from rllib_geoffpac.registration import ALGORITHM_NAMES as ALGORITHMS

DETERMINISTIC = ("DDPG", "TD3")
EMPHATIC = tuple(name for name in ALGORITHMS if name not in DETERMINISTIC)

# Where a metric stands in a result, as a path of keys; "" is the top level.
ENV_RUNNERS = "env_runners"
EVALUATION = "evaluation/env_runners"
LEARNER = "learners/default_policy"
ALL_MODULES = "learners/__all_modules__"

TEXT, YES_OR_NO = "text", "yes or no"


@dataclass(frozen=True)
class Metric:
    """One row of the table.

    Attributes:
        name: Its key. A part in angle brackets stands for a key that depends on the run, as in
            `fault_tolerance/<count>`; with dots, as in `timers/<part...>`, also for a path of them.
        unit: What the number counts or measures: "" for a pure number, "reward" for sums of
            rewards; `TEXT` or `YES_OR_NO` for what is no number.
        meaning: In half a sentence.
        when: The condition, if it isn't in every result ("with evaluation" goes without saying).
        rllib: Whether RLlib's own algorithms report it as well.
        headline: Its name on the screen. The metrics that have one are shown while training, and
            the first of them that a run reports is what 'best' means.
        label: What a plot writes on its axis, if not the name.
        place: The path of keys above it, such as `env_runners`; given by its section.
        algorithms: Those of this package that report it; given by its section.
    """

    name: str
    unit: str
    meaning: str
    when: str = ""
    rllib: bool = False
    headline: str = ""
    label: str = ""
    place: str = ""
    algorithms: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The flat result key, such as `env_runners/episode_return_mean`."""
        return f"{self.place}/{self.name}" if self.place else self.name

    @property
    def is_number(self) -> bool:
        """Whether a run can be stopped or judged by it."""
        return self.unit not in (TEXT, YES_OR_NO)

    @property
    def is_open(self) -> bool:
        """Whether it stands for several keys."""
        return "<" in self.name

    @property
    def needs_evaluation(self) -> bool:
        """Whether it is only reported with evaluation switched on."""
        return self.key.startswith("evaluation/")

    def matches(self, key: str) -> bool:
        """Whether a flat result key is this metric."""
        if not self.is_open:
            return key == self.key
        path = re.sub(r"<[^>]+\.\.\.>", ".+", self.key)
        return re.fullmatch(re.sub("<[^>]+>", "[^/]+", path), key) is not None


@dataclass(frozen=True)
class Section:
    """Metrics at one place in the results of some algorithms; the title is for the glossary."""

    title: str
    place: str
    algorithms: tuple[str, ...]
    rows: tuple[Metric, ...]

    @property
    def metrics(self) -> list[Metric]:
        """The rows, each with its place and its algorithms."""
        return [
            replace(row, place=self.place, algorithms=row.algorithms or self.algorithms)
            for row in self.rows
        ]


_EPISODE = "once an episode has ended"
_SECOND_TERM = "with `gamma_hat` or `overlap_coeff` above 0, in the backward view of state values"
_ONE_ROW = "in the backward view of state values, without actor replay"
_STATE_VALUES = "with `critic='state_value'`"
_ACTION_VALUES = "with `critic='action_value'`"
_OVERLAP = "with `overlap_target`, once the actor learns"
_UPDATE = "from the first update on"
_FIRST = "in the first result; NaN later"

SECTIONS = (
    Section(
        "Evaluation of the target policy",
        EVALUATION,
        ALGORITHMS,
        (
            Metric(
                "j_pi",
                "reward",
                "J_pi, the paper's metric: the mean, over all states that pi visits, of the "
                "discounted return from there to the end of the episode",
                headline="J_pi",
                label=r"$J_\pi$ (target policy)",
            ),
            Metric("j_pi_stderr", "reward", "its standard error over episodes"),
            Metric(
                "episode_return_mean",
                "reward",
                "undiscounted return of pi, mean over the episodes",
                rllib=True,
                headline="eval return",
                label="episode return (evaluation)",
            ),
            Metric("episode_return_stderr", "reward", "its standard error over episodes"),
            Metric("episode_return_min", "reward", "the lowest return", rllib=True),
            Metric("episode_return_max", "reward", "the highest return", rllib=True),
            Metric("episode_len_mean", "env steps", "length of the episodes", rllib=True),
            Metric("episode_len_min", "env steps", "the shortest", rllib=True),
            Metric("episode_len_max", "env steps", "the longest", rllib=True),
            Metric(
                "episode_duration_sec_mean",
                "s",
                "from its start to its end; all are played side by side",
                rllib=True,
            ),
            Metric(
                "agent_episode_return_mean/default_agent",
                "reward",
                "`episode_return_mean`, of the one agent",
                rllib=True,
            ),
            Metric(
                "module_episode_return_mean/default_policy",
                "reward",
                "`episode_return_mean`, of the one module",
                rllib=True,
            ),
            Metric(
                "num_agent_steps_sampled/default_agent",
                "env steps",
                "in this evaluation",
                rllib=True,
            ),
            Metric(
                "num_module_steps_sampled/default_policy",
                "env steps",
                "in this evaluation",
                rllib=True,
            ),
            Metric(
                "num_agent_steps_sampled_lifetime/default_agent",
                "env steps",
                "in this run",
                rllib=True,
            ),
            Metric(
                "num_module_steps_sampled_lifetime/default_policy",
                "env steps",
                "in this run",
                rllib=True,
            ),
            Metric(
                "weights_seq_no",
                "",
                "RLlib's number of the version of the weights that were evaluated",
                rllib=True,
            ),
            Metric("num_env_steps_sampled", "env steps", "in this evaluation", rllib=True),
            Metric("num_env_steps_sampled_lifetime", "env steps", "in all of them", rllib=True),
            Metric("num_episodes", "episodes", "played in this evaluation", rllib=True),
            Metric("num_episodes_lifetime", "episodes", "played in all of them", rllib=True),
            Metric(
                "evaluated_at_env_steps",
                "env steps",
                "the training step of this evaluation (RLlib repeats the latest in every result)",
            ),
            Metric("env_failures", "times", "environments that raised; the episode was repeated"),
            Metric("env_runners_lost", "times", "evaluation env runners lost and rebuilt"),
            Metric("env_runners_hung", "times", "those that did not answer in time"),
        ),
    ),
    Section(
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
    ),
    Section(
        "Sampling with the behaviour policy",
        ENV_RUNNERS,
        ALGORITHMS,
        (
            Metric(
                "episode_return_mean",
                "reward",
                "undiscounted return of mu, mean over its latest episodes",
                _EPISODE,
                rllib=True,
                headline="return",
                label="episode return (training)",
            ),
            Metric("episode_return_min", "reward", "the lowest return", _EPISODE, rllib=True),
            Metric("episode_return_max", "reward", "the highest return", _EPISODE, rllib=True),
            Metric("episode_len_mean", "env steps", "length of the episodes", _EPISODE, rllib=True),
            Metric("episode_len_min", "env steps", "the shortest", _EPISODE, rllib=True),
            Metric("episode_len_max", "env steps", "the longest", _EPISODE, rllib=True),
            Metric("episode_duration_sec_mean", "s", "of simulating it", _EPISODE, rllib=True),
            Metric(
                "agent_episode_return_mean/default_agent",
                "reward",
                "`episode_return_mean`, of the one agent",
                _EPISODE,
                rllib=True,
            ),
            Metric(
                "module_episode_return_mean/default_policy",
                "reward",
                "`episode_return_mean`, of the one module",
                _EPISODE,
                rllib=True,
            ),
            Metric(
                "num_agent_steps_sampled/default_agent",
                "env steps",
                "in this iteration",
                rllib=True,
            ),
            Metric(
                "num_module_steps_sampled/default_policy",
                "env steps",
                "in this iteration",
                rllib=True,
            ),
            Metric(
                "num_agent_steps_sampled_lifetime/default_agent",
                "env steps",
                "in this run",
                rllib=True,
            ),
            Metric(
                "num_module_steps_sampled_lifetime/default_policy",
                "env steps",
                "in this run",
                rllib=True,
            ),
            Metric(
                "weights_seq_no",
                "",
                "RLlib's number of the version of the weights that mu follows; 0: it is fixed",
                rllib=True,
            ),
            Metric("num_episodes", "episodes", "that ended in this iteration", rllib=True),
            Metric("num_episodes_lifetime", "episodes", "that ended in this run", rllib=True),
            Metric("num_env_steps_sampled", "env steps", "in this iteration", rllib=True),
            Metric("num_env_steps_sampled_lifetime", "env steps", "in this run", rllib=True),
            Metric(
                "num_env_steps_sampled_lifetime_throughput/<since>",
                "env steps / s",
                "RLlib's measure of speed, since the last result or restore",
                rllib=True,
            ),
            Metric(
                "simulation_seconds",
                "s",
                "spent by the slowest env runner on simulating or reading",
            ),
            Metric("env_failures", "times", "environments that raised"),
            Metric("lanes_resimulated", "times", "lanes brought back by re-simulation"),
            Metric(
                "lanes_not_reproducible",
                "times",
                "lanes that could not be brought back: the same seed gave other observations",
            ),
            Metric(
                "recorded_chunks_damaged",
                "times",
                "damaged parts of a recorded stream (`experience_cache`), simulated again",
            ),
            Metric("env_runners_lost", "times", "env runners lost and rebuilt"),
            Metric("env_runners_hung", "times", "those that did not answer in time"),
        ),
    ),
    Section(
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
            Metric(
                "correction_loss", "reward^2", "loss of TDRC's h", "with `value_estimator='tdrc'`"
            ),
            Metric(
                "density_ratio_mean", "", "C(S_t) before its clip; the normalisation pulls it to 1"
            ),
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
            Metric(
                "overlap_multiplier", "", "eta, the strength of the force that does it", _OVERLAP
            ),
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
                "running mean of V(S_t): the baseline b; of Q(S_t, a), a from pi, with action "
                "values",
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
    ),
    Section(
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
    ),
    Section(
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
            Metric("module_train_batch_size_mean", "locksteps", "rows of a batch, by RLlib's name"),
            Metric("num_module_steps_trained", "locksteps", "in this iteration, likewise"),
            Metric("num_module_steps_trained_lifetime", "locksteps", "in this run, likewise"),
            Metric(
                "num_module_steps_trained_lifetime_throughput/<since>",
                "locksteps / s",
                "RLlib's measure of speed, since the last result or restore",
            ),
            Metric("weights_seq_no", "", "RLlib's number of the weights' version"),
        ),
    ),
    Section(
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
            Metric(
                "num_training_step_calls_per_iteration", "calls", "in this iteration", rllib=True
            ),
            Metric("time_total_s", "s", "training time of this run", rllib=True),
            Metric("time_this_iter_s", "s", "of this iteration", rllib=True),
            Metric("time_since_restore", "s", "training time of this process", rllib=True),
            Metric("timestamp", "s", "since 1970", rllib=True),
            Metric("timers/<part...>", "s", "smoothed times of an iteration's parts", rllib=True),
            Metric("perf/<resource...>", "%", "use of CPU, RAM, GPU", "now and then", rllib=True),
            Metric("fault_tolerance/<count>", "env runners", "healthy, restarted", rllib=True),
            Metric("env_runner_group/<count>", "requests", "that are under way", rllib=True),
            Metric(
                "evaluation/<count>", "env runners", "the same of evaluation", "if new", rllib=True
            ),
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
    ),
    Section(
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
    ),
)

METRICS = tuple(metric for section in SECTIONS for metric in section.metrics)


def metrics_of(algorithm: str) -> tuple[Metric, ...]:
    """The metrics in the results of one of this package's algorithms, by its name in Tune."""
    return tuple(metric for metric in METRICS if algorithm in metric.algorithms)


def headlines(metrics: Iterable[Metric]) -> list[Metric]:
    """Those to show while training; the first that is reported says what 'best' means."""
    return [metric for metric in metrics if metric.headline]


def glossary() -> str:
    """The table as markdown, section by section."""
    return "\n".join(_markdown(section) for section in SECTIONS)


def _markdown(section: Section) -> str:
    below = [f"Under `{section.place}/`.", ""] if section.place else []
    lines = [f"## {section.title}", "", *below, "| metric | unit | meaning |", "|---|---|---|"]
    for row in section.rows:
        limits = [f"only {', '.join(row.algorithms)}"] if row.algorithms else []
        limits += [row.when] if row.when else []
        note = f" ({'; '.join(limits)})" if limits else ""
        lines.append(f"| `{row.name}` | {row.unit} | {row.meaning}{note} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(glossary(), end="")
