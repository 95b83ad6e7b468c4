"""When workers were not heard and came back, from the events that snapshots wrote: they did nothing meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from telemetry_app.expectations import STUCK_FLOOR_SECONDS
from telemetry_app.health import ALIVE_INTERVALS
from telemetry_app.instants import from_unix
from telemetry_app.models import WorkerEvent
from telemetry_app.run_facts import WorkerFact

LOOKED_BACK_SECONDS = 3_600.0
_SILENT = (WorkerEvent.Event.LATE.value, WorkerEvent.Event.LOST.value)
_KINDS = (*_SILENT, WorkerEvent.Event.RECOVERED.value)


def with_silences(workers: Sequence[WorkerFact], *, now: float) -> list[WorkerFact]:
    """Return the workers, those that hold something old with the silences of the last hour. At most one query."""
    names = [worker.name for worker in workers if worker.is_living and _holds_old_work(worker, now)]
    if not names:
        return list(workers)
    since = from_unix(now - LOOKED_BACK_SECONDS)
    rows = WorkerEvent.objects.filter(worker_id__in=names, event__in=_KINDS, at__gte=since).order_by("at", "id")
    told: dict[str, list[tuple[str, float]]] = {}
    for worker_id, event, at in rows.values_list("worker_id", "event", "at"):
        told.setdefault(worker_id, []).append((event, at.timestamp()))
    return [
        replace(worker, silences=_spans(worker, told[worker.name])) if worker.name in told else worker
        for worker in workers
    ]


def _holds_old_work(worker: WorkerFact, now: float) -> bool:
    held = [work.oldest_at for work in worker.record.outstanding]
    held.append(worker.record.current.started_at if worker.record.current else None)
    return any(at is not None and now - worker.on_redis_clock(at) > STUCK_FLOOR_SECONDS for at in held)


def _spans(worker: WorkerFact, events: Sequence[tuple[str, float]]) -> tuple[tuple[float, float], ...]:
    """Return from when to when it was silent; a worker is late so many intervals after it was heard last."""
    spans: list[tuple[float, float]] = []
    began_at: float | None = None
    for event, at in events:
        if event in _SILENT and began_at is None:
            began_at = at - ALIVE_INTERVALS * worker.record.interval_seconds
        elif event not in _SILENT and began_at is not None:
            spans.append((began_at, at))
            began_at = None
    if began_at is not None and worker.heard_at > began_at:  # back, and no snapshot has said so yet
        spans.append((began_at, worker.heard_at))
    return tuple(spans)
