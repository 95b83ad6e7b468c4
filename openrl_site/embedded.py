"""PostgreSQL and Redis for those who have none: the servers of one data folder, children of who starts them."""

from __future__ import annotations

from pathlib import Path

from openrl_site.embedded_postgres import EmbeddedPostgres
from openrl_site.embedded_redis import EmbeddedRedis

DATABASE_NAME = "telemetry"


class EmbeddedServers:
    """The embedded servers of one data folder, as many as are wanted. One process may hold a folder at a time.

    Raises:
        SetUpError: from `start` and `restart_ended`, where a server can't be started.
    """

    def __init__(self, folder: Path, *, postgres: bool = True, redis: bool = True, durable: bool = True) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)  # the sockets ask for no password: the folder must keep others out
        self.postgres = EmbeddedPostgres(folder, durable=durable) if postgres else None
        self.redis = EmbeddedRedis(folder) if redis else None

    def urls(self) -> dict[str, str]:
        """Return `database_url` and `redis_url` of the wanted servers."""
        urls = {}
        if self.postgres is not None:
            urls["database_url"] = self.postgres.url(DATABASE_NAME)
        if self.redis is not None:
            urls["redis_url"] = self.redis.url
        return urls

    def start(self) -> None:
        """Start the wanted servers; returns when they answer and the database exists."""
        if self.redis is not None:
            self.redis.start()
        if self.postgres is not None:
            self.postgres.start()
            self.postgres.create_database(DATABASE_NAME)

    def restart_ended(self) -> list[str]:
        """Start again what ended by itself; returns the names of those."""
        ended = [server for server in (self.redis, self.postgres) if server is not None and not server.is_running()]
        for server in ended:
            server.stop()
            server.start()
        return ["PostgreSQL" if server is self.postgres else "Redis" for server in ended]

    def stop(self) -> None:
        """Stop what was started, both at the same time."""
        servers = [server for server in (self.redis, self.postgres) if server is not None]
        for server in servers:
            server.ask_to_end()
        for server in servers:
            server.stop()
