"""How many requests of a run wait in its queue, and since when. Pure."""

from __future__ import annotations

from telemetry_app.run_facts import RunFacts, asked_at, is_caught_up, newest_asked_that_ran, own_workers
from workers_client import wire

BURST_SECONDS = 1.0  # requests so close together were sent at once: none of them passed another by


def waiting_since(facts: RunFacts) -> float | None:
    """Return since when the oldest request waits, as the API servers that live say, else when the newest was enqueued.

    Servers also list what was popped, and what was answered and not fetched: where they list more than wait, their
    oldest may be one of those, and only the newest is known to wait. Requests of an API server that is gone wait for
    nobody: they stay in the ledger, and are no queue.

    A queue is first in, first out: what waits was asked for after all that has run, and where the newest request has
    run, nothing waits (None). The ledger then counts what was lost: what a worker that was killed had popped and not
    told, or what got lost on its way into the queue or out of it.
    """
    servers = [worker for worker in own_workers(facts) if worker.is_api_server]
    held = [
        (asked_at(facts, server, work), work.count)
        for server in servers
        for work in server.record.outstanding
        if server.is_living and work.run_id == facts.run_id and work.operation != wire.SAMPLE
    ]
    newest = facts.ledger.last_enqueued_at
    if not held:
        return None if servers else newest
    oldest = min((at for at, _ in held if at is not None), default=None)
    if oldest is None:
        return None
    is_longer = sum(count for _, count in held) > waiting_count(facts)
    since = max(oldest, newest) if is_longer and newest is not None else oldest
    ran = newest_asked_that_ran(facts)
    if ran is None or ran <= oldest + BURST_SECONDS:
        return since
    return None if is_caught_up(facts) else max(since, ran)


def waiting_count(facts: RunFacts) -> int:
    """Return how many requests the ledger says nobody popped."""
    ledger = facts.ledger
    return max(0, ledger.enqueued - max(ledger.popped, ledger.answered, ledger.delivered))
