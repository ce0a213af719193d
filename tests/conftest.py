"""One Ray instance for the whole session, fast tests first, and the kernels to test."""

import logging
import os
import signal
import traceback
import warnings
from pathlib import Path

import pytest

KERNELS = ["torch", "fast"]
"""The learner's paths; a test with the fixture `kernel` runs on each of them."""


class _DeprecationLog(logging.Handler):
    """Shows what RLlib logs as deprecated; where our own packages use it, that is an error."""

    OURS = tuple(str(Path(__file__).parents[1] / name) for name in ("rllib_geoffpac", "rllib_cli"))

    def emit(self, record: logging.LogRecord) -> None:
        callers = [
            frame.filename
            for frame in traceback.extract_stack()
            if not frame.filename.endswith(("ray/_common/deprecation.py", "logging/__init__.py"))
        ]
        # The last is this method; before it the deprecated function (unless a decorator says it
        # for the function) and who called it.
        if any(name.startswith(self.OURS) for name in callers[-3:-1]):
            raise DeprecationWarning(record.getMessage())
        warnings.warn(record.getMessage(), DeprecationWarning, stacklevel=2)


def pytest_configure() -> None:
    # What a shell starts in the background ignores Ctrl-C, and so does whatever that starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    log = logging.getLogger("ray._common.deprecation")  # where RLlib's `deprecation_warning` logs
    log.setLevel(logging.WARNING)
    log.addHandler(_DeprecationLog())


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


@pytest.fixture
def no_ray():
    """Nothing is known of any cluster: an earlier test may have left this process connected."""
    import ray

    ray.shutdown()


SLOW = {
    # Folders that kill processes and wait for Ray to notice.
    "faults",
    # Files that take more than about 20 s each.
    "test_action_values",
    "test_backends",
    "test_benchmark",
    "test_checkpoint",
    "test_ddpg_td3",
    "test_determinism",
    "test_docs_commands",
    "test_docs_run",
    "test_every_key",
    "test_examples",
    "test_learner",
    "test_learning",
    "test_metrics",
    "test_probe",
    "test_recorded_streams",
    "test_refused_settings",
    "test_spaces",
    "test_train",
}
"""Folders and files whose tests are all slow; single tests are marked where they stand."""


def pytest_collection_modifyitems(items):
    """Marks the slow ones; runs those on a cluster, then those on one Ray, after the others."""
    for item in items:
        if {item.path.parent.name, item.path.stem} & SLOW:
            item.add_marker(pytest.mark.slow)
    needs = ["cluster", "ray"]
    items.sort(key=lambda item: [need in getattr(item, "fixturenames", ()) for need in needs[::-1]])
