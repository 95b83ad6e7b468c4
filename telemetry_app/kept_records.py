"""Records that are kept parsed between two readings. Pure.

An element of a list never changes, and most of a list was there when it was read the last time; a worker's record stays
until its next heartbeat. To find a record by its bytes takes an eighth of what parsing it does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import msgspec

from workers_client import wire
from workers_client.exceptions import MalformedRecordError
from workers_client.wire_worker import WorkerRecord, parse_worker

OPERATIONS = 10_000  # the whole lists of five runs, about 20 MB
NEWEST_OPERATIONS = 20_000  # the newest 64 of 300 active runs, which each look at all of them reads; about 40 MB
TURNS = 4_000  # the newest 64 of 60 workloads, with up to 4 KB of ops each
STORED_TURNS = 4_000  # an hour of a busy device, which its runs' step clocks read again and again
WORKERS = 1_000
LARGEST_BYTES = 4_096  # of a larger record nothing is kept: what strangers write must not fill the memory


def parser_of(run_id: str, elements: Any, *, is_whole: bool) -> Callable[[bytes], wire.OpRecord]:
    """Return what parses the elements of a run's list, and keeps the records. Nobody changes those.

    The newest few of many runs (not `is_whole`) are kept apart: they would drive out the whole lists of those that are
    looked at. What is returned raises as `wire.parse_operation` does.
    """
    kept = _kept_operation if is_whole else _kept_newest
    # Without a question for each: several times faster.
    is_small = isinstance(elements, list) and max(map(len, elements), default=0) <= LARGEST_BYTES
    return partial(kept, run_id) if is_small else partial(_small_kept, kept, run_id)


def _small_kept(kept: Callable[[str, bytes], wire.OpRecord], run_id: str, raw: bytes) -> wire.OpRecord:
    return (kept if len(raw) <= LARGEST_BYTES else _parsed_operation)(run_id, raw)


def _parsed_operation(run_id: str, raw: bytes) -> wire.OpRecord:
    return wire.parse_operation(raw, run_id=run_id)


def turn_of(workload: str, raw: bytes) -> wire.TurnRecord:
    """Return the GPU turn of one element of a workload's list. Nobody changes it.

    Raises:
        MalformedRecordError: see `wire.parse_turn`.
    """
    return (_kept_turn if len(raw) <= LARGEST_BYTES else _parsed_turn)(workload, raw)


def _parsed_turn(workload: str, raw: bytes) -> wire.TurnRecord:
    return wire.parse_turn(raw, workload=workload)


def stored_turn_of(
    workload: str, started_at: float, at: float, record_id: str, role: str, worker: str, node: str,
    requested_at: float | None, ops: str,
) -> wire.TurnRecord:  # fmt: skip
    """Return the GPU turn of a row's columns, instants in unix seconds, `ops` as JSON. Nobody changes it."""
    kept = _kept_stored_turn if len(ops) <= LARGEST_BYTES else turn_of_row
    return kept(workload, started_at, at, record_id, role, worker, node, requested_at, ops)


def turn_of_row(
    workload: str, started_at: float, at: float, record_id: str, role: str, worker: str, node: str,
    requested_at: float | None, ops: str,
) -> wire.TurnRecord:  # fmt: skip
    """Do the same without keeping it."""
    return wire.TurnRecord(
        workload, started_at, at, id=record_id, role=role or None, worker=worker or None, node=node or None,
        requested_at=requested_at, ops=_ops.decode(ops),
    )  # fmt: skip


def worker_of(worker: str, raw: Any) -> WorkerRecord:
    """Return a worker's record; `raw` is what its key holds.

    Raises:
        MalformedRecordError: see `wire_worker.parse_worker`.
    """
    if not isinstance(raw, bytes):
        raise MalformedRecordError("other_redis_type")
    return (_kept_worker if len(raw) <= LARGEST_BYTES else _parsed_worker)(worker, raw)


def _parsed_worker(worker: str, raw: bytes) -> WorkerRecord:
    return parse_worker(raw, worker=worker)


_kept_operation = lru_cache(OPERATIONS)(_parsed_operation)
_kept_newest = lru_cache(NEWEST_OPERATIONS)(_parsed_operation)
_kept_turn = lru_cache(TURNS)(_parsed_turn)
_ops = msgspec.json.Decoder(tuple[wire.TurnOp, ...])
_kept_stored_turn = lru_cache(STORED_TURNS)(turn_of_row)
_kept_worker = lru_cache(WORKERS)(_parsed_worker)
