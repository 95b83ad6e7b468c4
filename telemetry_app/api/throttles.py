"""How many requests a minute one token, or one person signed in by session, may make.

Not the throttles of Django REST framework: they keep a list of instants for each caller, read and written back with
each request, which loses counts between processes and grows with the rate. One counter a minute is one round trip.
"""

from __future__ import annotations

import logging
import math
import time
from typing import Any

import redis
from django.conf import settings
from django_redis import get_redis_connection
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from telemetry_app.models import ApiToken

WINDOW_SECONDS = 60
OUTAGE_SECONDS = 10  # the cache is not asked again for so long after it failed: no request waits for it in between

logger = logging.getLogger(__name__)
_asked_again_at = 0.0  # monotonic; threads may both find an outage, which does no harm


class RequestsPerMinute(BaseThrottle):
    """Counts requests in whole minutes, over all web processes. While the cache is out nobody is held up."""

    def __init__(self) -> None:
        self._wait_seconds = WINDOW_SECONDS

    def allow_request(self, request: Request, view: Any) -> bool:
        """Whether the caller may go on."""
        caller, limit = _caller_and_limit(request)
        if limit == 0:
            return True
        window, elapsed = divmod(time.time(), WINDOW_SECONDS)
        self._wait_seconds = max(1, math.ceil(WINDOW_SECONDS - elapsed))
        count = _count(f"requests:{caller}:{int(window)}")
        return count is None or count <= limit

    def wait(self) -> float:
        """Return the seconds until the next minute begins."""
        return self._wait_seconds


def _caller_and_limit(request: Request) -> tuple[str, int]:
    """Return the name under which a caller is counted, and how many requests it may make; 0 is without limit."""
    if isinstance(request.auth, ApiToken):
        return f"token:{request.auth.pk}", settings.API_TOKEN_REQUESTS_PER_MINUTE
    return f"user:{request.user.pk}", settings.API_SESSION_REQUESTS_PER_MINUTE


def _count(key: str) -> int | None:
    """Count one more, and return how many that makes; None while the cache is out."""
    global _asked_again_at
    if time.monotonic() < _asked_again_at:
        return None
    try:
        pipeline = get_redis_connection("default").pipeline(transaction=False)
        count, _ = pipeline.incr(key).expire(key, 2 * WINDOW_SECONDS).execute()
    except (redis.RedisError, OSError) as error:
        _asked_again_at = time.monotonic() + OUTAGE_SECONDS
        logger.warning("requests are not counted: the cache can't be asked: %s", type(error).__name__)
        return None
    return int(count)
