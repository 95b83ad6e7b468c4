"""Start a child that dies with its parent, in a session of its own, so that Ctrl-C reaches only the supervisor."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1
_CLONE_NEWUSER = 0x10000000
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent(death_signal: int) -> Callable[[], None]:
    """Return what a child runs before its program, so that the kernel signals it when its parent is gone.

    Only Linux can; elsewhere a child outlives a parent that was killed, and the next start finds it by its pid file.
    """

    def prepare() -> None:
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)

    return prepare


def leave_root_then_die_with_parent(death_signal: int) -> Callable[[], None]:
    """Like `die_with_parent`, in a user namespace where root is nobody: PostgreSQL refuses to run as root.

    Files stay owned by root. Comes first, since changing the user clears the death signal.
    """

    def prepare() -> None:
        if _LIBC is not None and _LIBC.unshare(_CLONE_NEWUSER) != 0:
            raise OSError(ctypes.get_errno(), "user namespaces are not available; run as another user than root")
        die_with_parent(death_signal)()

    return prepare


def preparation(death_signal: int, *, refuses_root: bool = False) -> Callable[[], None]:
    """Return the `preexec_fn` for a child, by what it tolerates."""
    if refuses_root and os.geteuid() == 0:
        return leave_root_then_die_with_parent(death_signal)
    return die_with_parent(death_signal)


def start(
    command: Sequence[str],
    *,
    death_signal: int = signal.SIGTERM,
    refuses_root: bool = False,
    output: IO[bytes] | int | None = subprocess.DEVNULL,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child in its own session. Call from the main thread: the death signal is tied to the calling thread."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=preparation(death_signal, refuses_root=refuses_root),
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
        _kill_session(process)
        process.wait()
        return False
    return True


def wait_until(is_ready: Callable[[], bool], *, process: subprocess.Popen[bytes], timeout_seconds: float) -> bool:
    """Wait until `is_ready`; False where the child ended or the time is over first."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        if is_ready():
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.03)
    return False


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
