"""Start a child that dies with its parent, in a session of its own, so that Ctrl-C reaches only the supervisor."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_POLL_SECONDS = 0.03


def start(
    command: Sequence[str],
    *,
    death_signal: int = signal.SIGTERM,
    become: Callable[[], None] | None = None,
    output: IO[bytes] | int | None = subprocess.DEVNULL,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child in its own session. Call from the main thread: the death signal is tied to the calling thread.

    Args:
        command: the program and its arguments.
        death_signal: what the kernel sends the child when we are gone. Only Linux does; elsewhere a child outlives a
            parent that was killed, and the next start finds it by what it left on disk.
        become: run in the child before its program, to change its user. Comes before the death signal is set, which
            such a change clears.
        output: where both output streams go.
        cwd: the working folder.
        env: the environment, ours where None.
    """
    parent = os.getpid()

    def prepare() -> None:
        if become is not None:
            become()
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
            if os.getppid() != parent:  # it died before the kernel knew whom to tell
                os._exit(1)

    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=prepare,
        cwd=cwd,
        env=env,
    )


def stop(process: subprocess.Popen[bytes], stop_signal: int, *, timeout_seconds: float) -> bool:
    """Signal a child and wait for it; kill its whole session where it does not end in time. True where it ended."""
    if process.poll() is None:
        process.send_signal(stop_signal)
    try:
        process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        kill_session(process.pid)
        process.wait()
        return False
    return True


def kill_session(pid: int) -> None:
    """Kill what is left of the session that a child started by us leads, be the child itself alive or not."""
    with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
        os.killpg(pid, signal.SIGKILL)


def wait_until(is_ready: Callable[[], bool], *, process: subprocess.Popen[bytes], timeout_seconds: float) -> bool:
    """Wait until `is_ready`; False where the child ended or the time is over first."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        if is_ready():
            return True
        if process.poll() is not None:
            return False
        time.sleep(_POLL_SECONDS)
    return False
