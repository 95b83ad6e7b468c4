"""One numbered flush: what it says to Redis, made of what the fold holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workers_client import wire
from workers_client.buffer import Pending
from workers_client.codec import encode_object
from workers_client.run_totals import VALUES_PER_COMMAND, Command

FLUSH_RECORDS = 2_000  # records of one flush at most: the return after an outage must stall nobody
FLUSH_BYTES = 4 * 1024 * 1024  # of memory, which is some three times what goes over the wire
YIELD_RECORDS = 16  # records encoded between two pauses


class Flush:
    """One numbered set of commands; kept and sent again as it is until Redis answers."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.commands: list[Command] = []
        self.record_counts: dict[tuple[str, str], int] = {}  # by kind and key of the list


def add_records(
    flush: Flush, records: list[Pending], refuse: Callable[[Pending], None], pause: Callable[[], None]
) -> None:
    """Encode records into PUSH commands of up to 1,000 for a list, with a pause every few records.

    `refuse` gets what has no JSON.
    """
    by_key: dict[str, tuple[Any, list[bytes]]] = {}
    counts = flush.record_counts
    for number, record in enumerate(records, 1):
        if number % YIELD_RECORDS == 0:
            pause()
        _, kind, key, _, encode, data, totals = record
        try:
            encoded = encode(data)
        except Exception:  # noqa: BLE001 - one odd value costs one record
            refuse(record)
            continue
        found = by_key.get(key)
        if found is None:
            found = by_key[key] = (totals, [])
        found[1].append(encoded)
        counts[kind, key] = counts.get((kind, key), 0) + 1
    for key, (totals, values) in by_key.items():
        ledger = ""
        name = ""
        if totals is not None:
            ledger = wire.ledger_key(totals.run_id)
            name = "recorded" if key == totals.operations_key else "samples_recorded"
        for start in range(0, len(values), VALUES_PER_COMMAND):
            part = values[start : start + VALUES_PER_COMMAND]
            flush.commands.append(("PUSH", key, wire.LIST_LIMIT, ledger, name, *part))


def add_worker(flush: Flush, record: dict[str, Any], runs: list[str]) -> None:
    """Add the worker record, which is the heartbeat, and the message that says what changed."""
    worker = record["worker"]
    flush.commands += [
        ("ZADD", wire.WORKERS_KEY, "GT", record["at"], worker),
        ("SET", wire.worker_key(worker), encode_object(record), "EX", wire.WORKER_TTL_SECONDS),
        ("PUBLISH", wire.FLUSHED_CHANNEL, encode_object({"worker": worker, "runs": runs})),
    ]
