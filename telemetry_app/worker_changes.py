"""What happened to a worker, told from when it was heard last and from what was told of it before. Pure.

Instants are unix seconds on Redis's clock. Each follows from what the worker wrote, not from when one looks: two that
look at the same worker say the same of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from telemetry_app.health import ALIVE_INTERVALS, LATE_INTERVALS
from telemetry_app.plain_words import span_words
from workers_client.wire_worker import OutstandingWork, WorkerRecord

RUNS_NAMED = 5  # runs that a lost worker held requests of, named in the event


class WorkerChange(StrEnum):
    STARTED = "started"
    LATE = "late"
    LOST = "lost"
    RECOVERED = "recovered"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class Heard:
    """One worker as it was heard last."""

    heartbeat_at: float
    interval_seconds: float
    started_at: float | None = None
    exited_at: float | None = None
    exit_reason: str = ""
    outstanding: Sequence[OutstandingWork] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """What was told of a worker before: whether it is known and has exited, and its newest `late`, `lost` or
    `recovered`."""

    is_known: bool = False
    has_exited: bool = False
    newest: WorkerChange | None = None
    newest_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a worker."""

    event: WorkerChange
    at: float
    detail: str = ""


def heard_of(record: WorkerRecord, heartbeat_at: float) -> Heard:
    """Return when a worker was heard, by the newest of its record and `heartbeat_at` (both on the worker's clock)."""
    offset = record.clock_offset_seconds or 0.0

    def on_redis_clock(at: float | None) -> float | None:
        return None if at is None else at - offset

    return Heard(
        heartbeat_at=max(record.at, heartbeat_at) - offset,
        interval_seconds=record.interval_seconds,
        started_at=on_redis_clock(record.started_at),
        exited_at=on_redis_clock(record.exited_at),
        exit_reason=record.exit_reason or "",
        outstanding=[
            OutstandingWork(work.run_id, work.operation, work.count, on_redis_clock(work.oldest_at))
            for work in record.outstanding
        ],
    )


def changes_of(worker: Heard, told: Told, *, now: float) -> list[Change]:
    """Return what happened to a worker and was not told yet, oldest first.

    Nothing is in the future: a worker with a wrong clock starts and exits `now` at the latest. One whose heartbeats
    always are too old by its clock is lost once, and not recovered with each of them.
    """
    found: list[Change] = []
    if not told.is_known:
        started_at = worker.heartbeat_at if worker.started_at is None else worker.started_at
        found.append(Change(WorkerChange.STARTED, min(started_at, now)))
    if worker.exited_at is None:
        found += _silences(worker, told, now)
    elif not told.has_exited:
        found.append(Change(WorkerChange.EXITED, min(worker.exited_at, now), worker.exit_reason))
    return found


def _silences(worker: Heard, told: Told, now: float) -> list[Change]:
    """Return what a worker's heartbeats, and the lack of them, say."""
    late_at = worker.heartbeat_at + ALIVE_INTERVALS * worker.interval_seconds
    lost_at = worker.heartbeat_at + LATE_INTERVALS * worker.interval_seconds
    is_down = told.newest in (WorkerChange.LATE, WorkerChange.LOST)
    if now <= late_at:
        # A heartbeat from before it was told late arrived late itself: the next one says that the worker is back.
        is_back = is_down and worker.heartbeat_at > told.newest_at
        return [Change(WorkerChange.RECOVERED, min(worker.heartbeat_at, now))] if is_back else []
    found = [] if is_down else [Change(WorkerChange.LATE, late_at)]
    if now > lost_at and told.newest != WorkerChange.LOST:
        found.append(Change(WorkerChange.LOST, lost_at, _held(worker.outstanding, lost_at)))
    return found


def _held(outstanding: Sequence[OutstandingWork], at: float) -> str:
    """Return what a worker held when it was lost: those requests are orphaned."""
    counts: dict[str, int] = {}
    for work in outstanding:
        counts[work.run_id] = counts.get(work.run_id, 0) + work.count
    if not counts:
        return "no requests outstanding"
    total = sum(counts.values())
    named = [run if len(counts) == 1 else f"{run} ({counts[run]:,})" for run in list(counts)[:RUNS_NAMED]]
    more = f" and {len(counts) - RUNS_NAMED:,} more runs" if len(counts) > RUNS_NAMED else ""
    instants = [work.oldest_at for work in outstanding if work.oldest_at is not None]
    age = f", oldest {span_words(max(0.0, at - min(instants)))} old" if instants else ""
    return f"{total:,} request{'s' if total > 1 else ''} outstanding of {', '.join(named)}{more}{age}"
