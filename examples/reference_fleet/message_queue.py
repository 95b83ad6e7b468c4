"""Queues of JSON messages in Redis lists, first in, first out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from examples.reference_fleet.connection import BLOCK_SECONDS
from examples.reference_fleet.envelope import decode, encode

SAMPLE_REQUESTS = "reference_fleet:sample_requests"  # API server to dispatcher
SAMPLER_INBOX = "reference_fleet:sampler_inbox"  # dispatcher to sampler
SAMPLE_RESULTS = "reference_fleet:sample_results"  # sampler to dispatcher


def command_queue(run_id: str) -> str:
    """Return the name of a run's queue of commands, which is OpenRL's."""
    return f"open_rl:queue:{run_id}"


class MessageQueue:
    """Pushes to and pops from any of the queues."""

    def __init__(self, connection: redis.Redis) -> None:
        self._redis = connection

    def push(self, queue: str, message: dict[str, Any]) -> None:
        """Append a message."""
        self._redis.rpush(queue, encode(message))

    def pop_batch(self, queues: Sequence[str], *, limit: int) -> tuple[str | None, list[dict[str, Any]]]:
        """Wait up to half a second for a message in any of the queues, the first named first.

        Returns the queue it came from and up to `limit` messages of that queue; what is no JSON object is left out.
        """
        popped = self._redis.blpop(list(queues), timeout=BLOCK_SECONDS)
        if popped is None:
            return None, []
        queue, first = popped
        rest = self._redis.lpop(queue, limit - 1) if limit > 1 else None
        messages = [decode(raw) for raw in [first, *(rest or ())]]
        return _text(queue), [message for message in messages if message is not None]

    def take(self, queue: str, *, limit: int) -> list[dict[str, Any]]:
        """Take up to `limit` messages that are there now, without waiting."""
        taken = self._redis.lpop(queue, limit)
        messages = [decode(raw) for raw in taken] if isinstance(taken, list) else []
        return [message for message in messages if message is not None]


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name
