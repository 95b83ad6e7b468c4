"""A Redis of the benchmark's own on the loopback interface, which can be stopped in its tracks."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from openrl_site.embedded_redis import find_binary

START_SECONDS = 10.0


class RedisServer:
    """A running server. `freeze` makes it hang, connections and all, until `thaw`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process = process
        self.url = f"redis://127.0.0.1:{port}/0"

    def freeze(self) -> None:
        """Have it answer nothing."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Have it answer again, what came meanwhile included."""
        os.kill(self._process.pid, signal.SIGCONT)


@contextmanager
def running_redis() -> Iterator[RedisServer]:
    """Start a server that keeps nothing on disk; stop it at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [find_binary(), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        server = RedisServer(process, port)
        try:
            _wait_until_it_answers(server.url)
            yield server
        finally:
            server.thaw()
            process.terminate()
            process.wait(10)


def _wait_until_it_answers(url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with redis.Redis.from_url(url, socket_timeout=1) as client:
                client.ping()
            return
        except redis.RedisError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
