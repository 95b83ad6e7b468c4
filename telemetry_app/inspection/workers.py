"""Workers: what they say of themselves, their health now, those that Redis forgot, and what happened to each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from telemetry_app import readers
from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError, NotFoundError
from telemetry_app.facts import health_of
from telemetry_app.health import Health
from telemetry_app.inspection.sources import history, or_none_where_live_is_out
from telemetry_app.instants import rfc3339
from telemetry_app.models import Execution, Worker, WorkerEvent
from workers_client import wire_values as values
from workers_client.codec import encode_object
from workers_client.exceptions import MalformedRecordError
from workers_client.wire_worker import WorkerRecord, parse_worker

STORED_WORKERS = 2_000  # newest stored workers that a list looks at


@dataclass(slots=True)
class KnownWorker:
    """One worker with its newest record, heartbeat (unix seconds) and health."""

    record: WorkerRecord
    heartbeat_at: float
    health: Health

    @property
    def outstanding_count(self) -> int:
        """Requests it holds unanswered."""
        return sum(work.count for work in self.record.outstanding)


@dataclass(slots=True)
class WorkersAnswer:
    """Workers, newest heartbeat first, and what could not be seen."""

    workers: list[KnownWorker]
    live: bool
    has_history: bool
    malformed_count: int


def known_workers(*, now: float) -> WorkersAnswer:
    """Return all workers of both sources, newest heartbeat first; Redis's copy of a record is the newer one.

    Raises:
        LiveDataUnavailableError: neither source can be asked.
    """
    live = or_none_where_live_is_out(readers.read_workers)
    has_history = True
    try:
        stored = history(lambda: list(Worker.objects.all()[:STORED_WORKERS]))
    except HistoryUnavailableError:
        if live is None:
            raise LiveDataUnavailableError("Neither Redis nor PostgreSQL can be read.") from None
        stored, has_history = [], False
    found = {worker.record.worker: worker for worker in _from_rows(stored, now)}
    if live is not None:
        found |= {worker: _from_redis(worker, live, now) for worker in live.records}
    ordered = sorted(found.values(), key=lambda worker: (-worker.heartbeat_at, worker.record.worker))
    return WorkersAnswer(ordered, live is not None, has_history, live.malformed_count if live else 0)


def known_worker(worker: str, *, now: float) -> KnownWorker:
    """Return one worker.

    Raises:
        NotFoundError: both sources could be asked and neither knows it.
        LiveDataUnavailableError, HistoryUnavailableError: the one that could be asked does not know it.
    """
    _require_name(worker)
    live = or_none_where_live_is_out(readers.read_workers)
    if live is not None and worker in live.records:
        return _from_redis(worker, live, now)
    try:
        for found in _from_rows(history(lambda: list(Worker.objects.filter(worker=worker))), now):
            return found
    except HistoryUnavailableError:
        if live is None:
            raise LiveDataUnavailableError("Neither Redis nor PostgreSQL can be read.") from None
        raise HistoryUnavailableError(f"PostgreSQL can't be read, and Redis has no worker {worker!r}.") from None
    if live is None:
        raise LiveDataUnavailableError(f"Redis can't be read, and history has no worker {worker!r}.")
    raise NotFoundError(f"There is no worker {worker!r}.")


def _require_name(worker: str) -> None:
    if values.text(worker) != worker:  # PostgreSQL refuses it
        raise NotFoundError(f"There is no worker {worker[: values.TEXT_LIMIT]!r}.")


def _from_redis(worker: str, live: readers.LiveWorkers, now: float) -> KnownWorker:
    record = live.records[worker]
    heartbeat = max(record.at, live.heartbeats.get(worker, 0.0))
    return KnownWorker(record, heartbeat, health_of(record, heartbeat, live.redis_time or now))


def _from_rows(stored: Iterable[Worker], now: float) -> Iterable[KnownWorker]:
    for row in stored:
        try:
            record = parse_worker(encode_object(row.record), worker=row.worker)
        except MalformedRecordError:
            continue  # written by another version of this site
        heartbeat = row.last_heartbeat_at.timestamp()
        yield KnownWorker(record, heartbeat, health_of(record, heartbeat, now))


# --- Events ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class EventPosition:
    """Where a page of a worker's events ended: a worker has one event of a kind at one instant."""

    at: datetime
    event: str


@dataclass(slots=True)
class EventsPage:
    """One page of a worker's events, newest first, and the snapshot that looked at workers last."""

    events: list[WorkerEvent]
    next_position: EventPosition | None
    total_matching: int
    last_snapshot_at: datetime | None


def worker_events(worker: str, after: EventPosition | None, size: int, *, now: float) -> EventsPage:
    """Return a page of what happened to a worker, as snapshots saw it.

    Raises:
        NotFoundError: there is no such worker.
        HistoryUnavailableError: PostgreSQL can't be read: events are nowhere else.
        LiveDataUnavailableError: Redis is out, and history does not know the worker.
    """
    _require_name(worker)
    events = WorkerEvent.objects.filter(worker_id=worker)
    total = history(events.count)
    if not total:
        known_worker(worker, now=now)  # it may be too new to have any
    if after is not None:
        events = events.filter(Q(at__lt=after.at) | Q(at=after.at, event__lt=after.event))
    found = history(lambda: list(events.order_by("-at", "-event")[: size + 1]))
    page = found[:size]
    position = EventPosition(page[-1].at, page[-1].event) if len(found) > size else None
    return EventsPage(page, position, total, history(newest_snapshot_at))


def event_fields(event: WorkerEvent) -> dict[str, Any]:
    """Return one event as lists show it."""
    return {"event": event.event, "at": rfc3339(event.at), "detail": event.detail or None}


def newest_snapshot_at() -> datetime | None:
    """Return when the newest snapshot began that looked at workers."""
    taken = Execution.objects.filter(task=Execution.Task.SNAPSHOT, finished_at__isnull=False)
    taken = taken.filter(Q(error="") | Q(failed_runs__gt=0))
    return taken.order_by("-started_at").values_list("started_at", flat=True).first()


# --- Fields of the answer -------------------------------------------------------------------------------------
def worker_fields(worker: KnownWorker) -> dict[str, Any]:
    """Return one worker as lists show it."""
    record = worker.record
    return {
        "worker": record.worker,
        "role": record.role,
        "health": worker.health.value,
        "phase": record.phase,
        "phase_since": rfc3339(record.phase_since),
        "last_heartbeat_at": rfc3339(worker.heartbeat_at),
        "last_progress_at": rfc3339(record.last_progress_at),
        "interval_seconds": record.interval_seconds,
        "current": _instants(record.current),
        "turn": _instants(record.turn),
        "outstanding_count": worker.outstanding_count,
        "outstanding": [_instants(work) for work in record.outstanding],
        "runs": list(record.runs),
        "pod": record.pod,
        "node": record.node,
        "host": record.host,
        "pid": record.pid,
        "started_at": rfc3339(record.started_at),
        "exited_at": rfc3339(record.exited_at),
        "exit_reason": record.exit_reason,
    }


def worker_detail_fields(worker: KnownWorker) -> dict[str, Any]:
    """Return one worker with its settings, versions, buffer and turns."""
    record = worker.record
    return {
        **worker_fields(worker),
        "parent": record.parent,
        "pod_uid": record.pod_uid,
        "clock_offset_seconds": record.clock_offset_seconds,
        "settings": dict(record.settings),
        "versions": dict(record.versions),
        "buffer": dict(record.buffer),
        "turns": dict(record.turns),
    }


def _instants(part: Any) -> dict[str, Any] | None:
    """Return a part of a worker record with its instants written out."""
    if part is None:
        return None
    fields = dataclasses.asdict(part)
    return {name: rfc3339(value) if name.endswith("_at") else value for name, value in fields.items()}
