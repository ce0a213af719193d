"""Ctrl-C and SIGTERM, heard from the first moment of the command to its last.

Python's own way is an exception wherever the main thread happens to be. In an import it shows a
traceback or is swallowed by a library's `except`, and while Ray starts it is lost. So it depends on
what the command is doing:

* at first nothing has begun that must be taken back, and the process ends at once;
* ``unwinding()``: KeyboardInterrupt, so that context managers clean up;
* ``postponed()``: as soon as the block has ended, because it can't be left halfway;
* while trials run, their session asks them for checkpoints (`rllib_cli.run.session`).

All of it only after ``listen()``: in a user's own program nothing changes. What this module imports
is little, because until then Ctrl-C shows a traceback.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C, and how schedulers and containers ask a process to end."""

_Reaction = Callable[[int], None]


class _State:
    """What this process does with a signal."""

    react: _Reaction | None = None
    """None: nobody listens."""
    heard: int | None = None
    """The first signal."""
    begun = False
    """Whether there is something to take back, or was."""
    process = 0
    """The one that listens: forked children inherit its handlers."""
    stderr = 2
    """The user's, whatever the screen does with descriptor 2."""


def listen() -> None:
    """Handles signals from now on; to be called in the main thread, which Python demands."""
    _install()
    if _State.react is None:
        _State.stderr = os.dup(2)
    _State.react, _State.process = _end_at_once, os.getpid()
    _State.heard, _State.begun = None, False


def heard() -> int | None:
    """The signal that was heard and not answered."""
    return _State.heard


def answered() -> None:
    """The command has done what the signal asked for, and its status says what came of it."""
    _State.heard = None


@contextlib.contextmanager
def unwinding() -> Iterator[None]:
    """Inside, a signal raises KeyboardInterrupt; also at the end, if a library swallowed it."""
    _State.begun = True
    with _reacting(_raise):
        yield


@contextlib.contextmanager
def postponed() -> Iterator[None]:
    """Inside, the first signal waits for the end of the block; the second doesn't.

    The handlers are set again at the end: Ray brings its own when it starts.
    """
    with _reacting(_postpone):
        yield


@contextlib.contextmanager
def _reacting(reaction: _Reaction) -> Iterator[None]:
    before = _State.react
    if before is None:
        yield
        return
    _State.react = reaction
    try:
        yield
    finally:
        _State.react = before
        _install()
    if _State.heard is not None:
        raise KeyboardInterrupt


def _install() -> None:
    for number in SIGNALS:
        signal.signal(number, _on_signal)


def _on_signal(number: int, frame: object) -> None:
    if os.getpid() != _State.process or _State.react is None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return
    is_second = _State.heard is not None
    _State.heard = _State.heard or number
    (_raise if is_second and _State.react is _postpone else _State.react)(number)


def _end_at_once(number: int) -> None:
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        when = b"" if _State.begun else b" before anything began"
        os.write(_State.stderr, b"\nStopped%b.\n" % when)
    os._exit(128 + number)


def _raise(number: int) -> None:
    raise KeyboardInterrupt


def _postpone(number: int) -> None:
    """Only remembered."""
