"""A run's sampling by window of time, and its failed answers: of both sources, each record once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, F, Max, Q, QuerySet, Sum, Value
from django.db.models.functions import Extract, Floor, Least

from telemetry_app.exceptions import HistoryUnavailableError, InvalidQueryError
from telemetry_app.inspection.coverage import run_coverage, source_word
from telemetry_app.inspection.records import Position, RecordsPage, run_sample_failures
from telemetry_app.inspection.sources import RunSources, history, or_none_where_live_is_out, run_sources
from telemetry_app.instants import from_unix, rfc3339, to_unix
from telemetry_app.models import Sample
from telemetry_app.readers import read_workers
from telemetry_app.sample_windows import MOST_SECONDS, SampleWindow, window_of, windows_of
from workers_client import wire
from workers_client.wire_values import LAST_INSTANT

WINDOW_SECONDS = 60
MOST_WINDOW_SECONDS = 86_400
WINDOWS = 60  # where it is not said since when
MOST_WINDOWS = 1_000
REDELIVERY_SPAN = timedelta(days=1)  # as in `bulk.py`: within it a record is stored once


@dataclass(frozen=True, slots=True)
class SamplesQuery:
    """Which windows are shown: `since` and `until` are widened to whole ones. They limit the failed answers as well."""

    window_seconds: int = WINDOW_SECONDS
    since: datetime | None = None
    until: datetime | None = None


@dataclass(slots=True)
class SamplesAnswer:
    """A run's windows, oldest first, with their sum, and a page of its failed answers, newest first."""

    run_id: str
    since: float
    until: float
    windows: list[dict[str, Any]]
    totals: dict[str, Any]
    failures: RecordsPage
    coverage: dict[str, Any]


def run_samples(run_id: str, wanted: SamplesQuery, after: Position | None, size: int, *, now: float) -> SamplesAnswer:
    """Return a run's sampling.

    Raises:
        InvalidQueryError: `until` is not after `since`, or there would be more than 1,000 windows.
        NotFoundError, LiveDataUnavailableError, HistoryUnavailableError: see `run_sources`.
    """
    sources = run_sources(run_id)
    clock = now if sources.live is not None or sources.row is None else to_unix(sources.row.last_snapshot_at) or now
    first, last = _span(wanted, clock)
    fresh = _not_stored(sources)
    windows = windows_of(fresh, wanted.window_seconds)
    windows = {number: window for number, window in windows.items() if first <= number < last}
    has_live = bool(windows)
    stored = _stored_windows(sources, first, last, wanted.window_seconds)
    for number, window in stored.items():
        windows.setdefault(number, SampleWindow()).add(window)
    sources.new_samples = fresh
    failures = run_sample_failures(sources, wanted.since, wanted.until, after, size)
    totals = SampleWindow()
    for window in windows.values():
        totals.add(window)
    workers = or_none_where_live_is_out(read_workers) if sources.live is not None else None
    since, until = first * wanted.window_seconds, last * wanted.window_seconds
    return SamplesAnswer(
        run_id=sources.run_id,
        since=since,
        until=until,
        windows=[
            _window_fields(number, windows.get(number, SampleWindow()), wanted.window_seconds, clock)
            for number in range(first, last)
        ],
        totals=_totals_fields(totals, min(until, clock) - since),
        failures=failures,
        coverage=run_coverage(
            sources,
            workers.records.values() if workers else (),
            source=source_word(
                live=sources.live is not None and (has_live or not stored), stored=bool(stored) or sources.live is None
            ),
        ),
    )


def _span(wanted: SamplesQuery, now: float) -> tuple[int, int]:
    """Return the numbers of the first window and of the one behind the last."""
    seconds = wanted.window_seconds
    until = _bounded(to_unix(wanted.until) if wanted.until else now)
    last = math.ceil(until / seconds)
    first = window_of(_bounded(to_unix(wanted.since)), seconds) if wanted.since else max(0, last - WINDOWS)
    if last <= first:
        raise InvalidQueryError("until", f"until={rfc3339(until)} must be after since={rfc3339(first * seconds)}.")
    if last - first > MOST_WINDOWS:
        rule = f"would be {last - first:,} windows of {seconds} s; at most {MOST_WINDOWS:,} are answered"
        raise InvalidQueryError("window_seconds", f"From since to until {rule}.")
    return first, last


def _bounded(at: float) -> float:
    """Keep the windows around an instant within what a datetime holds."""
    return min(max(0.0, at), LAST_INSTANT - MOST_WINDOW_SECONDS)


# --- Both sources ---------------------------------------------------------------------------------------------
def _not_stored(sources: RunSources) -> list[wire.SampleRecord]:
    """Leave out what is stored: a record told again, or one whose list came back without its cursor's record."""
    new = sources.new_samples
    if not new or sources.row is None or not sources.has_history:
        return new
    ends = [from_unix(record.at) for record in new]
    rows = Sample.objects.of_run(sources.run_id).filter(
        record_id__in=[record.identity for record in new],
        at__range=(min(ends) - REDELIVERY_SPAN, max(ends) + REDELIVERY_SPAN),
    )
    try:
        known = set(history(lambda: list(rows.order_by().values_list("record_id", flat=True))))
    except HistoryUnavailableError:
        sources.has_history = False
        return new
    return [record for record in new if record.identity not in known]


def _stored_windows(sources: RunSources, first: int, last: int, window_seconds: int) -> dict[int, SampleWindow]:
    if not sources.has_history:
        return {}
    rows = _by_window(sources.run_id, first * window_seconds, last * window_seconds, window_seconds)
    try:
        found = history(lambda: list(rows))
    except HistoryUnavailableError:
        sources.has_history = False
        return {}
    return {
        int(row.pop("window")): SampleWindow(
            answered=int(row["answered"] or 0),
            failed=row["failed"],
            timed_count=int(row["timed"] or 0),
            seconds_sum=row["seconds"] or 0.0,
            seconds_max=row["longest"],
            tokens_sum=None if row["tokens"] is None else int(row["tokens"]),
            busy_seconds=row["busy"],
        )
        for row in found
    }


def _by_window(run_id: str, since: float, until: float, window_seconds: int) -> QuerySet[Sample, Any]:
    """Return the query of a run's windows: PostgreSQL adds up, and an index serves the run's time."""
    is_group, is_timed = Q(kind="group"), Q(kind="group", seconds_sum__isnull=False)
    return (
        Sample.objects.of_run(run_id)
        .filter(at__gte=from_unix(since), at__lt=from_unix(until))
        .order_by()
        .annotate(window=Floor(Extract("at", "epoch") / Value(window_seconds)))
        .values("window")
        .annotate(
            answered=Sum("count", filter=is_group),
            failed=Count("id", filter=Q(kind="failure")),
            timed=Sum("count", filter=is_timed),
            seconds=Sum(Least(F("seconds_sum"), Value(MOST_SECONDS)), filter=is_timed),
            longest=Max("seconds_max", filter=is_group),
            tokens=Sum("tokens_sum", filter=is_group),
            busy=Sum(Least(F("busy_seconds"), Value(MOST_SECONDS)), filter=is_group & Q(busy_seconds__isnull=False)),
        )
    )


# --- Fields of the answer -------------------------------------------------------------------------------------
def _window_fields(number: int, window: SampleWindow, window_seconds: int, now: float) -> dict[str, Any]:
    start = number * window_seconds
    return {
        "started_at": rfc3339(start),
        "ended_at": rfc3339(start + window_seconds),
        **_totals_fields(window, min(window_seconds, now - start)),
    }


def _totals_fields(window: SampleWindow, seconds: float) -> dict[str, Any]:
    """Return what a window amounts to; rates are taken over `seconds`, the part of it that is over."""
    return {
        "answered": window.answered,
        "failed": window.failed,
        "answers_per_second": window.answered / seconds if seconds > 0 else None,
        "tokens": window.tokens_sum,
        "tokens_per_second": window.tokens_sum / seconds if seconds > 0 and window.tokens_sum is not None else None,
        "mean_seconds": window.mean_seconds,
        "max_seconds": window.seconds_max,
        "busy_seconds": window.busy_seconds,
    }
