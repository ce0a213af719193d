"""One Ray instance for the whole session, fast tests first, and the kernels to test."""

import logging
import os
import warnings
from pathlib import Path

import pytest

KERNELS = ["torch", "fast"]
"""The learner's paths; a test with the fixture `kernel` runs on each of them."""


@pytest.fixture(params=KERNELS)
def kernel(request) -> str:
    return request.param


@pytest.fixture(scope="session")
def ray():
    """One Ray instance, shared by all tests that need one; quiet."""
    import ray

    # The workers import the tests' environments and behaviour policies.
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    logging.getLogger("ray").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="ray")
    ray.shutdown()  # An algorithm built without this fixture has started one by itself.
    ray.init(
        address="local",  # never a cluster that happens to run on this machine
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    yield ray
    ray.shutdown()


def pytest_collection_modifyitems(items):
    """Tests that need Ray run after the fast ones; otherwise the order stays."""
    items.sort(key=lambda item: "ray" in getattr(item, "fixturenames", ()))
