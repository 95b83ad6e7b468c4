"""Removing keys from Redis only if they are still what was looked at: a WATCH of every key that goes.

What is pushed in between makes Redis refuse the removal, so no record is lost to a race.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import redis
from django_redis import get_redis_connection

from telemetry_app.exceptions import LiveDataUnavailableError
from telemetry_app.readers import CONNECTION_ALIAS

ENTRIES_PER_READ = 500
WRONG_CLOCK = timedelta(days=1)  # an activity further ahead than this does not say when it was


class StaysError(Exception):
    """It is not idle, or PostgreSQL does not have all of it, or it changed while it was looked at."""


def require(condition: bool) -> None:
    """Leave it in Redis unless the condition holds.

    Raises:
        StaysError: it does not hold.
    """
    if not condition:
        raise StaysError


class WatchedKeys:
    """Keys as they are now; `remove` does nothing if one of them has changed since."""

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline

    def elements(self, key: str) -> list[bytes]:
        """Return all elements of a list."""
        return list(self._pipeline.lrange(key, 0, -1))

    def fields(self, key: str) -> Mapping[bytes, bytes]:
        """Return a hash."""
        return dict(self._pipeline.hgetall(key))

    def whole_number(self, key: str) -> int:
        """Return the whole number under a key, 0 where there is none."""
        raw = self._pipeline.get(key)
        return int(raw) if raw is not None and raw.isdigit() else 0

    def are_there(self, keys: Sequence[str]) -> list[bool]:
        """Tell for each key of a text whether it exists."""
        return [raw is not None for raw in self._pipeline.mget(keys)]

    def activity(self, index: str, member: str) -> float | None:
        """Return a member's instant in an index (unix seconds)."""
        return self.activities(index, [member])[0]

    def activities(self, index: str, members: Sequence[str]) -> list[float | None]:
        """Return the members' instants in an index (unix seconds)."""
        return list(self._pipeline.zmscore(index, members))

    def remove(
        self, keys: Sequence[str], *, index: str, members: Sequence[str], expiring: tuple[str, timedelta] | None = None
    ) -> tuple[int, int]:
        """Remove keys and the index's entries, all or nothing; return how many keys there were, and their bytes.

        `expiring` is a key that is kept for so long.

        Raises:
            StaysError: one of the watched keys has changed.
        """
        size_bytes = sum(self._size_bytes(key) for key in keys)
        self._pipeline.multi()
        self._pipeline.zrem(index, *members)
        if expiring is not None:
            self._pipeline.expire(*expiring)
        if keys:
            self._pipeline.unlink(*keys)
        replies = self._pipeline.execute()
        return int(replies[-1]) if keys else 0, size_bytes

    def _size_bytes(self, key: str) -> int:
        try:
            return int(self._pipeline.memory_usage(key) or 0)
        except redis.ResponseError:  # a server, or its access list, without that command
            return 0


@contextmanager
def watching(*keys: str) -> Iterator[WatchedKeys]:
    """Look at keys from now on.

    Raises:
        StaysError: one has changed when they are removed, or is of another Redis type than ours.
        LiveDataUnavailableError: Redis can't be asked.
    """
    try:
        with _connection().pipeline() as pipeline:
            pipeline.watch(*keys)
            yield WatchedKeys(pipeline)
    except redis.WatchError as error:
        raise StaysError from error
    except (redis.RedisError, OSError) as error:
        if isinstance(error, redis.ResponseError) and str(error).startswith("WRONGTYPE"):
            raise StaysError from error
        raise LiveDataUnavailableError(f"Redis can't be asked: {type(error).__name__}") from error


def is_idle(activity: float | None, before: datetime, now: datetime) -> bool:
    """Whether an instant of an index is older than `before`, or says nothing: there is none, or a wrong clock's."""
    return activity is None or activity < before.timestamp() or activity > (now + WRONG_CLOCK).timestamp()


def idle_members(index: str, before: datetime, now: datetime) -> Iterator[str]:
    """Give the members of an index that `is_idle` is true of. One may come twice; those removed meanwhile do no harm.

    Raises:
        LiveDataUnavailableError: Redis can't be asked.
    """
    cursor = -1
    while cursor:
        try:
            cursor, pairs = _connection().zscan(index, max(cursor, 0), count=ENTRIES_PER_READ)
        except redis.ResponseError:  # a key of another Redis type
            return
        except (redis.RedisError, OSError) as error:
            raise LiveDataUnavailableError(f"Redis can't be asked: {type(error).__name__}") from error
        yield from (member.decode("utf-8", "replace") for member, score in pairs if is_idle(score, before, now))


def _connection() -> Any:
    return get_redis_connection(CONNECTION_ALIAS)
