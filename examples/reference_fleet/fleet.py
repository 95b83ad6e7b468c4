"""Starts the fleet's processes, starts crashed ones again, and stops them all."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from examples.reference_fleet.options import Options
from examples.reference_fleet.process import log
from examples.reference_fleet.runs import groups_of, plans_of

_LOOK_EVERY_SECONDS = 0.2
_RESTART_PAUSE_SECONDS = 1.0
_LONGEST_RESTART_PAUSE_SECONDS = 30.0
_STEADY_SECONDS = 10.0  # a process that lived so long is restarted after the short pause again
_STOP_SECONDS = 2.2  # what has not stopped by then is killed


class StateDirInUseError(Exception):
    """Another fleet works in the folder: the two would delete each other's weights."""


@contextmanager
def only_fleet_in(state_dir: Path) -> Iterator[None]:
    """Hold the folder for one fleet; the kernel gives it back when the process ends, however it ends.

    Raises:
        StateDirInUseError: another process holds it.
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    with (state_dir / "fleet.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StateDirInUseError(f"--state-dir {state_dir}: another fleet works in this folder") from error
        yield


@dataclass(slots=True)
class Child:
    """One process of the fleet: its duty, and how it is doing."""

    duty: str
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0  # monotonic, like the next
    starts_at: float = 0.0
    pause_seconds: float = _RESTART_PAUSE_SECONDS
    is_done: bool = False


class Fleet:
    """The processes of one start, each with the same options and a duty of its own."""

    def __init__(self, options: Options, arguments: Sequence[str]) -> None:
        port = options.port or _free_port()
        self._arguments = [*arguments, "--port", str(port), "--fleet-id", f"{os.getpid()}-{time.time_ns():x}"]
        groups = [f"trainer:{group}" for group in groups_of(options.runs)]
        clients = [f"client:{plan.name}" for plan in plans_of(options.runs)]
        self._children = [Child(duty) for duty in ("api-server", "dispatcher", "sampler", *groups, *clients)]
        self._is_stopping = False

    def run(self) -> int:
        """Run until told to stop or until all clients are done; returns the exit code."""
        signal.signal(signal.SIGTERM, self._handle_stop)
        signal.signal(signal.SIGINT, self._handle_stop)
        try:
            while not self._is_stopping and not self._is_done():
                for child in self._children:
                    self._look_after(child)
                time.sleep(_LOOK_EVERY_SECONDS)
        finally:
            self._stop()
        return 0

    def _handle_stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._is_stopping = True

    def _is_done(self) -> bool:
        return all(child.is_done for child in self._children if child.duty.startswith("client:"))

    def _look_after(self, child: Child) -> None:
        now = time.monotonic()
        if child.process is None:
            if not child.is_done and now >= child.starts_at:
                self._start(child, now)
            return
        exit_code = child.process.poll()
        if exit_code is None:
            return
        child.process = None
        child.is_done = exit_code == 0 and child.duty.startswith("client:")
        if not child.is_done:
            steady = now - child.started_at >= _STEADY_SECONDS
            child.pause_seconds = _RESTART_PAUSE_SECONDS if steady else child.pause_seconds
            child.starts_at = now + child.pause_seconds
            log("fleet", f"{child.duty} ended with {exit_code}, starts again in {child.pause_seconds:g} s")
            child.pause_seconds = min(2 * child.pause_seconds, _LONGEST_RESTART_PAUSE_SECONDS)

    def _start(self, child: Child, now: float) -> None:
        command = [sys.executable, "-m", "examples.reference_fleet", "--only", child.duty, *self._arguments]
        child.process = subprocess.Popen(command, env=_environment(child.duty), stdin=subprocess.DEVNULL)
        child.started_at = now

    def _stop(self) -> None:
        running = [child.process for child in self._children if child.process is not None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        log("fleet", "has stopped")


def _environment(duty: str) -> dict[str, str]:
    """Return a child's environment: one thread for NumPy, and a name as a pod would have it."""
    return os.environ | {
        "OPENBLAS_NUM_THREADS": "1",
        "POD_NAME": f"{duty.partition(':')[2] or 'reference'}-0",
        "PYTHONUNBUFFERED": "1",
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
