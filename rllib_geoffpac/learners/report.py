"""The learner's metrics; the README's glossary ties each to its equation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ray.rllib.core.columns import Columns

from rllib_geoffpac.learners.torch_lockstep import interest_in, to_tensors
from rllib_geoffpac.maths.value import effective_sample_fraction


@torch.no_grad()
def report(learner: Any, rows: list[dict[str, Any]]) -> dict[str, float]:
    """Summarises the locksteps of one update: means over them, norms at the last one.

    Args:
        learner: The EmphaticLearner.
        rows: `lockstep.latest` of every lockstep: [L] columns and losses.
    """
    rho = np.concatenate([_numpy(row["rho"]) for row in rows])
    clipped = np.concatenate([_numpy(row["clipped_rho"]) for row in rows])
    vectors = learner.lockstep.vectors
    metrics = {
        "value_loss": _mean(rows, "value_loss"),
        "rho_mean": float(rho.mean()),  # E_mu[rho]: 1 where coverage holds
        "rho_clipped_mean": float(clipped.mean()),
        "rho_clipped_share": float((rho > clipped).mean()),
        "rho_effective_sample_fraction": float(effective_sample_fraction(rho)),
        "density_ratio_mean": _mean(rows, "density_ratio"),
        "f1_mean": _mean(rows, "f1"),
        "m1_mean": _mean(rows, "m1"),
        "z1_norm": _norm(vectors["z1"].mean(0)),
        "value_mean": learner.moments.mean,
        "value_std": learner.moments.std,
    }
    if vectors["z2"] is not None:
        metrics["f2_norm"] = float(np.linalg.norm(_numpy(vectors["f2"]), axis=1).mean())
        metrics["z2_norm"] = _norm(vectors["z2"].mean(0))
    if learner.config.uses_density_ratio:
        metrics["density_ratio_loss"] = _mean(rows, "density_ratio_loss")
    return metrics | _policy_and_objective(learner)


def _policy_and_objective(learner: Any) -> dict[str, float]:
    module, metrics = learner.rl_module, {}
    std = module.distribution.std(module.std_parameter)
    if std is not None:
        metrics["policy_std"] = float(std.mean())
    if learner.replay.size:
        # A generator of its own: looking must not change what is learned.
        rng = np.random.default_rng(learner.num_locksteps)
        states = to_tensors(learner.replay.sample(rng, 10), module)[Columns.OBS]
        interest = interest_in(states, learner.config.interest_fn, module)
        objective = interest * module.value(states)
        if module.c is not None:
            objective = objective * module.density_ratio(states)
        metrics["objective_estimate"] = float(objective.mean())
        metrics["policy_entropy"] = float(module.entropy(states).mean())
    return metrics


def _numpy(values: Any) -> np.ndarray:
    return values.cpu().numpy() if torch.is_tensor(values) else values


def _mean(rows: list[dict[str, Any]], name: str) -> float:
    values = [_numpy(row[name]) for row in rows if name in row]
    return float(np.mean(values)) if values else 0.0


def _norm(vector: Any) -> float:
    return float(np.linalg.norm(_numpy(vector)))
