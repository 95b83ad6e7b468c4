"""Lists of records, newest first: those not in a snapshot yet come from Redis, all others from PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Collate

from telemetry_app import readers, rows
from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError
from telemetry_app.inspection.sources import RunSources, history, or_none_where_live_is_out
from telemetry_app.instants import from_unix, rfc3339
from telemetry_app.models import ListCursor, Operation, Sample
from telemetry_app.receipt_times import place_received
from telemetry_app.step_numbers import number_steps
from workers_client import wire

COUNT_LIMIT = 10_000  # matches are counted up to here: an exact count of millions costs seconds
FRESH_RUNS = 200  # runs whose newest records are read for a list over all runs


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page ended: finish time, identity and run of its last record. Unique, so ties never repeat or vanish."""

    at: datetime
    record_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class OperationFilter:
    """Which op records a list shows; None lets all through. Times are half-open, `[since, until)`."""

    status: str | None = None
    operation: str | None = None
    step: int | None = None
    since: datetime | None = None
    until: datetime | None = None

    def admits(self, step: int, record: wire.OpRecord) -> bool:
        """Return whether a live record is shown."""
        at = from_unix(record.at)
        return (
            (self.status is None or record.status == self.status)
            and (self.operation is None or record.operation == self.operation)
            and (self.step is None or step == self.step)
            and (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
        )

    def apply(self, query: QuerySet[Operation]) -> QuerySet[Operation]:
        """Return the query of the stored records that are shown."""
        wanted = {
            "status": self.status,
            "operation": self.operation,
            "step": self.step,
            "at__gte": self.since,
            "at__lt": self.until,
        }
        return query.filter(**{name: value for name, value in wanted.items() if value is not None})


@dataclass(slots=True)
class RecordsPage:
    """One page of records as the API shows them, newest first."""

    results: list[dict[str, Any]]
    next_position: Position | None
    total_matching: int
    is_count_capped: bool
    has_stored: bool
    has_live: bool
    has_history: bool  # whether PostgreSQL could be asked
    history_fault: str = ""  # why PostgreSQL could not be read


def run_operations(sources: RunSources, wanted: OperationFilter, after: Position | None, size: int) -> RecordsPage:
    """Return a page of a run's op records."""
    numbered = number_steps(sources.new_operations, steps_completed=sources.steps_completed)
    live = [operation_fields(record, step) for step, record in numbered if wanted.admits(step, record)]
    query = wanted.apply(Operation.objects.of_run(sources.run_id))
    return _page(live, [(query, _stored_operation_fields)], after, size, has_history=sources.has_history)


def run_failures(sources: RunSources, after: Position | None, size: int) -> RecordsPage:
    """Return a page of a run's failed ops and failed sampling answers."""
    numbered = number_steps(sources.new_operations, steps_completed=sources.steps_completed)
    live = [failure_fields(record, step) for step, record in numbered if record.status == wire.Status.FAILED.value]
    live += [sample_failure_fields(record) for record in sources.new_samples if isinstance(record, wire.SampleFailure)]
    stored: list[Stored] = [
        (Operation.objects.of_run(sources.run_id).failed(), _stored_failure_fields),
        (Sample.objects.of_run(sources.run_id).failed(), _stored_sample_failure_fields),
    ]
    return _page(live, stored, after, size, has_history=sources.has_history)


def run_sample_failures(
    sources: RunSources, since: datetime | None, until: datetime | None, after: Position | None, size: int
) -> RecordsPage:
    """Return a page of a run's failed sampling answers; times are half-open, `[since, until)`."""
    failed = [sample_failure_fields(record) for record in sources.new_samples if isinstance(record, wire.SampleFailure)]
    live = [
        item for item in failed if (since is None or item["_at"] >= since) and (until is None or item["_at"] < until)
    ]
    rows = Sample.objects.of_run(sources.run_id).failed()
    rows = rows.filter(at__gte=since) if since else rows
    rows = rows.filter(at__lt=until) if until else rows
    return _page(live, [(rows, _stored_sample_failure_fields)], after, size, has_history=sources.has_history)


@dataclass(frozen=True, slots=True)
class FailureFilter:
    """Which failures a list over all runs shows; None lets all through."""

    since: datetime | None = None
    error_type: str | None = None
    run: str | None = None


def all_failures(
    wanted: FailureFilter, after: Position | None, size: int, *, asks_live: bool = True
) -> tuple[RecordsPage, bool]:
    """Return a page of the failures of all runs, and whether Redis could be asked for the newest.

    Whoever found Redis out a moment ago sets `asks_live` to False: each call to a Redis that hangs takes a time-out.

    Raises:
        LiveDataUnavailableError: neither source can be asked.
    """
    conditions = Q()
    conditions &= Q(at__gte=wanted.since) if wanted.since else Q()
    conditions &= Q(error_type=wanted.error_type) if wanted.error_type else Q()
    conditions &= Q(run_id=wanted.run) if wanted.run else Q()
    live = or_none_where_live_is_out(_fresh_failures) if asks_live else None
    shown = [item for item in live or [] if _admits_failure(wanted, item)]
    stored: list[Stored] = [
        (Operation.objects.failed().filter(conditions), _stored_failure_fields),
        (Sample.objects.failed().filter(conditions), _stored_sample_failure_fields),
    ]
    try:
        return _page(shown, stored, after, size, has_history=True), live is not None
    except HistoryUnavailableError as error:
        if live is None:
            raise LiveDataUnavailableError("Neither Redis nor PostgreSQL can be read.") from None
        page = _page(shown, [], after, size, has_history=False)
        page.history_fault = str(error)
        return page, True


def _admits_failure(wanted: FailureFilter, item: dict[str, Any]) -> bool:
    return (
        (wanted.since is None or item["_at"] >= wanted.since)
        and (wanted.error_type is None or item["error_type"] == wanted.error_type)
        and (wanted.run is None or item["run_id"] == wanted.run)
    )


def _fresh_failures() -> list[dict[str, Any]]:
    """Return the failures among the newest records of the most recently active runs; a record that is stored too
    shows once."""
    index = list(readers.read_run_index())[:FRESH_RUNS]
    runs = readers.read_runs(index, newest=readers.SUMMARY_RECORDS).values()
    with suppress(HistoryUnavailableError):  # then those of wrong clocks stand in the list as if received just now
        history(lambda: place_received(runs))
    failures: list[dict[str, Any]] = []
    for live in runs:
        numbered = number_steps(live.operations.records, steps_completed=live.steps_completed)
        failures += [failure_fields(r, step) for step, r in numbered if r.status == wire.Status.FAILED.value]
        failures += [sample_failure_fields(r) for r in live.samples.records if isinstance(r, wire.SampleFailure)]
    return failures


# --- Paging ---------------------------------------------------------------------------------------------------
Stored = tuple[QuerySet[Any], Callable[[Any], dict[str, Any]]]


def _page(
    live: Iterable[dict[str, Any]], stored: Sequence[Stored], after: Position | None, size: int, *, has_history: bool
) -> RecordsPage:
    """Merge live and stored records, newest first, each once, and cut one page behind `after`."""
    fresh = {_key(item): item for item in live}
    kept: dict[Key, dict[str, Any]] = {}
    total = 0
    if has_history:
        for query, fields in stored:
            total += history(lambda query=query: query.order_by()[: COUNT_LIMIT + 1].count())  # type: ignore[misc]
            kept.update(history(lambda query=query, fields=fields: _rows_behind(query, fields, after, size)))  # type: ignore[misc]
        total -= _already_stored(fresh, stored)
    total += len(fresh)
    items = {**{key: item for key, item in fresh.items() if after is None or key < _mark(after)}, **kept}
    ordered = [items[key] for key in sorted(items, reverse=True)]
    page, more = ordered[:size], len(ordered) > size
    position = Position(*_key(page[-1])) if page and more else None
    return RecordsPage(
        results=[{name: value for name, value in item.items() if name != "_at"} for item in page],
        next_position=position,
        total_matching=min(total, COUNT_LIMIT),
        is_count_capped=total > COUNT_LIMIT,
        has_stored=bool(kept),
        has_live=any(_key(item) not in kept for item in page) or not kept,
        has_history=has_history,
    )


Key = tuple[datetime, str, str]  # finish time, identity, run: the order of every list, newest first


def _key(item: dict[str, Any]) -> Key:
    return item["_at"], item["id"], item["run_id"]


def _mark(position: Position) -> Key:
    return position.at, position.record_id, position.run_id


def _rows_behind(
    query: QuerySet[Any], fields: Callable[[Any], dict[str, Any]], after: Position | None, size: int
) -> dict[Key, dict[str, Any]]:
    # Collation "C" orders texts as Python does, whatever the database's own: live and stored records stand in one list.
    query = query.alias(record_mark=Collate("record_id", "C"), run_mark=Collate("run_id", "C"))
    if after is not None:
        tied = Q(record_mark__lt=after.record_id) | Q(record_mark=after.record_id, run_mark__lt=after.run_id)
        query = query.filter(Q(at__lt=after.at) | (Q(at=after.at) & tied))
    found = (fields(row) for row in query.order_by("-at", "-record_mark", "-run_mark")[: size + 1])
    return {_key(item): item for item in found}


def _already_stored(fresh: dict[Key, dict[str, Any]], stored: Sequence[Stored]) -> int:
    if not fresh:
        return 0
    oldest = min(at for at, _, _ in fresh)
    record_ids = [record_id for _, record_id, _ in fresh]
    rows = [
        row
        for query, _ in stored
        for row in history(lambda query=query: list(_marks(query, record_ids, oldest)))  # type: ignore[misc]
    ]
    return len(set(rows) & set(fresh))


def _marks(query: QuerySet[Any], record_ids: list[str], oldest: datetime) -> QuerySet[Any, tuple[Any, ...]]:
    found = query.order_by().filter(record_id__in=record_ids, at__gte=oldest)
    return found.values_list("at", "record_id", "run_id")


def newest_snapshot_at() -> datetime | None:
    """Return when a list's cursor was moved last: the age of history where no run is named."""
    moved = ListCursor.objects.filter(moved_at__isnull=False).order_by("-moved_at").values_list("moved_at", flat=True)
    return history(lambda: moved.first())


# --- Fields of the answer -------------------------------------------------------------------------------------
def operation_fields(record: wire.OpRecord, step: int) -> dict[str, Any]:
    """Return one op record as lists show it; `_at` is for ordering and is not shown."""
    return {
        "_at": from_unix(record.at),
        "id": record.identity,
        "run_id": record.run_id,
        "step": step,
        "operation": record.operation,
        "status": record.status,
        "request_id": record.request_id,
        "worker": record.worker or record.pod,
        "role": record.role,
        "error_type": record.error_type,
        "error_category": record.error_category,
        "enqueued_at": rfc3339(record.enqueued_at),
        "queue_seconds": record.queue_seconds,
        "started_at": rfc3339(record.started_at),
        "at": rfc3339(record.at),
        "elapsed_seconds": record.elapsed_seconds,
        "metrics": dict(record.metrics),
        "nonfinite": dict(record.nonfinite),
        "tokens": record.tokens,
        "datums": record.datums,
        "batch": record.batch,
        "trace_id": record.trace_id,
        "span_id": record.span_id,
    }


_FAILURE_FIELDS = (
    "_at", "id", "run_id", "step", "operation", "request_id", "worker", "error_type", "error_category", "enqueued_at",
    "queue_seconds", "started_at", "at", "elapsed_seconds",
)  # fmt: skip


def failure_fields(record: wire.OpRecord, step: int) -> dict[str, Any]:
    """Return one failed op as lists of failures show it."""
    fields = operation_fields(record, step)
    return {"kind": "operation", "source": None, **{name: fields[name] for name in _FAILURE_FIELDS}}


def sample_failure_fields(record: wire.SampleFailure) -> dict[str, Any]:
    """Return one failed sampling answer as lists of failures show it."""
    seconds = None if record.accepted_at is None else max(0.0, record.at - record.accepted_at)
    return {
        "kind": "sample",
        "source": record.source,
        "_at": from_unix(record.at),
        "id": record.identity,
        "run_id": record.run_id,
        "step": None,
        "operation": wire.SAMPLE,
        "request_id": record.request_id,
        "worker": record.worker,
        "error_type": record.error_type,
        "error_category": None,
        "enqueued_at": rfc3339(record.accepted_at),
        "queue_seconds": None,
        "started_at": None,
        "at": rfc3339(record.at),
        "elapsed_seconds": seconds,
    }


def _stored_operation_fields(row: Operation) -> dict[str, Any]:
    return operation_fields(rows.record_of(row), row.step)


def _stored_failure_fields(row: Operation) -> dict[str, Any]:
    return failure_fields(rows.record_of(row), row.step)


def _stored_sample_failure_fields(row: Sample) -> dict[str, Any]:
    return sample_failure_fields(
        wire.SampleFailure(
            run_id=row.run_id,
            at=row.at.timestamp(),
            id=row.record_id,
            request_id=row.request_id or None,
            worker=row.worker or None,
            source=row.source or None,
            accepted_at=row.accepted_at.timestamp() if row.accepted_at else None,
            error_type=row.error_type or None,
        )
    )
