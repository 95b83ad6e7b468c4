"""Sampling requests that have no answer yet, with their deadlines: in Redis, so that they outlive a dispatcher."""

from __future__ import annotations

from collections.abc import Iterable

import redis

from examples.reference_fleet.envelope import Command, decode, encode

_REQUESTS = "reference_fleet:open_samples"  # hash: request id to request
_DEADLINES = "reference_fleet:sample_deadlines"  # sorted set: request id to unix time
_SWEEP_LIMIT = 256


class OpenRequests:
    """What the dispatcher has accepted and not answered."""

    def __init__(self, connection: redis.Redis) -> None:
        self._redis = connection

    def add(self, request: Command, *, deadline_at: float) -> None:
        """Keep a request until it is answered."""
        with self._redis.pipeline() as pipeline:
            pipeline.hset(_REQUESTS, request["request_id"], encode(request))
            pipeline.zadd(_DEADLINES, {request["request_id"]: deadline_at})
            pipeline.execute()

    def remove(self, request_id: str) -> bool:
        """Forget a request; False where it was not open: of two who answer it, one alone is told True."""
        with self._redis.pipeline() as pipeline:
            pipeline.hdel(_REQUESTS, request_id)
            pipeline.zrem(_DEADLINES, request_id)
            return bool(pipeline.execute()[0])

    def overdue(self, now: float) -> list[Command]:
        """Return requests whose deadline is over, up to 256, the longest overdue first."""
        found = self._redis.zrangebyscore(_DEADLINES, "-inf", now, start=0, num=_SWEEP_LIMIT)
        request_ids = [request_id for request_id in found if isinstance(request_id, (bytes, str))]
        return _requests(self._redis.hmget(_REQUESTS, request_ids)) if request_ids else []

    def all(self) -> list[Command]:
        """Return every open request."""
        return _requests(self._redis.hvals(_REQUESTS))


def _requests(stored: Iterable[bytes | str | None]) -> list[Command]:
    decoded = [decode(raw) for raw in stored if raw is not None]
    return [request for request in decoded if request is not None]
