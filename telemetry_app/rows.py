"""Records of the wire to rows of PostgreSQL, and rows back to records, field by field."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from telemetry_app.bulk import Table
from telemetry_app.instants import from_unix, to_unix
from telemetry_app.models import Operation, Sample, Turn
from workers_client import wire
from workers_client.wire_worker import WorkerRecord

# What is the same in most rows of a run comes first: it is packed together.
OPERATION_COLUMNS = (
    "run_id", "worker", "role", "status", "error_type", "error_category", "batch", "nonfinite",
    "record_id", "operation", "metrics", "trace_id", "span_id", "request_id",
    "enqueued_at", "queue_seconds", "started_at", "at", "elapsed_seconds", "step", "tokens", "datums", "reported_at",
)  # fmt: skip
SAMPLE_COLUMNS = (
    "run_id", "record_id", "kind", "worker", "request_id", "source", "error_type", "count", "accepted_at",
    "first_answered_at", "at", "seconds_sum", "seconds_max", "tokens_sum", "busy_seconds",
    "reported_at",
)  # fmt: skip
TURN_COLUMNS = (
    "record_id", "workload", "role", "worker", "node", "requested_at", "started_at", "at", "runs", "ops", "reported_at",
)  # fmt: skip
# The last column of each is what a wrong clock said: the snapshot fills it in.
# What makes a record another one, though its identity is known already.
OPERATIONS = Table(Operation, OPERATION_COLUMNS, "run_id", ("at", "status", "elapsed_seconds", "metrics"))
SAMPLES = Table(Sample, SAMPLE_COLUMNS, "run_id", ("at", "kind", "count", "seconds_sum"))
TURNS = Table(Turn, TURN_COLUMNS, "workload", ("at", "started_at", "ops"))
# What `records_of` needs of an op row, so that lists load no more.
OPERATION_RECORD_FIELDS = ("id", *OPERATION_COLUMNS)


def operation_row(record: wire.OpRecord, step: int) -> tuple[Any, ...]:
    """Return an op record's values in the order of `OPERATION_COLUMNS`."""
    return (
        record.run_id,
        record.worker or record.pod or "",
        record.role or "",
        record.status,
        record.error_type or "",
        record.error_category or "",
        record.batch or "",
        record.nonfinite,
        record.identity,
        record.operation,
        record.metrics,
        record.trace_id or "",
        record.span_id or "",
        record.request_id or "",
        record.enqueued_at,
        record.queue_seconds,
        record.started_at,
        record.at,
        record.elapsed_seconds,
        step,
        record.tokens,
        record.datums,
        None,
    )


def sample_row(record: wire.SampleRecord) -> tuple[Any, ...]:
    """Return a sampling record's values in the order of `SAMPLE_COLUMNS`."""
    if isinstance(record, wire.SampleFailure):
        return (
            record.run_id, record.identity, record.kind, record.worker or "", record.request_id or "",
            record.source or "", record.error_type or "", 1, record.accepted_at, None,
            record.at, None, None, None, None, None,
        )  # fmt: skip
    return (
        record.run_id, record.identity, record.kind, record.worker or "", "", "", "", record.count,
        record.first_accepted_at, record.first_answered_at, record.at,
        record.seconds_sum, record.seconds_max, record.tokens_sum, record.busy_seconds,
        None,
    )  # fmt: skip


def turn_row(record: wire.TurnRecord) -> tuple[Any, ...]:
    """Return a turn record's values in the order of `TURN_COLUMNS`."""
    return (
        record.identity,
        record.workload,
        record.role or "",
        record.worker or "",
        record.node or "",
        record.requested_at,
        record.started_at,
        record.at,
        sorted({op.run_id for op in record.ops if op.run_id}),
        [wire.to_wire(op) for op in record.ops],
        None,
    )


def record_of(row: Operation) -> wire.OpRecord:
    """Return the op record that a row was made of; its identity stands in `id`."""
    return wire.OpRecord(
        run_id=row.run_id,
        operation=row.operation,
        status=row.status,
        at=row.at.timestamp(),
        id=row.record_id,
        request_id=row.request_id or None,
        role=row.role or None,
        worker=row.worker or None,
        error_type=row.error_type or None,
        error_category=row.error_category or None,
        enqueued_at=to_unix(row.enqueued_at),
        queue_seconds=row.queue_seconds,
        started_at=to_unix(row.started_at),
        elapsed_seconds=row.elapsed_seconds,
        step=row.step,
        metrics=row.metrics,
        nonfinite=row.nonfinite,
        tokens=row.tokens,
        datums=row.datums,
        batch=row.batch or None,
        trace_id=row.trace_id or None,
        span_id=row.span_id or None,
    )


def records_of(rows: Iterable[Operation]) -> list[wire.OpRecord]:
    """Return the records of op rows, in their order."""
    return [record_of(row) for row in rows]


def turn_of(row: Turn) -> wire.TurnRecord:
    """Return the record that a row was made of."""
    return wire.TurnRecord(
        workload=row.workload,
        started_at=row.started_at.timestamp(),
        at=row.at.timestamp(),
        id=row.record_id,
        role=row.role or None,
        worker=row.worker or None,
        node=row.node or None,
        requested_at=to_unix(row.requested_at),
        ops=tuple(wire.TurnOp(**{name: op[name] for name in wire.TurnOp.__slots__ if name in op}) for op in row.ops),
    )


def worker_values(record: WorkerRecord, heartbeat_at: float) -> dict[str, Any]:
    """Return the columns of a worker's row but its id; `heartbeat_at` is the newest of index and record."""
    return {
        "role": record.role,
        "parent": record.parent or "",
        "pod": record.pod or "",
        "node": record.node or "",
        "host": record.host or "",
        "pid": record.pid,
        "started_at": from_unix(record.started_at),
        "last_heartbeat_at": from_unix(heartbeat_at),
        "last_progress_at": from_unix(record.last_progress_at),
        "interval_seconds": record.interval_seconds,
        "phase": record.phase or "",
        "phase_since": from_unix(record.phase_since),
        "exited_at": from_unix(record.exited_at),
        "exit_reason": record.exit_reason or "",
        # It names its newest hundred; of one more it may hold a request all the same.
        "runs": list(dict.fromkeys([*record.runs, *(work.run_id for work in record.outstanding)])),
        "record": dataclasses.asdict(record),
    }
