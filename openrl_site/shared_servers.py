"""Use the servers of a data folder: join those that run, else have them started for as long as anybody uses them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openrl_site import process_table
from openrl_site.exceptions import SetUpError
from openrl_site.file_locks import FileLock
from openrl_site.locations import PROJECT_ROOT, state_file, var_dir
from openrl_site.private_files import read_json
from openrl_site.server_keeper import EXIT_FAILED, KEEPER_LOCK, USERS_LOCK
from openrl_site.server_logs import last_line

START_TIMEOUT_SECONDS = 90
STOP_TIMEOUT_SECONDS = 4.4  # a little more than the slower of the two servers has
_POLL_SECONDS = 0.05
# Commands that need neither server; starting them would only cost time.
COMMANDS_WITHOUT_SERVERS = frozenset({"help", "version", "--help", "--version", "-h", "startapp", "collectstatic"})
_left_to_others: list[subprocess.Popen[bytes]] = []  # running keepers we started; Popen warns when one is forgotten


class SharedServers:
    """One user's hold on the servers of a folder; `DATABASE_URL` and `REDIS_URL` put others in their place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.external = {
            key: os.environ[name]
            for key, name in (("database_url", "DATABASE_URL"), ("redis_url", "REDIS_URL"))
            if os.environ.get(name)
        }
        self._users = FileLock(folder / USERS_LOCK)
        self._keeper: subprocess.Popen[bytes] | None = None

    def use(self) -> dict[str, str]:
        """Have the servers up and return `database_url` and `redis_url`. Called again, it brings back what ended.

        Raises:
            SetUpError: they can't be started; the message says why.
        """
        if len(self.external) == 2:
            return self.external
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Waits for servers on their way down: their keeper holds the lock to the end.
        if not self._users.take(shared=True, wait_seconds=4 * STOP_TIMEOUT_SECONDS):
            raise SetUpError(f"{self._users.path} is locked: the servers under {self.folder} do not stop.")
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            if state := running_servers(self.folder):
                return self._urls(state)
            self._start_keeper()
            time.sleep(_POLL_SECONDS)
        raise SetUpError(f"The servers under {self.folder} were not up within {START_TIMEOUT_SECONDS} s.")

    def leave(self, *, stop: bool = False) -> None:
        """Give the hold up. The last user waits until the servers are down; `stop` takes them from all others."""
        if not self._users.is_ours:
            return
        alone = self._users.take()  # turns our shared lock into the only one, where nobody else has one
        state = running_servers(self.folder)
        if state and (alone or stop):
            process_table.end(state["pid"], state["identity"], signal.SIGTERM, timeout_seconds=STOP_TIMEOUT_SECONDS)
        if self._keeper is not None:
            _end_child(self._keeper) if alone or stop else _left_to_others.append(self._keeper)
            self._keeper = None
        self._users.release()

    def _urls(self, state: dict[str, Any]) -> dict[str, str]:
        urls = {key: state[key] for key in ("database_url", "redis_url") if key in state} | self.external
        for key, name in (("database_url", "DATABASE_URL"), ("redis_url", "REDIS_URL")):
            if key not in urls:
                raise SetUpError(
                    f"The servers that run under {self.folder} were started with another {name}: set the same one."
                )
        return urls

    def _start_keeper(self) -> None:
        """Start the keeper, unless ours is on its way or another keeps; tell why ours gave up."""
        if self._keeper is not None:
            status = self._keeper.poll()
            if status is None:
                return
            self._keeper = None
            if status == EXIT_FAILED:  # one that was killed instead is replaced
                raise SetUpError(last_line(self._log) or f"The keeper of {self.folder} gave no reason.")
        if FileLock(self.folder / KEEPER_LOCK).is_taken():
            return
        wanted = [f"--{name}" for name in ("postgres", "redis") if _KEYS[name] not in self.external]
        with self._log.open("wb") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-m", "openrl_site.server_keeper", str(self.folder), *wanted],
                cwd=PROJECT_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def _log(self) -> Path:
        return self.folder / "servers.log"


_KEYS = {"postgres": "database_url", "redis": "redis_url"}


@contextmanager
def servers_for_command(arguments: Sequence[str]) -> Iterator[None]:
    """Have servers while a management command lasts, and their URLs in the environment its settings read."""
    if len(arguments) < 2 or arguments[1] in COMMANDS_WITHOUT_SERVERS:
        yield
        return
    servers = SharedServers(var_dir())
    try:
        urls = servers.use()
        os.environ["DATABASE_URL"], os.environ["REDIS_URL"] = urls["database_url"], urls["redis_url"]
        yield
    finally:
        servers.leave()


def running_servers(folder: Path) -> dict[str, Any]:
    """Return the state of the servers that run in a folder; nothing where none do."""
    state = read_json(state_file(folder))
    alive = bool(state) and process_table.identity_of(int(state["pid"])) == state["identity"]
    return state if alive else {}


def _end_child(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
