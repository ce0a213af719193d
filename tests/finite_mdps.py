"""Finite MDPs, simulated streams and the statistical check of the policy gradient for the tests.

`CASES` are MDPs with a target policy and arbitrary fixed C and V, for which `FiniteMDP.limits`
knows the exact expectations of Z1 and Z2. `average_terms` measures them along simulated streams
with any step function for the traces, `deviation` says how many standard errors lie between.

`TRACE_MUTANTS` are wrong step functions: each can replace `emphatic.advance`. The
mistakes that cannot live in a step function are in `PIPELINE_MUTANTS`, with what to patch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rllib_geoffpac.maths import emphatic, value
from rllib_geoffpac.maths.emphatic import Emphasis, TraceState
from rllib_geoffpac.maths.finite_mdp import FiniteMDP
from rllib_geoffpac.maths.tables import score, softmax_policy

AGREES = 4.5
"""Largest deviation, in standard errors, that counts as agreement (about 30 components)."""
DIFFERS = 7.0
"""Deviation beyond which a mistake counts as found."""


class Case(NamedTuple):
    """An MDP with everything that the traces and the two terms depend on, all of it fixed."""

    mdp: FiniteMDP
    logits: np.ndarray  # [S, A]
    density_ratio: np.ndarray  # [S] an arbitrary C, not the exact one
    values: np.ndarray  # [S] an arbitrary V
    gamma_hat: float

    @property
    def policy(self) -> np.ndarray:
        return softmax_policy(self.logits)

    @property
    def rho(self) -> np.ndarray:
        """[S, A]"""
        return self.policy / self.mdp.behavior

    def limits(self, lambda_1: float, lambda_2: float, **settings):
        """The exact terms; `settings` as in `gradient_limits.limits`: view, emphasis, critics."""
        return self.mdp.limits(
            self.policy,
            gamma_hat=self.gamma_hat,
            lambda_1=lambda_1,
            lambda_2=lambda_2,
            density_ratio=self.density_ratio,
            values=self.values,
            **settings,
        )


def random_continuing_mdp(
    rng: np.random.Generator, states: int = 4, actions: int = 2, concentration: float = 0.5
) -> FiniteMDP:
    """A continuing MDP whose discount depends strongly on the transition, from 0.05 to 0.95.

    A small `concentration` makes the transitions nearly deterministic, and the two policies' chains
    different: then the mistakes are visible above the noise.
    """
    shape = (states, actions, states)
    return FiniteMDP(
        transitions=rng.dirichlet(np.full(states, concentration), size=(states, actions)),
        rewards=rng.normal(size=shape),
        discounts=rng.choice([0.05, 0.5, 0.95], size=shape),
        behavior=rng.dirichlet(np.full(actions, 8.0), size=states),
        interest=rng.uniform(0.5, 2.0, size=states),
    )


def random_episodic_mdp(
    rng: np.random.Generator, states: int = 5, actions: int = 2, concentration: float = 0.5
) -> FiniteMDP:
    """An episodic MDP: states 0 and 1 start an episode and are entered by teleport alone.

    Every state-action pair ends the episode with probability 0.1 or 0.9. Elsewhere gamma is 0.9.
    """
    starts = 2
    transitions = np.zeros((states, actions, states))
    weights = np.full(states - starts, concentration)
    transitions[..., starts:] = rng.dirichlet(weights, (states, actions))
    ending = rng.choice([0.1, 0.9], size=(states, actions, 1))
    start = np.zeros(states)
    start[:starts] = rng.dirichlet(np.full(starts, 2.0))
    discounts = np.full((states, actions, states), 0.9)
    discounts[..., :starts] = 0
    return FiniteMDP(
        transitions=(1 - ending) * transitions + ending * start,
        rewards=rng.normal(size=(states, actions, states)),
        discounts=discounts,
        behavior=rng.dirichlet(np.full(actions, 8.0), size=states),
        interest=rng.uniform(0.5, 2.0, size=states),
    )


def random_teleporting_mdp(
    rng: np.random.Generator, states: int = 5, actions: int = 2, concentration: float = 0.5
) -> FiniteMDP:
    """Everything at once: transition-dependent discounts, of which a quarter ends an episode.

    A teleport can lead anywhere here, also back to where it starts from.
    """
    mdp = random_continuing_mdp(rng, states, actions, concentration)
    discounts = rng.choice([0.0, 0.3, 0.9, 0.97], size=mdp.discounts.shape)
    return FiniteMDP(mdp.transitions, mdp.rewards, discounts, mdp.behavior, mdp.interest)


def complex_step(function, logits, step=1e-30):
    """Derivative of a real function of the logits, exact to rounding: Im f(x + ih) / h."""
    gradient = np.zeros(logits.size)
    for k in range(logits.size):
        moved = logits.astype(complex).ravel()
        moved[k] += 1j * step
        gradient[k] = function(moved.reshape(logits.shape)).imag / step
    return gradient


def _case(make_mdp: Callable[..., FiniteMDP], seed: int) -> Case:
    rng = np.random.default_rng(seed)
    mdp = make_mdp(rng, concentration=0.15)
    case = Case(
        mdp=mdp,
        logits=np.log(mdp.behavior) + rng.normal(scale=1.2, size=mdp.behavior.shape),
        density_ratio=rng.uniform(0.3, 2.0, size=mdp.num_states),
        values=rng.normal(scale=2.0, size=mdp.num_states),
        gamma_hat=0.7,
    )
    radius = mdp.trace_second_moment_radius(case.policy, case.gamma_hat)
    assert max(radius) < 0.7, f"no trustworthy standard error: {radius}"
    return case


CASES: dict[str, Case] = {
    "continuing": _case(random_continuing_mdp, seed=2),
    "episodic": _case(random_episodic_mdp, seed=59),
}
"""By name: state-dependent discounts without terminations, and terminations with teleports.

The seeds are such that 200 lanes of 1,000 steps show every mutant by more than 13 standard errors.
"""


def density_ratio_gradient(case: Case) -> np.ndarray:
    """Expected semi-gradient [S] of the C loss for a table C: that of Eq. c_td under d_mu."""
    d_mu = case.mdp.behavior_distribution()
    chain = np.einsum("sa,sat->st", case.policy, case.mdp.transitions)
    flow = case.gamma_hat * chain.T @ (d_mu * case.density_ratio) + (1 - case.gamma_hat) * d_mu
    return d_mu * case.density_ratio - flow


class Stream(NamedTuple):
    """Behaviour experience of L lanes, time-major; row t is the transition out of S_t."""

    states: np.ndarray  # [T + 1, L]
    actions: np.ndarray  # [T, L]
    rewards: np.ndarray  # [T, L]
    discounts: np.ndarray  # [T, L]


def simulate(mdp: FiniteMDP, num_lanes: int, num_steps: int, seed: int) -> Stream:
    """Follow the behaviour policy of `mdp` in all lanes, from its stationary distribution."""
    rng = np.random.default_rng(seed)
    choose = mdp.behavior.cumsum(axis=1)
    move = mdp.transitions.cumsum(axis=2)
    states = np.empty((num_steps + 1, num_lanes), dtype=np.int64)
    actions = np.empty((num_steps, num_lanes), dtype=np.int64)
    states[0] = rng.choice(mdp.num_states, size=num_lanes, p=mdp.behavior_distribution())
    for t in range(num_steps):
        actions[t] = (choose[states[t], :-1] < rng.random((num_lanes, 1))).sum(axis=1)
        cumulative = move[states[t], actions[t], :-1]
        states[t + 1] = (cumulative < rng.random((num_lanes, 1))).sum(axis=1)
    step = (states[:-1], actions, states[1:])
    return Stream(states, actions, mdp.rewards[step], mdp.discounts[step])


class Estimate(NamedTuple):
    """Mean and standard error, both [P]."""

    mean: np.ndarray
    standard_error: np.ndarray


class TermEstimates(NamedTuple):
    first: Estimate  # Z1
    second: Estimate  # Z2


def average_terms(
    case: Case,
    stream: Stream,
    lambda_1: float,
    lambda_2: float,
    *,
    advance: Callable = emphatic.advance,
    rho: np.ndarray | None = None,
    td_discounts: np.ndarray | None = None,
    burn_in: int = 100,
) -> TermEstimates:
    """Average Z1 and Z2 along a stream; lanes are independent and give the standard errors.

    Args:
        advance: the step function of the traces, or a mutant of it.
        rho: [S, A] importance ratios used everywhere; None is pi / mu.
        td_discounts: [T, L] the discounts used in the TD error; None is the stream's.
        burn_in: steps left out, in which the traces approach their limit.
    """
    rho_table = case.rho if rho is None else rho
    td_discounts = stream.discounts if td_discounts is None else td_discounts
    score_table = score(case.logits)
    num_steps, num_lanes = stream.actions.shape
    parameters = score_table.shape[-1]
    state = emphatic.fresh_traces(np.zeros(num_lanes), parameters)
    sums = np.zeros((2, num_lanes, parameters))
    for t in range(num_steps):
        here, there = stream.states[t], stream.states[t + 1]
        ratio = rho_table[here, stream.actions[t]]
        direction = score_table[here, stream.actions[t]]
        interest = case.mdp.interest[here]
        state, emphasis = advance(
            state,
            rho=ratio,
            discount=stream.discounts[t],
            density_ratio=case.density_ratio[here],
            score=direction,
            interest=interest,
            gamma_hat=case.gamma_hat,
            lambda_1=lambda_1,
            lambda_2=lambda_2,
        )
        if t < burn_in:
            continue
        delta = value.td_error(
            stream.rewards[t], td_discounts[t], case.values[there], case.values[here]
        )
        sums[0] += emphatic.first_term(ratio, emphasis.m1, delta, direction).per_lane()
        values = case.values[here]
        second = emphatic.second_term(case.gamma_hat, interest, values, emphasis.m2)
        sums[1] += second.per_lane()
    return TermEstimates(*(estimate(term / (num_steps - burn_in)) for term in sums))


def estimate(lane_means: np.ndarray) -> Estimate:
    """Mean and standard error over independent lanes: [L, P] -> [P], [P]."""
    error = lane_means.std(axis=0, ddof=1) / np.sqrt(len(lane_means))
    return Estimate(lane_means.mean(axis=0), error)


def deviation(mean: np.ndarray, standard_error: np.ndarray, limit: np.ndarray) -> float:
    """Return the largest distance of a component from its limit, in standard errors."""
    floor = 1e-12  # components that are constant have no error but that of rounding
    return float((abs(mean - limit) / np.maximum(standard_error, floor)).max())


# ---------------------------------------------------------------------------------------------
# Mistakes in the step function. `_advance` is the right one with a place for each mistake.


def _advance(
    state,
    *,
    rho,
    discount,
    density_ratio,
    score,
    interest,
    gamma_hat,
    lambda_1,
    lambda_2,
    f1_discount=lambda state, discount: state.discount,
    f1_rho=lambda state, rho: state.rho,
    f2_rho=lambda state, rho: state.rho,
    intrinsic_now=lambda state, rho: state.intrinsic,
    f2_memory=lambda state: state.f2,
    f1_ratio=lambda density_ratio: density_ratio,
    intrinsic_weight=lambda density_ratio, rho: density_ratio * rho,
):
    base = interest * f1_ratio(density_ratio)
    f1 = f1_discount(state, discount) * f1_rho(state, rho) * state.f1 + base
    m1 = (1 - lambda_1) * base + lambda_1 * f1
    f2 = m2 = following = None
    if score is not None and state.f2 is not None:
        intrinsic = intrinsic_now(state, rho)
        f2 = gamma_hat * f2_rho(state, rho)[:, None] * f2_memory(state) + intrinsic
        m2 = (1 - lambda_2) * intrinsic + lambda_2 * f2
        following = intrinsic_weight(density_ratio, rho)[:, None] * score
    return TraceState(f1, f2, rho, discount, following), Emphasis(f1, m1, f2, m2)


def _mutant(**mistake: Callable) -> Callable:
    def advance(state, **inputs):
        return _advance(state, **inputs, **mistake)

    return advance


def _restart_at_terminations(state, **inputs):
    # F1 is cut by the discount 0 anyway: this is F2 and I cut together with it.
    return _advance(emphatic.restart(state, state.discount == 0), **inputs)


def _clip_rho(state, *, rho, **inputs):
    return _advance(state, rho=rho.clip(max=1.0), **inputs)


class TraceMutant(NamedTuple):
    """A wrong step function, the term it spoils and the cases of `CASES` that must notice."""

    advance: Callable
    spoils: str  # "first" or "second"
    cases: tuple[str, ...] = ("continuing", "episodic")


TRACE_MUTANTS: dict[str, TraceMutant] = {
    "gamma_{t+1} for gamma_t in F1": TraceMutant(
        _mutant(f1_discount=lambda state, discount: discount), "first"
    ),
    "constant gamma in F1": TraceMutant(_mutant(f1_discount=lambda state, discount: 0.6), "first"),
    "rho_t for rho_{t-1} in F1": TraceMutant(_mutant(f1_rho=lambda state, rho: rho), "first"),
    "rho_t for rho_{t-1} in F2": TraceMutant(_mutant(f2_rho=lambda state, rho: rho), "second"),
    "rho_t for rho_{t-1} in I": TraceMutant(
        _mutant(
            intrinsic_now=lambda state, rho: rho[:, None] * state.intrinsic,
            intrinsic_weight=lambda density_ratio, rho: density_ratio,
        ),
        "second",
    ),
    "C missing in F1": TraceMutant(
        _mutant(f1_ratio=lambda density_ratio: density_ratio * 0 + 1), "first"
    ),
    "C missing in I": TraceMutant(
        _mutant(intrinsic_weight=lambda density_ratio, rho: rho), "second"
    ),
    "F2 reset at terminations": TraceMutant(
        _mutant(f2_memory=lambda state: (state.discount != 0)[:, None] * state.f2),
        "second",
        cases=("episodic",),
    ),
    "F2 and I reset at terminations": TraceMutant(
        _restart_at_terminations, "second", cases=("episodic",)
    ),
    "rho clipped in F1": TraceMutant(_clip_rho, "first"),
    "rho clipped in F2 and I": TraceMutant(_clip_rho, "second"),
}

MUTANTS: dict[str, Callable] = {name: mutant.advance for name, mutant in TRACE_MUTANTS.items()}
"""Drop-in replacements for `rllib_geoffpac.maths.emphatic.advance`, numpy and torch."""


class PipelineMutant(NamedTuple):
    """A mistake outside the step function."""

    patch: str  # what to change in a real pipeline
    spoils: str  # "first", "second" or "density_ratio" (the expected gradient of the C loss)
    cases: tuple[str, ...] = ("continuing", "episodic")


PIPELINE_MUTANTS: dict[str, PipelineMutant] = {
    "rho clipped everywhere": PipelineMutant(
        "clip rho_t where it enters Z1 and the traces: a low rho_clip", "second"
    ),
    "gamma_t in delta": PipelineMutant(
        "pass td_error() the discount of the transition before (0 at the start)", "first"
    ),
    "C masked at teleports": PipelineMutant(
        "pass density_ratio_loss() rho_t * (gamma_{t+1} > 0)", "density_ratio", ("episodic",)
    ),
    "C skipped at teleports": PipelineMutant(
        "pass density_ratio_loss() valid * (gamma_{t+1} > 0)", "density_ratio", ("episodic",)
    ),
}
