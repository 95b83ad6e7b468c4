"""What is refused before anything starts, each with one sentence that names the value and the rule."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

import psycopg
import redis
from django.core.exceptions import ImproperlyConfigured

from openrl_site.database_urls import django_database
from openrl_site.exceptions import SetUpError
from openrl_site.redis_urls import checked_redis_url, single_try

CONNECT_TIMEOUT_SECONDS = 3
OLDEST_POSTGRES = 14  # Django's own limit


def refuse_taken_port(host: str, port: int) -> None:
    """Refuse an address that can't be listened on.

    Raises:
        SetUpError: another program listens there, or the machine has no such address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            raise SetUpError(
                f"Port {port} on {host} can't be listened on ({error}): stop the program that has it, or name a free "
                "one with --port."
            ) from error


def refuse_unreachable(urls: Mapping[str, str]) -> None:
    """Refuse external servers that can't be used.

    Args:
        urls: `database_url` and `redis_url`, as far as they come from the environment.

    Raises:
        SetUpError: one has the wrong form, does not answer, or is too old.
    """
    try:
        if "database_url" in urls:
            django_database(urls["database_url"], name="DATABASE_URL")
            _connect_postgres(urls["database_url"])
        if "redis_url" in urls:
            _connect_redis(checked_redis_url(urls["redis_url"], name="REDIS_URL"))
    except ImproperlyConfigured as error:
        raise SetUpError(str(error)) from error


def without_password(url: str) -> str:
    """Return a URL that may be shown."""
    password = urlsplit(url).password
    return url.replace(f":{password}@", ":***@") if password else url


def _connect_postgres(url: str) -> None:
    shown = f"DATABASE_URL={without_password(url)!r}"
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_TIMEOUT_SECONDS) as connection:
            version = connection.info.server_version // 10_000
    except psycopg.Error as error:
        reason = " ".join(str(error).split())
        raise SetUpError(f"{shown} must name a database that can be reached: {reason}") from error
    if version < OLDEST_POSTGRES:
        raise SetUpError(f"{shown} is PostgreSQL {version}; it must be {OLDEST_POSTGRES} or newer.")


def _connect_redis(url: str) -> None:
    shown = f"REDIS_URL={without_password(url)!r}"
    timeout = CONNECT_TIMEOUT_SECONDS
    try:
        with redis.Redis.from_url(
            url, socket_connect_timeout=timeout, socket_timeout=timeout, retry=single_try()
        ) as client:
            client.ping()
    except (redis.RedisError, ValueError, OSError) as error:
        raise SetUpError(f"{shown} must name a Redis that can be reached: {error}") from error
