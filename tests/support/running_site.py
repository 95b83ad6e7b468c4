"""A `script/server` in a data folder of its own, for tests that start, kill and look at the whole site."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
READY = "READY: "
START_SECONDS = 90  # a slow, busy machine included
STOP_SECONDS = 10  # what script/server promises


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def clean_environment(folder: Path, **changes: str) -> dict[str, str]:
    """Return our environment without the servers of this test run, on a data folder."""
    dropped = {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "DJANGO_SETTINGS_MODULE"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"VAR_DIR": str(folder), "PYTHONUNBUFFERED": "1"} | changes


def processes_on(folder: Path, command: str = "") -> list[psutil.Process]:
    """Return what runs on a data folder: everything the site started, however deep, with this in its command line.

    Each has the folder in its environment, or, where it has overwritten that (Redis and PostgreSQL put their titles
    there), in its command line or as its working folder.
    """
    found = []
    for process in psutil.process_iter(["environ", "status", "cmdline", "cwd"]):
        info = process.info
        words = " ".join(info["cmdline"] or [])  # asked later, one that has died meanwhile would raise
        traces = [(info["environ"] or {}).get("VAR_DIR", ""), info["cwd"] or "", words]
        if (
            info["status"] != psutil.STATUS_ZOMBIE
            and command in words
            and any(str(folder) in trace for trace in traces)
        ):
            found.append(process)
    return found


def wait_for_none_on(folder: Path, *, timeout_seconds: float) -> list[psutil.Process]:
    """Return what still runs on a data folder once nothing does, or the time is over."""
    deadline = time.monotonic() + timeout_seconds
    while (left := processes_on(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


class RunningSite:
    """One start of `script/server`. Use as a context: nothing of it is left afterwards."""

    def __init__(self, folder: Path, *options: str, **environment: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.lines: list[str] = []
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "script/server", "--port", str(self.port), *options],
            cwd=ROOT,
            env=clean_environment(folder, **environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> RunningSite:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(STOP_SECONDS * 2)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        wait_for_none_on(self.folder, timeout_seconds=STOP_SECONDS)
        self._reader.join()

    @property
    def access(self) -> dict[str, str]:
        """What stands in the access file."""
        return json.loads((self.folder / "access.json").read_text())

    def wait_for(self, text: str, *, timeout_seconds: float = START_SECONDS) -> str:
        """Return the first line with a text in it, printed already or still to come."""
        deadline = time.monotonic() + timeout_seconds
        with self._news:
            while True:
                if found := next((line for line in self.lines if text in line), None):
                    return found
                left = deadline - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    raise AssertionError(f"no line with {text!r} in:\n" + "\n".join(self.lines))
                self._news.wait(min(left, 0.5))

    def stop(self, number: int = signal.SIGINT) -> int:
        """Send a signal and return the exit status, which must come within what is promised."""
        self.process.send_signal(number)
        return self.process.wait(STOP_SECONDS)

    def get(self, path: str, *, token: str = "") -> tuple[int, str]:
        """Return status and body of a GET."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        if token:
            request.add_header("Authorization", f"Token {token}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                with self._news:
                    self.lines.append(line.rstrip())
                    self._news.notify_all()


def refusal(folder: Path, *options: str, **environment: str) -> str:
    """Return what `script/server` says on ending at once with status 1."""
    done = subprocess.run(
        [sys.executable, "script/server", *options],
        cwd=ROOT,
        env=clean_environment(folder, **environment),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr.strip()
