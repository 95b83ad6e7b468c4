"""Keep what workers say of themselves, and what happened to them: started, late, lost, recovered, exited.

Both move in one transaction: what the rows hold tells which events are written already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Q

from telemetry_app import locks, metric_totals, rows
from telemetry_app.instants import from_unix
from telemetry_app.metric_growth import Growth
from telemetry_app.models import RetentionPolicy, Worker, WorkerEvent
from telemetry_app.models.limits import TEXT_LENGTH
from telemetry_app.readers import LiveWorkers
from telemetry_app.worker_changes import Change, Heard, Told, WorkerChange, changes_of, heard_of
from workers_client.codec import encode_object
from workers_client.exceptions import MalformedRecordError
from workers_client.wire_worker import parse_worker

# A worker that Redis forgot is looked after for so long: its record lives a day, and snapshots may be out for some.
LOOKED_AFTER = timedelta(days=7)
# A stored heartbeat further ahead than this came from a wrong clock: whatever its worker says now is newer.
FUTURE_SECONDS = 60.0
WORKERS_PER_QUERY = 1_000
_LOCK = "workers"
_SILENCES = (WorkerChange.LATE.value, WorkerChange.LOST.value, WorkerChange.RECOVERED.value)


@dataclass(frozen=True, slots=True)
class _Stored:
    """What a worker's row says, on Redis's clock."""

    heartbeat_at: float
    has_exited: bool
    dropped: Any = None  # records by kind and reason, as it said then


def record_events(workers: LiveWorkers, *, now: datetime) -> int:
    """Store the newest record of each worker and what happened to it since; return how many events are new.

    `now` is Redis's clock where it is known. A record older than the stored one changes nothing, and nothing is done
    while another snapshot does the same.
    """
    with transaction.atomic():
        if not locks.take_until_commit(_LOCK):
            return 0
        stored = _stored_workers(workers, now)
        heard = {
            worker: heard_of(record, workers.heartbeats.get(worker, 0.0)) for worker, record in workers.records.items()
        }
        current = {worker: one for worker, one in heard.items() if not _is_outdated(one, stored.get(worker), now)}
        forgotten = [name for name, row in stored.items() if name not in workers.records and not row.has_exited]
        told = _told([*current, *forgotten], stored)
        silent = [name for name in forgotten if _may_change(told[name], workers.heartbeats.get(name, 0.0))]
        written = _store_changes(current | _heard_once(silent, workers), told, now)
        news = [worker for worker, one in current.items() if _is_news(one, stored.get(worker))]
        _save(workers, news)
        _count_dropped(workers, news, stored, now)
    return written


# --- What is stored already -----------------------------------------------------------------------------------
def _stored_workers(workers: LiveWorkers, now: datetime) -> dict[str, _Stored]:
    """Return the workers that Redis has a record of, and those that it may have forgotten."""
    may_be_forgotten = Q(exited_at__isnull=True, last_heartbeat_at__gte=now - LOOKED_AFTER)
    found = Worker.objects.filter(Q(worker__in=workers.records) | may_be_forgotten).values_list(
        "worker", "last_heartbeat_at", "exited_at", "record__clock_offset_seconds", "record__buffer__dropped"
    )
    return {
        worker: _Stored(heartbeat_at.timestamp() - (offset or 0.0), exited_at is not None, dropped)
        for worker, heartbeat_at, exited_at, offset, dropped in found.order_by()
    }


def _is_outdated(worker: Heard, stored: _Stored | None, now: datetime) -> bool:
    """Return whether another snapshot has stored a newer record of the worker than this one has read."""
    if stored is None or stored.heartbeat_at > now.timestamp() + FUTURE_SECONDS:
        return False
    return worker.heartbeat_at < stored.heartbeat_at


def _is_news(worker: Heard, stored: _Stored | None) -> bool:
    return stored is None or worker.heartbeat_at != stored.heartbeat_at


def _may_change(told: Told, heartbeat_at: float) -> bool:
    """Return whether a worker without a record can have a new event: one that was lost needs a heartbeat for it."""
    return told.newest != WorkerChange.LOST or heartbeat_at > told.newest_at


def _heard_once(names: list[str], workers: LiveWorkers) -> dict[str, Heard]:
    """Return workers whose records are in Redis no more, as they were heard last."""
    heard: dict[str, Heard] = {}
    if not names:
        return heard
    for row in Worker.objects.filter(worker__in=names).only("worker", "last_heartbeat_at", "record"):
        try:
            record = parse_worker(encode_object(row.record), worker=row.worker)
        except MalformedRecordError:
            continue  # written by another version of this site
        newest = max(row.last_heartbeat_at.timestamp(), workers.heartbeats.get(row.worker, 0.0))
        heard[row.worker] = heard_of(record, newest)
    return heard


def _told(names: list[str], stored: Mapping[str, _Stored]) -> dict[str, Told]:
    """Return what was told of each worker before."""
    events = WorkerEvent.objects.filter(worker_id__in=names, event__in=_SILENCES)
    newest = events.order_by("worker_id", "-at", "-id").distinct("worker_id").values_list("worker_id", "event", "at")
    silences = {worker: (WorkerChange(event), at.timestamp()) for worker, event, at in newest}
    return {
        worker: Told(
            is_known=worker in stored,
            has_exited=worker in stored and stored[worker].has_exited,
            newest=silences[worker][0] if worker in silences else None,
            newest_at=silences[worker][1] if worker in silences else 0.0,
        )
        for worker in names
    }


# --- Rows -----------------------------------------------------------------------------------------------------
def _store_changes(heard: Mapping[str, Heard], told: Mapping[str, Told], now: datetime) -> int:
    kept_since = _kept_since(now)
    changes = [
        (worker, change)
        for worker, one in sorted(heard.items())
        for change in changes_of(one, told[worker], now=now.timestamp())
        if kept_since is None or from_unix(change.at) >= kept_since
    ]
    return _insert(changes) if changes else 0


def _kept_since(now: datetime) -> datetime | None:
    """Return the instant from which events are kept: one that retention removed must not be told anew."""
    policy = RetentionPolicy.objects.filter(kind=RetentionPolicy.Kind.WORKER_EVENTS).first()
    days = policy.days_to_keep if policy else None
    return None if days is None else now - timedelta(days=days)


def _insert(changes: list[tuple[str, Change]]) -> int:
    columns: tuple[Any, ...] = (
        [worker for worker, _ in changes],
        [change.event.value for _, change in changes],
        [from_unix(change.at) for _, change in changes],
        [change.detail[:TEXT_LENGTH] for _, change in changes],
    )
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {WorkerEvent._meta.db_table} (worker_id, event, at, detail)"
            " SELECT * FROM unnest(%s::text[], %s::text[], %s::timestamptz[], %s::text[]) ON CONFLICT DO NOTHING",
            columns,
        )
        return int(cursor.rowcount)


def _count_dropped(workers: LiveWorkers, names: Iterable[str], stored: Mapping[str, _Stored], now: datetime) -> None:
    growth = Growth()
    for name in names:
        before = stored[name].dropped if name in stored else None
        growth.add_dropped(before, workers.records[name].buffer.get("dropped"))
    metric_totals.add(growth, now)


def _save(workers: LiveWorkers, names: Iterable[str]) -> None:
    changed = []
    for name in names:
        record = workers.records[name]
        heartbeat_at = max(record.at, workers.heartbeats.get(name, 0.0))
        changed.append(Worker(worker=name, **rows.worker_values(record, heartbeat_at)))
    columns = [field.name for field in Worker._meta.concrete_fields if field.name != "worker"]
    Worker.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["worker"],
        update_fields=columns,
        batch_size=WORKERS_PER_QUERY,
    )
