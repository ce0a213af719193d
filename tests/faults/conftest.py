"""A Ray cluster of several nodes on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster
from small_runs import ROOT

from rllib_geoffpac.compat import forget_ray_address


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """A head without CPUs and three nodes with two each; this process is connected to it."""
    paths = [str(ROOT), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        # A lost node is noticed after a second instead of half a minute.
        system = {"health_check_period_ms": 300, "health_check_failure_threshold": 3}
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "_system_config": system, "include_dashboard": False},
        )
        for _ in range(3):
            cluster.add_node(num_cpus=2)
        ray.shutdown()  # An algorithm built without a fixture has started one by itself.
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
        ray.shutdown()
        cluster.shutdown()
        forget_ray_address()  # Or a later `ray.init()` looks for this cluster.
