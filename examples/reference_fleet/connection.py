"""The fleet's connections to Redis: every wait has a limit, nothing is sent twice unasked."""

from __future__ import annotations

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

BLOCK_SECONDS = 0.5  # of a blocking pop: how soon a worker sees that it shall stop
_SOCKET_TIMEOUT_SECONDS = 5.0  # longer than any blocking pop


def connect(redis_url: str) -> redis.Redis:
    """Return a client that opens its connections when they are needed.

    A command that fails is not retried: a second RPUSH would queue a request twice.
    """
    return redis.Redis.from_url(
        redis_url,
        socket_timeout=_SOCKET_TIMEOUT_SECONDS,
        socket_connect_timeout=2.0,
        retry=Retry(NoBackoff(), 0),
    )
