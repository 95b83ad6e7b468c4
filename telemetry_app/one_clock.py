"""A run's records and totals by Redis's clock: each process writes by its own, and says how far it is off. Pure.

Nothing says what was corrected: each function is to be called once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from telemetry_app.run_facts import RunFacts, WorkerFact, own_workers
from telemetry_app.wrong_clocks import correction_of_records
from workers_client import wire
from workers_client.wire_worker import Ledger

CLOCK_SECONDS = 1.0  # a clock that is off by less moves nothing that a state is told from


def by_redis_clock(
    run_id: str,
    ledger: Ledger,
    operations: Sequence[wire.OpRecord],
    samples: Sequence[wire.SampleRecord],
    last_activity_at: float | None,
    workers: Sequence[WorkerFact],
) -> dict[str, Any]:
    """Return `ledger`, `operations`, `last_sample_at` and `last_activity_at` of `RunFacts` by Redis's clock.

    Where the clock of a worker is off, its newest finish is the run's newest activity: the index does not say whose
    clock it was told by. `enqueued_at` is by the clock of an API server, and `queue_seconds` is told by two.
    """
    offsets = {worker.name: seconds for worker in workers if abs(seconds := _offset(worker)) > CLOCK_SECONDS}
    last_sample_at = max((record.at - offsets.get(record.worker or "", 0.0) for record in samples), default=None)
    if offsets:
        servers = [worker for worker in workers if worker.is_api_server and run_id in worker.record.runs]
        stamped = enqueue_offset(map(_offset, servers))
        ledger = replace(ledger, last_enqueued_at=_moved(ledger.last_enqueued_at, stamped or 0.0))
        operations = [_earlier(record, offsets.get(record.worker or "", 0.0), stamped) for record in operations]
        finishes = [record.at for record in operations] + [at for at in (last_sample_at,) if at is not None]
        last_activity_at = max(finishes, default=last_activity_at)
    return {
        "ledger": ledger,
        "operations": operations,
        "last_sample_at": last_sample_at,
        "last_activity_at": last_activity_at,
    }


def enqueue_offset(server_offsets: Iterable[float]) -> float | None:
    """Return how far the clock is ahead that a run's requests were stamped by, told from its API servers' clocks.

    No record names the API server that stamped it: where there are several and their clocks differ, it is not known.
    """
    offsets = list(server_offsets) or [0.0]
    return offsets[0] if max(offsets) - min(offsets) <= CLOCK_SECONDS else None


def clock_offset(facts: RunFacts) -> float | None:
    """Return the most by which the clock of one of the run's workers is off, where that is more than a second."""
    offset = max(map(_offset, own_workers(facts)), key=abs, default=0.0)
    return offset if abs(offset) > CLOCK_SECONDS else None


def _offset(worker: WorkerFact) -> float:
    """Return how far what it wrote is ahead: nothing where its clock is so wrong that receipt times stand for its."""
    return correction_of_records(worker.record.clock_offset_seconds or 0.0)


def _moved(at: float | None, seconds: float) -> float | None:
    return None if at is None else at - seconds


def _earlier(record: wire.OpRecord, seconds: float, enqueued_seconds: float | None) -> wire.OpRecord:
    started_at = _moved(record.started_at, seconds)
    moved = replace(record, at=record.at - seconds, started_at=started_at)
    if record.enqueued_at is None or not (seconds or enqueued_seconds != 0.0):
        return moved
    enqueued_at = None if enqueued_seconds is None else record.enqueued_at - enqueued_seconds
    waited = None if enqueued_at is None or started_at is None else max(0.0, started_at - enqueued_at)
    return replace(moved, enqueued_at=enqueued_at, queue_seconds=waited)
