"""What the operating system says of processes that are not our children: those an earlier start left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_POLL_SECONDS = 0.05


def identity_of(pid: int) -> str | None:
    """Return what tells a process from a later one with the same pid; None where it has ended (a zombie has)."""
    if sys.platform == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]  # field 22 of the file: start time in clock ticks
    listed = subprocess.run(["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True)
    line = listed.stdout.strip()
    return None if not line or line.startswith("Z") else line.split(None, 1)[1]


def command_of(pid: int) -> str:
    """Return the command line of a process, empty where it has ended."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            return ""
    return subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True).stdout


def end(pid: int, identity: str, stop_signal: int, *, timeout_seconds: float, whole_group: bool = False) -> None:
    """Signal a process, wait for its end and kill it where that takes too long; nothing where it is no more.

    Args:
        pid: the process.
        identity: what `identity_of` said of it once, so that a stranger with its old pid is left alone.
        stop_signal: the signal that asks it to end.
        timeout_seconds: how long it may take.
        whole_group: whether what is left of the process group it leads is killed in the end.
    """
    if identity_of(pid) != identity:
        return
    os.kill(pid, stop_signal)
    deadline = time.monotonic() + timeout_seconds
    while identity_of(pid) == identity and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    try:
        if whole_group:
            os.killpg(pid, signal.SIGKILL)
        elif identity_of(pid) == identity:
            os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
