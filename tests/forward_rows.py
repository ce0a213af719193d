"""Exact expectations of the forward view's rules, and the mistakes that must show in them.

A row holds what a learner knows of one transition, for every path of a finite MDP at once; the row
is the second of two transitions, so that it has one before it. `expectations` runs the pure
functions of `rllib_geoffpac.maths` on the row and averages over the paths. A mutant spoils the
row before that: as a pipeline would that hands the functions the wrong thing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from finite_mdp_paths import Paths, paths

from rllib_geoffpac.maths import emphasis, forward_view
from rllib_geoffpac.maths.finite_mdp import FiniteMDP
from rllib_geoffpac.maths.tables import score, softmax_policy

Row = dict[str, np.ndarray]


class ForwardCase(NamedTuple):
    """An MDP with arbitrary fixed tables for all critics of the forward view."""

    mdp: FiniteMDP
    logits: np.ndarray  # [S, A]
    density_ratio: np.ndarray  # [S] C
    values: np.ndarray  # [S] V
    counterfactual_values: np.ndarray  # [S] U
    emphasis: np.ndarray  # [S] M
    action_values: np.ndarray  # [S, A] Q
    counterfactual_action_values: np.ndarray  # [S, A] Q_u
    gamma_hat: float = 0.8

    @property
    def policy(self) -> np.ndarray:
        return softmax_policy(self.logits)


def forward_case(make_mdp: Callable[..., FiniteMDP], seed: int) -> ForwardCase:
    rng = np.random.default_rng(seed)
    mdp = make_mdp(rng, states=4, actions=2, concentration=1.0)
    shape = mdp.behavior.shape
    return ForwardCase(
        mdp=mdp,
        logits=np.log(mdp.behavior) + rng.normal(size=shape),
        density_ratio=rng.uniform(0.3, 2.0, 4),
        values=rng.normal(scale=2.0, size=4),
        counterfactual_values=rng.normal(scale=2.0, size=4),
        emphasis=rng.uniform(0.3, 3.0, 4),
        action_values=rng.normal(scale=2.0, size=shape),
        counterfactual_action_values=rng.normal(scale=2.0, size=shape),
    )


def row_of(case: ForwardCase, everything: Paths) -> Row:
    """Columns [K] of the last of two transitions; `state` and `next_state` index tables."""
    _, here, there = everything.states
    action = everything.actions[-1]
    policy = case.policy
    return {
        "state": here,
        "next_state": there,
        "action": action,
        "previous_discount": everything.discounts[0],
        "discount": everything.discounts[1],
        "reward": everything.rewards[1],
        "rho": (policy / case.mdp.behavior)[here, action],
        "interest": case.mdp.interest[here],
        "next_interest": case.mdp.interest[there],
        "density_ratio": case.density_ratio[here],
        "next_density_ratio": case.density_ratio[there],
        "value": case.values[here],
        "next_value": case.values[there],
        "chain_next_value": case.values[there],
        "counterfactual_value": case.counterfactual_values[here],
        "next_counterfactual_value": case.counterfactual_values[there],
        "emphasis": case.emphasis[here],
        "next_emphasis": case.emphasis[there],
        "connected": np.ones(len(here)),
        # The expectation over a' ~ pi(.|S') is linear in both.
        "next_action_value": (policy * case.action_values).sum(axis=1)[there],
        "next_counterfactual_action_value": (policy * case.counterfactual_action_values).sum(
            axis=1
        )[there],
        "probability": everything.probability,
    }


def expectations(case: ForwardCase, row: Row, lambda_1: float, lambda_2: float) -> dict:
    """What the pure functions average to: the actor's two terms, and the updates of U, M and Q_u.

    The updates are those of tables: [S] for U and M, [S, A] for Q_u.
    """
    gamma_hat, probability = case.gamma_hat, row["probability"]
    direction = score(case.logits)[row["state"], row["action"]]
    delta = row["reward"] + row["discount"] * row["next_value"] - row["value"]
    mixed = forward_view.mixed_counterfactual_value(
        row["next_interest"],
        row["chain_next_value"],
        row["next_counterfactual_value"],
        lambda_2=lambda_2,
    )

    def delta_u(bootstrap: np.ndarray) -> np.ndarray:
        return forward_view.counterfactual_td_error(
            row["interest"],
            row["value"],
            bootstrap,
            row["counterfactual_value"],
            gamma_hat=gamma_hat,
        )

    m1 = emphasis.mixed_emphasis(
        row["interest"], row["density_ratio"], row["emphasis"], lambda_1=lambda_1
    )
    first = forward_view.first_weight(row["rho"], m1, delta)
    second = forward_view.second_weight(
        row["rho"], row["density_ratio"], delta_u(mixed), row["connected"]
    )
    u_update = row["rho"] * delta_u(row["next_counterfactual_value"])
    m_target = emphasis.emphasis_target(
        row["next_interest"],
        row["next_density_ratio"],
        row["discount"],
        row["rho"],
        row["emphasis"],
        row["connected"],
    )
    q_u_target = forward_view.counterfactual_action_value_target(
        row["next_interest"],
        row["next_action_value"],
        row["next_counterfactual_action_value"],
        gamma_hat=gamma_hat,
    )
    q_u = case.counterfactual_action_values[row["state"], row["action"]]
    tables = {name: np.zeros(case.mdp.num_states) for name in ("U", "M")}
    np.add.at(tables["U"], row["state"], probability * u_update)
    np.add.at(tables["M"], row["next_state"], probability * (m_target - row["next_emphasis"]))
    pairs = np.zeros(case.mdp.behavior.shape)
    np.add.at(pairs, (row["state"], row["action"]), probability * (q_u_target - q_u))
    return {
        "first": probability @ (first[:, None] * direction),
        "second": probability @ (second[:, None] * direction),
        "Q_u": pairs,
        **tables,
    }


class RowMutant(NamedTuple):
    """A mistake in what the functions are given, and the expectations that it must spoil."""

    change: Callable[[Row], Row]  # the columns that become others
    spoils: tuple[str, ...]
    teleports_only: bool = False  # nothing to see in a continuing MDP


def _going_on(row: Row) -> np.ndarray:
    return row["discount"] > 0


ROW_MUTANTS: dict[str, RowMutant] = {
    "U at S_t for U at S_{t+1}": RowMutant(
        lambda row: {"next_counterfactual_value": row["counterfactual_value"]}, ("second", "U")
    ),
    "U at another state than the reset one after a termination": RowMutant(
        lambda row: {
            "next_counterfactual_value": np.where(
                _going_on(row), row["next_counterfactual_value"], row["counterfactual_value"]
            )
        },
        ("second", "U"),
        teleports_only=True,
    ),
    "U discounted by gamma": RowMutant(
        lambda row: {
            "next_counterfactual_value": row["discount"] * row["next_counterfactual_value"]
        },
        ("second", "U"),
    ),
    "U masked at teleports": RowMutant(
        lambda row: {
            "next_counterfactual_value": _going_on(row) * row["next_counterfactual_value"]
        },
        ("second", "U"),
        teleports_only=True,
    ),
    "V in the mixture masked at teleports": RowMutant(
        lambda row: {"chain_next_value": _going_on(row) * row["chain_next_value"]},
        ("second",),
        teleports_only=True,
    ),
    "teleports left out of Z2 and of M's memory": RowMutant(
        lambda row: {"connected": _going_on(row) * row["connected"]},
        ("second",),
        teleports_only=True,
    ),
    "C missing": RowMutant(
        lambda row: {
            "density_ratio": np.ones_like(row["density_ratio"]),
            "next_density_ratio": np.ones_like(row["density_ratio"]),
        },
        ("first", "second", "M"),
    ),
    "C of S_{t+1} for C of S_t": RowMutant(
        lambda row: {"density_ratio": row["next_density_ratio"]}, ("first", "second")
    ),
    "M with gamma of the transition before": RowMutant(
        lambda row: {"discount": row["previous_discount"]}, ("M",)
    ),
    "M's own state for the state before": RowMutant(
        lambda row: {"emphasis": row["next_emphasis"]}, ("M",)
    ),
    "rho missing": RowMutant(
        lambda row: {"rho": np.ones_like(row["rho"])}, ("first", "second", "U", "M")
    ),
    "Q_u without i": RowMutant(
        lambda row: {"next_interest": np.ones_like(row["interest"])}, ("Q_u", "second", "M")
    ),
    "Q_u with i of S_t": RowMutant(
        lambda row: {"next_interest": row["interest"]}, ("Q_u", "second", "M")
    ),
    "Q_u masked at teleports": RowMutant(
        lambda row: {
            "next_action_value": _going_on(row) * row["next_action_value"],
            "next_counterfactual_action_value": _going_on(row)
            * row["next_counterfactual_action_value"],
        },
        ("Q_u",),
        teleports_only=True,
    ),
    "Q_u discounted by gamma": RowMutant(
        lambda row: {
            "next_counterfactual_action_value": row["discount"]
            * row["next_counterfactual_action_value"]
        },
        ("Q_u",),
    ),
}


def two_transitions(case: ForwardCase) -> Paths:
    return paths(case.mdp, 2)
