"""Requests for processors that can't be met: they would look like a hang."""

from __future__ import annotations

import ray
import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig


def check_resources(config: AlgorithmConfig) -> None:
    """Raises if the cluster can never hold the processes that the config asks for.

    Inside a Tune trial all is reserved already: there, a request that can't be met leaves the
    trial pending.

    Raises:
        ValueError: naming what is asked for and what there is.
    """
    gpus = config.num_gpus_per_learner
    if gpus and not config.num_learners and not torch.cuda.is_available():
        raise ValueError(
            f"`num_gpus_per_learner` is {gpus}, but this process, in which the learner runs "
            "(`num_learners` is 0), sees no GPU: set `num_learners` to 1 if a node of the cluster "
            "has one, else `num_gpus_per_learner` to 0."
        )
    needed = _needed(config)
    if ray.util.get_current_placement_group() is not None or not any(needed.values()):
        return
    available = ray.cluster_resources()
    for kind, count in needed.items():
        if count > available.get(kind, 0):
            raise ValueError(
                f"The env runners and the learner need {count:g} {kind}s, and the Ray cluster has "
                f"{available.get(kind, 0):g}: lower `num_env_runners`, "
                "`evaluation_num_env_runners` or `num_gpus_per_learner`, or add nodes."
            )


def _needed(config: AlgorithmConfig) -> dict[str, float]:
    runners = config.num_env_runners
    if config.evaluation_interval:
        runners += config.evaluation_num_env_runners
    learners, gpus = config.num_learners, config.num_gpus_per_learner
    cpus = config.num_cpus_per_learner
    if cpus == "auto":  # As RLlib resolves it.
        cpus = 0 if gpus else 1
    return {
        "CPU": runners * config.num_cpus_per_env_runner + learners * cpus,
        "GPU": runners * config.num_gpus_per_env_runner + learners * gpus,
    }
