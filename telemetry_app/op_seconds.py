"""How long the newest stored ops took: what is expected of an op where Redis can't say."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import connection

from telemetry_app.models import Operation
from workers_client import wire

OPS_PER_RUN = 64  # newest of each run, as many as of a live list of runs
_NEWEST_OF_RUNS = """
SELECT run.run_id, op.record_id, op.operation, op.status, op.at, op.elapsed_seconds
FROM unnest(%s::text[]) AS run (run_id) CROSS JOIN LATERAL (
    SELECT record_id, operation, status, at, elapsed_seconds FROM telemetry_app_operation
    WHERE run_id = run.run_id ORDER BY at DESC, id DESC LIMIT %s
) op
"""


def newest_of_run(run_id: str, limit: int) -> list[wire.OpRecord]:
    """Return the newest stored ops of a run, in no order and with no more than what they took."""
    columns = ("record_id", "operation", "status", "at", "elapsed_seconds")
    rows = Operation.objects.of_run(run_id).order_by("-at", "-id").values_list(*columns)[:limit]
    return [_record(run_id, *row) for row in rows]


def newest_of_runs(run_ids: Iterable[str]) -> list[wire.OpRecord]:
    """Return the same of several runs in one query, up to 64 of each; an index serves each run's."""
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST_OF_RUNS, [list(run_ids), OPS_PER_RUN])
        return [_record(*row) for row in cursor.fetchall()]


def _record(run_id: str, record_id: str, operation: str, status: str, at: datetime, seconds: Any) -> wire.OpRecord:
    return wire.OpRecord(run_id, operation, status, at.timestamp(), id=record_id, elapsed_seconds=seconds)
