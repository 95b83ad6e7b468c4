"""The store of results: the first result saved for a request is its answer, whoever comes second has lost."""

from __future__ import annotations

import redis

from examples.reference_fleet.envelope import Result, decode, encode

_TTL_SECONDS = 300


class ResultStore:
    """Results by request id, kept for five minutes at `open_rl:future:<request_id>`."""

    def __init__(self, connection: redis.Redis) -> None:
        self._redis = connection

    def save(self, request_id: str, result: Result) -> bool:
        """Save a result and wake who waits for it; False where the request had been answered before."""
        if not self._redis.set(_result_key(request_id), encode(result), nx=True, ex=_TTL_SECONDS):
            return False
        with self._redis.pipeline() as pipeline:
            pipeline.rpush(_ready_key(request_id), 1)
            pipeline.expire(_ready_key(request_id), _TTL_SECONDS)
            pipeline.execute()
        return True

    def load(self, request_id: str) -> Result | None:
        """Return the answer, or None where there is none (yet)."""
        raw = self._redis.get(_result_key(request_id))
        return None if raw is None else decode(raw)

    def wait(self, request_id: str, *, timeout: float) -> Result | None:
        """Return the answer as soon as there is one, or None after `timeout` seconds."""
        result = self.load(request_id)
        if result is not None:
            return result
        self._redis.blpop([_ready_key(request_id)], timeout=timeout)
        return self.load(request_id)


def _result_key(request_id: str) -> str:
    return f"open_rl:future:{request_id}"


def _ready_key(request_id: str) -> str:
    return f"reference_fleet:ready:{request_id}"
