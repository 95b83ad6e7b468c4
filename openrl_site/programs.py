"""The programs that make the site, and the environment they run in."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openrl_site.locations import LOCAL_HOSTS
from openrl_site.supervised_process import Program

EVERY_ADDRESS = ("0.0.0.0", "::", "")
_WEB_KILL_SECONDS = "2"  # for streams that are open when the web server is asked to end


@dataclass(frozen=True, slots=True)
class Address:
    """Where the web server listens."""

    host: str
    port: int

    @property
    def reachable_host(self) -> str:
        """A host under which this machine itself reaches it."""
        return "127.0.0.1" if self.host in EVERY_ADDRESS else self.host

    @property
    def url(self) -> str:
        """The site's URL on this machine."""
        host = f"[{self.reachable_host}]" if ":" in self.reachable_host else self.reachable_host
        return f"http://{host}:{self.port}"


def site_programs(address: Address) -> list[Program]:
    """Return web server, worker and beat. Beat is apart: inside a worker that is killed it would go on alone."""
    # As root Celery warns of pickled messages from others; ours are JSON.
    celery = ("-W", "ignore:You're running the worker", "-m", "celery", "--quiet", "-A", "openrl_site.celery")
    web = (
        "-m", "granian", "--interface", "asginl", "--host", address.host or "0.0.0.0", "--port", str(address.port),
        "--no-ws", "--respawn-failed-workers", "--workers-kill-timeout", _WEB_KILL_SECONDS,
        "openrl_site.asgi:application",
    )  # fmt: skip
    worker = (
        "worker",
        "--pool",
        "prefork",  # the one pool that ends a task at its time limit
        "--concurrency",
        "2",
        "--loglevel",
        "INFO",
        "--without-gossip",
        "--without-mingle",
    )
    return [
        Program("web", (sys.executable, *web)),
        Program("worker", (sys.executable, *celery, *worker)),
        Program("beat", (sys.executable, *celery, "beat", "--pidfile=", "--loglevel", "WARNING")),
    ]


def fleet_program(arguments: tuple[str, ...]) -> Program:
    """Return the reference fleet, the source of real records."""
    return Program("fleet", (sys.executable, "-m", "examples.reference_fleet", *arguments), may_finish=True)


def site_environment(folder: Path, address: Address, urls: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the site's programs: ours, with the servers and what the address asks for."""
    return {
        "ALLOWED_HOSTS": _allowed_hosts(address),
        "TELEMETRY_SITE_URL": address.url,
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "openrl_site.settings",
        "VAR_DIR": str(folder),
        "DATABASE_URL": urls["database_url"],
        "REDIS_URL": urls["redis_url"],
        "PYTHONUNBUFFERED": "1",
    }


def _allowed_hosts(address: Address) -> str:
    # Who opens the site to every address means every name this machine has, which nobody can list.
    hosts = ["*"] if address.host in EVERY_ADDRESS else [*LOCAL_HOSTS, address.host, socket.gethostname()]
    return ",".join(hosts)
