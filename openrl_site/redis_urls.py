"""URLs of Redis databases on one server: records, broker and cache have a number each."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.core.exceptions import ImproperlyConfigured
from redis.backoff import NoBackoff
from redis.retry import Retry

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
    query = {key: value for key, value in parse_qsl(parts.query) if key != "db"}
    if parts.scheme == "unix":
        return f"unix://{parts.netloc}{parts.path}?{urlencode(query | {'db': str(number)})}"
    return urlunsplit(parts._replace(path=f"/{number}", query=urlencode(query)))


def celery_broker_url(url: str) -> str:
    """Return the URL as Celery's transport wants it: `redis+socket://` for a unix socket."""
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return url
    number = dict(parse_qsl(parts.query)).get("db", "0")
    return f"redis+socket://{parts.netloc}{parts.path}?virtual_host={number}"


def single_try() -> Retry:
    """Return the retry policy of the site's Redis calls: none, so that a time-out is the whole time."""
    return Retry(NoBackoff(), 0)
