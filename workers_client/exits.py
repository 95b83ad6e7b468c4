"""The ends of a process: a last flush at a normal exit, and a new worker in each child of a fork.

No signal handler is installed. `close()` is the contract, what is registered here is the net.
"""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from typing import TYPE_CHECKING

from workers_client.handled_signals import handler_has_run, is_raised_by_handler
from workers_client.transport import LOAD_LOCK

if TYPE_CHECKING:
    from workers_client.core import Core

CLOSE_SECONDS = 5.0
# Reasons of an exit, where the host gives none:
CLOSED = "closed"  # it called `close`, and nothing below but `exit` ended the process
EXIT = "exit"  # the program ended or called `sys.exit`
EXCEPTION = "exception"  # nobody caught it
SIGNAL = "signal"  # Ctrl-C, or a handler of SIGTERM or SIGINT ran
_registered_pids: set[int] = set()


def register_process_exit() -> None:
    """Have the recorder closed when this process ends; a child of `multiprocessing` skips `atexit` but runs finalizers.

    Called by `start()` and, in the child of a fork, with the first record.
    """
    if os.getpid() in _registered_pids:
        return
    inherits_atexit = bool(_registered_pids)  # of a parent before the fork
    _registered_pids.clear()
    _registered_pids.add(os.getpid())
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize  # loaded only in children of multiprocessing, which have it

        Finalize(None, close_at_exit, exitpriority=100)
    elif not inherits_atexit:
        atexit.register(close_at_exit)  # a child of a plain fork inherits it


def close_at_exit() -> None:
    """Send the last flush of this process's recorder, with why it ended as far as that is known."""
    import workers_client  # the package's state is looked up at exit: it may be a child's by now

    recorder = workers_client.get_recorder()
    if isinstance(recorder, workers_client.Recorder):
        recorder._core.close_at_exit(CLOSE_SECONDS, _reason())


def prepare_late_imports() -> None:
    """Load what can't be loaded once the interpreter shuts down, so that a first flush at exit still can load redis.

    redis imports asyncio, which imports `concurrent.futures.thread`, which registers with `threading` when loaded and
    is refused once the main thread has ended.
    """
    import concurrent.futures.thread  # noqa: F401 - a few milliseconds, at start() and not at import


def register_fork(core: Core) -> None:
    """Have the child of a fork begin anew: an empty buffer, its own id, thread and connection."""
    reference = weakref.ref(core)

    def begin_anew() -> None:
        """Find the core again, unless the host has let go of it."""
        found = reference()
        if found is not None:
            found.begin_anew_after_fork()

    os.register_at_fork(after_in_child=begin_anew)
    # A child must not inherit a library that the flush thread had loaded half.
    os.register_at_fork(before=LOAD_LOCK.acquire, after_in_parent=LOAD_LOCK.release, after_in_child=LOAD_LOCK.release)


def _reason() -> str:
    """Return why the process ends: `exception`, `signal` (Ctrl-C, or a handler of the host's that ran) or `exit`."""
    kind, _, trace = sys.exc_info()  # under way where a child of `multiprocessing` ends
    if kind is None:
        kind, trace = getattr(sys, "last_type", None), getattr(sys, "last_traceback", None)  # what nobody caught
    if kind is None:
        return SIGNAL if handler_has_run() else EXIT
    if issubclass(kind, KeyboardInterrupt) or is_raised_by_handler(trace):
        return SIGNAL
    return EXIT if issubclass(kind, SystemExit) else EXCEPTION
