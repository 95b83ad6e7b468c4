"""Records that are kept parsed between two readings. Pure.

An element of a list never changes, and most of a list was there when it was read the last time; a worker's record stays
until its next heartbeat. To find a record by its bytes takes an eighth of what parsing it does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from workers_client import wire
from workers_client.exceptions import MalformedRecordError
from workers_client.wire_worker import WorkerRecord, parse_worker

OPERATIONS = 10_000  # the whole lists of five runs, about 20 MB
WORKERS = 1_000
LARGEST_BYTES = 4_096  # of a larger record nothing is kept: what strangers write must not fill the memory


def parser_of(run_id: str, elements: Any, *, are_kept: bool) -> Callable[[bytes], wire.OpRecord]:
    """Return what parses the elements of a run's list; where `are_kept`, it keeps the records. Nobody changes those.

    A few records each of many runs would drive out all others. What is returned raises as `wire.parse_operation` does.
    """
    if not are_kept or not isinstance(elements, list):
        return partial(_parsed_operation, run_id)
    # Without a question for each: several times faster.
    is_small = max(map(len, elements), default=0) <= LARGEST_BYTES
    return partial(_kept_operation if is_small else operation_of, run_id)


def operation_of(run_id: str, raw: bytes) -> wire.OpRecord:
    """Return the op record of one element.

    Raises:
        MalformedRecordError: see `wire.parse_operation`.
    """
    return (_kept_operation if len(raw) <= LARGEST_BYTES else _parsed_operation)(run_id, raw)


def _parsed_operation(run_id: str, raw: bytes) -> wire.OpRecord:
    return wire.parse_operation(raw, run_id=run_id)


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
_kept_worker = lru_cache(WORKERS)(_parsed_worker)
