"""Requests for processors and custom resources that can't be met: they would look like a hang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import ray
import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

_ADVICE = {
    "CPU": "lower `num_env_runners`, `evaluation_num_env_runners` or `num_learners`",
    "GPU": "lower `num_gpus_per_learner` or `num_gpus_per_env_runner`",
}


def check_resources(config: AlgorithmConfig) -> None:
    """Raises if the cluster can never hold the processes that the config asks for.

    Inside a Tune trial all is reserved already: see `LaneAlgorithm.default_resource_request`.

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
    needed = sum_resources(_processes(config))
    if ray.util.get_current_placement_group() is None and needed:
        check_available(needed, ray.cluster_resources(), "The env runners and the learner need")


def check_available(
    needed: Mapping[str, float],
    available: Mapping[str, float],
    who: str,
    whose: str = "the Ray cluster",
) -> None:
    """Raises if there is less of something than is needed.

    Args:
        needed: Amounts of "CPU", "GPU" and custom resources.
        available: Likewise.
        who: The beginning of the sentence, such as "A trial needs".
        whose: Who has what is available.

    Raises:
        ValueError: naming what is needed, what there is and what to do.
    """
    for kind, count in needed.items():
        there = available.get(kind, 0)
        if count > there:
            name = f"{kind}s" if kind in _ADVICE else f"of the custom resource {kind!r}"
            advice = _ADVICE.get(
                kind, "correct its name or lower the amount (`custom_resources_*`)"
            )
            raise ValueError(
                f"{who} {count:g} {name}, and {whose} has {there:g}: {advice}, or add nodes."
            )


def sum_resources(processes: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """What several processes need together; nothing that is 0."""
    total: Counter[str] = Counter()
    for process in processes:
        total.update(process)
    return {kind: count for kind, count in total.items() if count}


def _processes(config: AlgorithmConfig) -> list[dict[str, Any]]:
    """What each process needs that is started beside this one."""
    runner = {
        "CPU": config.num_cpus_per_env_runner,
        "GPU": config.num_gpus_per_env_runner,
        **config.custom_resources_per_env_runner,
    }
    cpus, gpus = config.num_cpus_per_learner, config.num_gpus_per_learner
    if cpus == "auto":  # As RLlib resolves it.
        cpus = 0 if gpus else 1
    learner = {"CPU": cpus, "GPU": gpus, **config.custom_resources_per_learner}
    runners = config.num_env_runners + config.evaluation_num_env_runners
    return [runner] * runners + [learner] * config.num_learners
