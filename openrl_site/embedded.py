"""PostgreSQL and Redis for those who have none: one set a data folder, shared by all who work on it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from openrl_site import locations
from openrl_site.embedded_postgres import EmbeddedPostgres
from openrl_site.embedded_redis import EmbeddedRedis
from openrl_site.exceptions import SetUpError

DATABASE_NAME = "telemetry"
# Commands that need neither server; starting them would only cost time.
COMMANDS_WITHOUT_SERVERS = frozenset(
    {"help", "version", "--help", "--version", "-h", "startapp", "collectstatic", "spectacular", "compilemessages"}
)


class EmbeddedServers:
    """The servers of one data folder that no environment variable replaces; their URLs stand in its state file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.postgres = None if os.environ.get("DATABASE_URL") else EmbeddedPostgres(folder)
        self.redis = None if os.environ.get("REDIS_URL") else EmbeddedRedis(folder)
        self._lock: int | None = None

    @property
    def database_url(self) -> str:
        """The URL of the telemetry database, embedded or external."""
        return self.postgres.url(DATABASE_NAME) if self.postgres else os.environ["DATABASE_URL"]

    @property
    def redis_url(self) -> str:
        """The URL of Redis, embedded or external."""
        return self.redis.url if self.redis else os.environ["REDIS_URL"]

    def start(self) -> None:
        """Take the folder's lock and start what is embedded.

        Raises:
            SetUpError: the folder is in use, or a server can't be started.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _take_lock(self.folder / "servers.lock")
        if self.redis is not None:
            self.redis.start()
        if self.postgres is not None:
            self.postgres.start()
            self.postgres.create_database(DATABASE_NAME)
        _write_private(self.folder / "servers.json", {"database_url": self.database_url, "redis_url": self.redis_url})

    def stop(self) -> None:
        """Stop what was started, Redis first, and give the folder free."""
        (self.folder / "servers.json").unlink(missing_ok=True)
        if self.redis is not None:
            self.redis.stop()
        if self.postgres is not None:
            self.postgres.stop()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextmanager
def servers_for_command(arguments: Sequence[str]) -> Iterator[None]:
    """Have servers while a management command lasts: those that run, else our own for as long as it takes."""
    name = arguments[1] if len(arguments) > 1 else "help"
    external = os.environ.get("DATABASE_URL") and os.environ.get("REDIS_URL")
    if external or name in COMMANDS_WITHOUT_SERVERS or is_in_use(locations.var_dir()):
        yield
        return
    servers = EmbeddedServers(locations.var_dir())
    try:
        servers.start()
        yield
    finally:
        servers.stop()


def is_in_use(folder: Path) -> bool:
    """Return whether the servers of a folder run, started by a process that still lives."""
    try:
        os.close(_take_lock(folder / "servers.lock"))
    except FileNotFoundError:
        return False
    except SetUpError:
        return True
    return False


def _take_lock(path: Path) -> int:
    """Return a descriptor that holds the lock until it is closed, or its process ends however it ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise SetUpError(f"{path.parent} is in use by a running script/server: stop it first.") from None
    return descriptor


def _write_private(path: Path, content: dict[str, str]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file)
