"""One program under the supervisor: its own session, its lines prefixed, started again when it ends by itself."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from openrl_site import child_process, process_table

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 60.0  # who ran for so long starts again at once when it ends


@dataclass(frozen=True, slots=True)
class Program:
    """What to run. One that `may_finish` is not started again after ending with status 0."""

    name: str
    command: tuple[str, ...]
    may_finish: bool = False


class SupervisedProcess:
    """The process of a program over all its starts. All methods belong to the main thread."""

    def __init__(
        self, program: Program, *, env: Mapping[str, str], cwd: Path, write: Callable[[str, str], None]
    ) -> None:
        self.program = program
        self._env = env
        self._cwd = cwd
        self._write = write  # takes the program's name and a line
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._started_at = 0.0
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self._next_start_at = 0.0
        self.is_finished = False

    def start(self) -> None:
        """Start the program."""
        self._process = child_process.start(self.program.command, output=subprocess.PIPE, cwd=self._cwd, env=self._env)
        self._started_at = time.monotonic()
        self._reader = threading.Thread(target=self._copy_output, args=(self._process,), daemon=True)
        self._reader.start()

    def watch(self) -> bool:
        """Notice an end, and start again when it is time. True where it was started."""
        if self._process is not None and self._process.poll() is not None:
            self._note_end(self._process)
        if self._process is None and not self.is_finished and time.monotonic() >= self._next_start_at:
            self.start()
            return True
        return False

    def ask_to_end(self) -> None:
        """Send SIGTERM and return at once."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    @property
    def has_ended(self) -> bool:
        """Whether no process of it runs."""
        return self._process is None or self._process.poll() is not None

    def kill_rest(self) -> None:
        """Kill it and whatever of its session is left; nothing of it runs afterwards."""
        if self._process is not None:
            child_process.kill_session(self._process.pid)
            self._process.wait()
            self._process = None
        if self._reader is not None:
            self._reader.join(timeout=1.0)
        self.is_finished = True

    def on_record(self) -> dict[str, str | int] | None:
        """Return the pid, its identity and the name, for the next start to find; None where nothing runs."""
        if self._process is None:
            return None
        identity = process_table.identity_of(self._process.pid)
        return {"name": self.program.name, "pid": self._process.pid, "identity": identity} if identity else None

    def _note_end(self, process: subprocess.Popen[bytes]) -> None:
        child_process.kill_session(process.pid)  # a parent that was killed may have left children
        self._process = None
        if self.program.may_finish and process.returncode == 0:
            self.is_finished = True
            self._write("server", f"{self.program.name} has finished")
            return
        now = time.monotonic()
        if now - self._started_at > STEADY_SECONDS:
            self._pause_seconds = FIRST_PAUSE_SECONDS
        self._next_start_at = now + self._pause_seconds
        self._write(
            "server",
            f"{self.program.name} ended ({_how(process.returncode)}); starting it again in {self._pause_seconds:.0f} s",
        )
        self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)

    def _copy_output(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdout is None:
            return
        with process.stdout as lines:
            for line in lines:
                self._write(self.program.name, line.decode(errors="replace").rstrip())


def _how(status: int) -> str:
    return f"status {status}" if status >= 0 else signal.Signals(-status).name
