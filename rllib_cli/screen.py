"""Keeps the chatter of libraries away from the user: it goes to a log file.

Ray writes from Python, from C++ and from ``print``; only the file descriptors catch all of it. So
descriptors 1 and 2 point to the log while a command works, and the user's lines go to a duplicate
of the original standard output.
"""

import contextlib
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, TextIO

# Read by Ray when it is imported; what the user has set stays.
_RAY_ENVIRONMENT = {
    "RAY_AIR_NEW_OUTPUT": "0",  # Tune's own console tables
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a warning about CUDA_VISIBLE_DEVICES
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # so that relative paths in a config mean the user's folder
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # ours saves checkpoints first
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # evaluation need not run in every iteration
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "PYTHONWARNINGS": "ignore",
}


def plain_console(stream: TextIO) -> Any:
    """A rich console that wraps nothing where no terminal is: one report is one line."""
    from rich.console import Console

    width = None if stream.isatty() else 10_000
    return Console(file=stream, width=width, highlight=False, soft_wrap=True)


class Screen:
    """The user's standard output, kept apart from everything else that is written to it.

    Use it as a context manager; inside, ``console`` prints for the user and the rest is logged.
    """

    def __init__(self, verbosity: int = 0):
        self.verbosity = verbosity
        self.log_path: Path | None = None
        self._saved: dict[int, int] = {}
        self._log: Any = None
        self.stream: TextIO = sys.stdout
        self.console: Any = None

    def __enter__(self) -> "Screen":
        for key, value in _RAY_ENVIRONMENT.items():
            os.environ.setdefault(key, value)
        if _is_descriptor(sys.stdout, 1) and _is_descriptor(sys.stderr, 2):
            self._flush()
            self._saved = {fd: os.dup(fd) for fd in (1, 2)}
            self.stream = os.fdopen(os.dup(self._saved[1]), "w", buffering=1, encoding="utf-8")
            self._log = tempfile.TemporaryFile()
            self._point_to(self._log)
        self.console = plain_console(self.stream)
        return self

    def log_to(self, path: Path) -> None:
        """From now on the log is this file; what was logged before the first one is copied."""
        is_first, self.log_path = self.log_path is None, path
        if self._log is None:
            return
        self._flush()
        path.parent.mkdir(parents=True, exist_ok=True)
        log = open(path, "ab")  # noqa: SIM115 - it outlives this call, see __exit__
        if is_first:
            self._log.seek(0)
            log.write(self._log.read())
            log.flush()
        self._point_to(log)
        self._log.close()
        self._log = log

    def keep_log(self, error: BaseException) -> Path | None:
        """Writes an unexpected error to the log, and makes sure that the log is a named file."""
        if self._log is None:
            return None
        if self.log_path is None:
            handle, name = tempfile.mkstemp(prefix="rllib-", suffix=".log")
            os.close(handle)
            self.log_to(Path(name))
        traceback.print_exception(error)
        self._flush()
        return self.log_path

    def __exit__(self, *_: object) -> None:
        if not self._saved:
            return
        self._flush()
        for fd, saved in self._saved.items():
            os.dup2(saved, fd)
            os.close(saved)
        self._saved = {}
        self.stream.close()
        self._log.close()

    @staticmethod
    def _flush() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()

    @staticmethod
    def _point_to(log: Any) -> None:
        for fd in (1, 2):
            os.dup2(log.fileno(), fd)


def _is_descriptor(stream: Any, fd: int) -> bool:
    """False in notebooks, whose streams are no files."""
    try:
        return stream.fileno() == fd
    except (OSError, AttributeError, ValueError):
        return False
