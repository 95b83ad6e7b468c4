"""URLs of Redis databases on one server: records, broker and cache have a number each."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.core.exceptions import ImproperlyConfigured

SCHEMES = ("redis", "rediss", "unix")


def checked_redis_url(url: str, *, name: str) -> str:
    """Return the URL of a Redis server, or refuse it by the setting's name and the rule.

    Raises:
        ImproperlyConfigured: the scheme is none of redis, rediss and unix.
    """
    if urlsplit(url).scheme not in SCHEMES:
        raise ImproperlyConfigured(f"{name}={url!r} must start with redis://, rediss:// or unix://.")
    return url


def with_database(url: str, number: int) -> str:
    """Return the URL of another database on the same server."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        query = dict(parse_qsl(parts.query)) | {"db": str(number)}
        return f"unix://{parts.path}?{urlencode(query)}"
    return urlunsplit(parts._replace(path=f"/{number}"))


def celery_broker_url(url: str) -> str:
    """Return the URL as Celery's transport wants it: `redis+socket://` for a unix socket."""
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return url
    number = dict(parse_qsl(parts.query)).get("db", "0")
    return f"redis+socket://{parts.path}?virtual_host={number}"
