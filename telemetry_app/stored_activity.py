"""What PostgreSQL keeps of a run's activity, as records for the step clock. Each function is one query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import Q

from telemetry_app import kept_records
from telemetry_app.health import LATE_INTERVALS
from telemetry_app.instants import from_unix, to_unix
from telemetry_app.models import Sample, Worker
from telemetry_app.one_clock import enqueue_offset
from telemetry_app.open_activity import API_SERVER, SERVING, correction
from telemetry_app.run_activity import Life
from telemetry_app.wrong_clocks import correction_of_records
from workers_client import wire

MOST_RECORDS = 50_000  # newest ops, samples and turns of a stretch that are looked at
MOST_STEPS = 2**63 - 1  # PostgreSQL's bigint
TURN_SPAN = timedelta(days=1)  # a turn that ends later than so after a stretch is not looked for
GROUP_SPAN = timedelta(hours=1)  # a group record that ends later than so after a stretch tells nothing of it

_SAMPLE = ("record_id", "worker", "kind", "count", "accepted_at", "first_answered_at", "at", "seconds_sum",
           "seconds_max", "busy_seconds")  # fmt: skip
_WORKER = ("worker", "role", "runs", "started_at", "last_heartbeat_at", "interval_seconds", "exited_at",
           "record__clock_offset_seconds")  # fmt: skip
# Instants in unix seconds: to make models, or datetimes, of the rows takes several times as long as all the rest.
_OPERATIONS = """
SELECT step, record_id, operation, status, extract(epoch FROM at)::float8, worker,
       extract(epoch FROM enqueued_at)::float8, extract(epoch FROM started_at)::float8, elapsed_seconds
FROM telemetry_app_operation WHERE run_id = %(run)s AND step BETWEEN %(first)s AND %(last)s
ORDER BY step DESC LIMIT %(limit)s
"""
_TURNS = """
SELECT workload, extract(epoch FROM started_at)::float8, extract(epoch FROM at)::float8, record_id, role, worker, node,
       extract(epoch FROM requested_at)::float8, ops::text
FROM telemetry_app_turn WHERE at > %(start)s AND at < %(last)s AND started_at < %(end)s
ORDER BY at DESC LIMIT %(limit)s
"""
_GAPS = """
SELECT extract(epoch FROM after_at)::float8, extract(epoch FROM before_at)::float8
FROM telemetry_app_gap WHERE run_id = %s AND after_at IS NOT NULL AND before_at IS NOT NULL
"""


@dataclass(slots=True)
class StoredWorkers:
    """Workers that could serve a run, and by how many seconds clocks are ahead of Redis's: `servers` are those of its
    API servers, which stamped when requests were enqueued."""

    lives: dict[str, Life] = field(default_factory=dict)
    offsets: dict[str, float] = field(default_factory=dict)
    servers: dict[str, float] = field(default_factory=dict)

    @property
    def enqueue_offset(self) -> float:
        """By how much `enqueued_at` is ahead; nothing where API servers' clocks differ."""
        return enqueue_offset(self.servers.values()) or 0.0


def operations_of(run_id: str, first: int, last: int | None) -> list[tuple[int, wire.OpRecord]]:
    """Return what the clock needs of a run's ops from step `first` to `last`, each with its step."""
    steps = {"first": max(0, first), "last": MOST_STEPS if last is None else last}
    with connection.cursor() as cursor:
        cursor.execute(_OPERATIONS, {"run": run_id, "limit": MOST_RECORDS, **steps})
        found = cursor.fetchall()
    return [
        (
            step,
            wire.OpRecord(
                run_id, operation, status, at, id=record_id, worker=worker or None, enqueued_at=enqueued_at,
                started_at=started_at, elapsed_seconds=elapsed, step=step,
            ),
        )
        for step, record_id, operation, status, at, worker, enqueued_at, started_at, elapsed in found
    ]  # fmt: skip


def samples_of(run_id: str, start: float, end: float) -> list[wire.SampleRecord]:
    """Return a run's sampling records that may tell of the time from `start` to `end` (unix seconds)."""
    rows = Sample.objects.of_run(run_id).filter(at__gt=from_unix(start), at__lt=from_unix(end) + GROUP_SPAN)
    found = rows.order_by("-at", "-id").values_list(*_SAMPLE)[:MOST_RECORDS]
    records: list[wire.SampleRecord] = []
    for record_id, worker, kind, count, accepted_at, answered_at, at, seconds_sum, seconds_max, busy in found:
        if kind == "failure":
            records.append(wire.SampleFailure(run_id, at.timestamp(), id=record_id, accepted_at=to_unix(accepted_at)))
            continue
        group = wire.SampleGroup(
            run_id, at.timestamp(), count, id=record_id, worker=worker or None, first_accepted_at=to_unix(accepted_at),
            first_answered_at=to_unix(answered_at), seconds_sum=seconds_sum, seconds_max=seconds_max, busy_seconds=busy,
        )  # fmt: skip
        records.append(group)
    return records


def turns_between(start: float, end: float) -> list[wire.TurnRecord]:
    """Return the newest stored turns of all workloads that ended after `start` and began before `end` (unix seconds).

    Of all, not of those that Redis knows: a holder of that time may be gone since.
    """
    until = from_unix(end)
    stretch: dict[str, Any] = {"start": from_unix(start), "end": until, "last": until + TURN_SPAN}
    with connection.cursor() as cursor:
        cursor.execute(_TURNS, stretch | {"limit": MOST_RECORDS})
        rows = cursor.fetchall()
    # So many would drive out what others ask for again.
    made = kept_records.stored_turn_of if len(rows) < kept_records.STORED_TURNS / 2 else kept_records.turn_of_row
    return [made(*row) for row in rows]


def workers_of(run_id: str, names: Iterable[str], *, now: float, others: Iterable[str] = ()) -> StoredWorkers:
    """Return the workers that named the run, and those of these names, as they were at `now` (unix seconds).

    Of `others` only the clocks are told.
    """
    found = StoredWorkers()
    named = set(names)
    rows = Worker.objects.filter(Q(runs__contains=[run_id]) | Q(worker__in=named.union(others))).order_by()
    for worker, role, runs, started_at, heartbeat_at, interval, exited_at, offset in rows.values_list(*_WORKER):
        ahead = correction(offset)
        if offset_of_records := correction_of_records(ahead):
            found.offsets[worker] = offset_of_records
        if role == API_SERVER and run_id in runs:
            found.servers[worker] = correction_of_records(ahead)
        if worker not in named and not (role == SERVING and run_id in runs):
            continue
        is_lost = now - (heartbeat_at.timestamp() - ahead) > LATE_INTERVALS * interval
        ended_at = exited_at or (heartbeat_at if is_lost else None)
        found.lives[worker] = Life(
            worker,
            None if started_at is None else started_at.timestamp() - ahead,
            None if ended_at is None else ended_at.timestamp() - ahead,
        )
    return found


def writers_of(records: Iterable[wire.TurnRecord | wire.SampleRecord]) -> set[str]:
    """Return the workers that wrote these records."""
    return {record.worker for record in records if record.worker}


def oldest_looked_at(records: Sequence[wire.OpRecord | wire.TurnRecord | wire.SampleRecord]) -> float | None:
    """Return when the oldest of these ended (unix seconds), None where all there are were looked at."""
    return min(record.at for record in records) if len(records) >= MOST_RECORDS else None


def gaps_of(run_id: str) -> list[tuple[float, float]]:
    """Return the spans in which records of a run are lost."""
    with connection.cursor() as cursor:
        cursor.execute(_GAPS, (run_id,))
        return cursor.fetchall()
