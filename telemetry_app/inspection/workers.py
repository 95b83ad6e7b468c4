"""Workers: what they say of themselves, their health now, and those that Redis forgot."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from telemetry_app import readers
from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError, NotFoundError
from telemetry_app.facts import health_of
from telemetry_app.health import Health
from telemetry_app.inspection.sources import history, or_none_where_live_is_out
from telemetry_app.instants import rfc3339
from telemetry_app.models import Worker
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
        for worker, record in live.records.items():
            heartbeat = max(record.at, live.heartbeats.get(worker, 0.0))
            found[worker] = KnownWorker(record, heartbeat, health_of(record, heartbeat, live.redis_time or now))
    ordered = sorted(found.values(), key=lambda worker: (-worker.heartbeat_at, worker.record.worker))
    return WorkersAnswer(ordered, live is not None, has_history, live.malformed_count if live else 0)


def known_worker(worker: str, *, now: float) -> KnownWorker:
    """Return one worker.

    Raises:
        NotFoundError: both sources could be asked and neither knows it.
        LiveDataUnavailableError, HistoryUnavailableError: the one that could be asked does not know it.
    """
    answer = known_workers(now=now)
    for found in answer.workers:
        if found.record.worker == worker:
            return found
    if not answer.live:
        raise LiveDataUnavailableError(f"Redis can't be read, and history has no worker {worker!r}.")
    if not answer.has_history:
        raise HistoryUnavailableError(f"PostgreSQL can't be read, and Redis has no worker {worker!r}.")
    raise NotFoundError(f"There is no worker {worker!r}.")


def _from_rows(stored: Iterable[Worker], now: float) -> Iterable[KnownWorker]:
    for row in stored:
        try:
            record = parse_worker(encode_object(row.record), worker=row.worker)
        except MalformedRecordError:
            continue  # written by another version of this site
        heartbeat = row.last_heartbeat_at.timestamp()
        yield KnownWorker(record, heartbeat, health_of(record, heartbeat, now))


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
