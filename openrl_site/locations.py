"""Where data and servers are: under `var/` and embedded, unless the environment names others."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

from redis.backoff import NoBackoff
from redis.retry import Retry

from openrl_site.redis_urls import celery_broker_url, checked_redis_url

_NOT_RUNNING = "nowhere"  # a name no server has: connecting to it fails at once and says so


def var_dir() -> Path:
    """Return the folder of all data; `VAR_DIR` puts another in place of the project's `var/`."""
    named = os.environ.get("VAR_DIR")
    return Path(named).resolve() if named else Path(__file__).resolve().parent.parent / "var"


def state_file() -> Path:
    """Return the file in which running embedded servers stand: `{"database_url", "redis_url", "pid"}`."""
    return var_dir() / "servers.json"


def database_url() -> str:
    """Return `DATABASE_URL`, else the embedded server's that runs, else a URL that fails to connect."""
    return os.environ.get("DATABASE_URL") or _running().get("database_url") or f"postgres:///{_NOT_RUNNING}"


def redis_url() -> str:
    """Return `REDIS_URL`, else the embedded server's that runs, else a URL that fails to connect.

    Raises:
        ImproperlyConfigured: the URL's scheme is none of Redis's.
    """
    url = os.environ.get("REDIS_URL") or _running().get("redis_url") or f"unix:///{_NOT_RUNNING}?db=0"
    return checked_redis_url(url, name="REDIS_URL")


def broker_url(url: str) -> str:
    """Return a Redis URL in the form Celery wants."""
    return celery_broker_url(url)


def single_try() -> Retry:
    """Return the retry policy of the site's Redis calls: none, so that a time-out is the whole time."""
    return Retry(NoBackoff(), 0)


def kept_secret_key() -> str:
    """Return the secret key kept in `var/secret_key` (mode 0600), made at first use."""
    path = var_dir() / "secret_key"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:  # another process of the first start was faster
            return path.read_text()
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(50))
    return path.read_text()


def _running() -> dict[str, str]:
    try:
        state: dict[str, str] = json.loads(state_file().read_text())
    except (OSError, ValueError):
        return {}
    return state
