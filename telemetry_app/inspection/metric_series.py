"""Metric series of a run by step, downsampled here: stored steps as PostgreSQL folds them, and what only Redis has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from telemetry_app.exceptions import HistoryUnavailableError, InvalidQueryError
from telemetry_app.grouping import group_operations
from telemetry_app.inspection.coverage import run_coverage, source_word
from telemetry_app.inspection.sources import RunSources, history, or_none_where_live_is_out, run_sources
from telemetry_app.inspection.steps import MOST_READINGS, Numbered, not_stored
from telemetry_app.metric_buckets import Bucket, Buckets, SeriesKey, buckets_of, width_for
from telemetry_app.readers import read_workers
from telemetry_app.step_numbers import number_steps
from telemetry_app.stored_metrics import (
    MOST_PLACES,
    StepSpan,
    StoredBounds,
    stored_bounds,
    stored_kinds,
    stored_names,
    stored_places,
    stored_series,
)
from workers_client.wire import TRAINING_OPERATIONS

DEFAULT_POINTS = 500
MOST_POINTS = 2_000
MOST_NAMES = 20


@dataclass(frozen=True, slots=True)
class MetricsQuery:
    """Which metrics of which steps (both included); without names, none: the answer says which there are.

    A name is a metric's, of whichever op, or `<op>.<metric>`.
    """

    names: tuple[str, ...] = ()
    first: int | None = None
    last: int | None = None
    points: int = DEFAULT_POINTS


@dataclass(slots=True)
class MetricsAnswer:
    """Series by op and metric, each with its points and its non-finite places, oldest first."""

    run_id: str
    steps_completed: int
    span: StepSpan | None  # None: the run has no steps
    steps_per_point: int
    available: list[dict[str, str]]
    series: list[dict[str, Any]]
    unmatched: list[str]
    coverage: dict[str, Any]


@dataclass(slots=True)
class _Found:
    """What both sources have."""

    span: StepSpan | None = None
    width: int = 1
    buckets: dict[SeriesKey, Buckets] = field(default_factory=dict)
    places: dict[SeriesKey, dict[int, tuple[int, set[str]]]] = field(default_factory=dict)  # count and kinds by step
    places_capped: bool = False
    available: Iterable[SeriesKey] = ()
    has_live: bool = False
    has_stored: bool = False


def run_metrics(run_id: str, wanted: MetricsQuery) -> MetricsAnswer:
    """Return metric series of a run.

    Raises:
        InvalidQueryError: there are too many names, or the steps end before they begin.
        NotFoundError, LiveDataUnavailableError, HistoryUnavailableError: see `run_sources`.
    """
    if len(wanted.names) > MOST_NAMES:
        raise InvalidQueryError("names", f"names has {len(wanted.names)} names; at most {MOST_NAMES} are answered.")
    if wanted.first is not None and wanted.last is not None and wanted.last < wanted.first:
        raise InvalidQueryError("to", f"to={wanted.last} must not be below from={wanted.first}.")
    sources, found = _settled(run_sources(run_id), wanted)
    workers = or_none_where_live_is_out(read_workers) if sources.live is not None else None
    series = _series(found, wanted)
    told = {(each["operation"], each["name"]) for each in series}
    return MetricsAnswer(
        run_id=sources.run_id,
        steps_completed=sources.steps_completed,
        span=found.span,
        steps_per_point=found.width,
        available=[{"operation": operation, "name": name} for operation, name in sorted(set(found.available))],
        series=series,
        unmatched=[term for term in wanted.names if not any(_matches(term, *key) for key in told)],
        coverage=run_coverage(
            sources,
            workers.records.values() if workers else (),
            source=source_word(
                live=sources.live is not None and (found.has_live or not found.has_stored),
                stored=found.has_stored or sources.live is None,
            ),
        ),
    )


# --- Both sources ---------------------------------------------------------------------------------------------
def _settled(sources: RunSources, wanted: MetricsQuery) -> tuple[RunSources, _Found]:
    """Return what both sources have, read anew while a snapshot moves records from one to the other."""
    for reading in range(MOST_READINGS):
        stored_before = sources.row.operations_count if sources.row else None
        found, stored_count = _read(sources, wanted)
        is_moved = stored_count is not None and stored_count != stored_before
        if not (sources.new_operations and is_moved) or reading == MOST_READINGS - 1:
            break
        sources = run_sources(sources.run_id)
    return sources, found


def _read(sources: RunSources, wanted: MetricsQuery) -> tuple[_Found, int | None]:
    live = number_steps(sources.new_operations, steps_completed=sources.steps_completed)
    if sources.has_history and sources.row is not None:
        try:
            return history(lambda: _read_both(sources, live, wanted))
        except HistoryUnavailableError:
            sources.has_history = False
    found = _Found(span=_span(StoredBounds(), live, sources.steps_completed, wanted))
    _add_live(found, live, wanted)
    return found, None


def _read_both(sources: RunSources, live: Numbered, wanted: MetricsQuery) -> tuple[_Found, int | None]:
    live = not_stored(sources, live)
    run_id, bounds = sources.run_id, stored_bounds(sources.run_id)
    found = _Found(span=_span(bounds, live, sources.steps_completed, wanted))
    if found.span is None:
        return found, bounds.operations_count
    if not wanted.names:
        found.available = stored_names(run_id)
        found.has_stored = bool(found.available)
        _add_live(found, live, wanted)
        return found, bounds.operations_count
    keys = _metric_names(wanted.names)
    found.width = width_for(found.span.first, found.span.last, wanted.points)
    found.buckets, stored_count = stored_series(run_id, keys, found.span, found.width, bounds)
    places = stored_places(run_id, keys, found.span)
    found.places_capped = len(places) > MOST_PLACES
    kinds = stored_kinds(run_id, places) if places else {}
    for stamp, operation, name, count in places[:MOST_PLACES]:
        _add_place(found, found.span.shown(stamp), (operation, name), count, kinds.get((stamp, operation, name), set()))
    found.has_stored = bool(found.buckets or places)
    _add_live(found, live, wanted)
    return found, bounds.operations_count if stored_count is None else stored_count


def _span(bounds: StoredBounds, live: Numbered, completed: int, wanted: MetricsQuery) -> StepSpan | None:
    stamps = [stamp for stamp, _ in live]
    stamps += [stamp for stamp in (bounds.first, bounds.last) if stamp is not None]
    if not stamps:
        return None
    newest = max(stamps)
    operations = {record.operation for stamp, record in live if stamp == newest}
    operations |= bounds.newest_operations if bounds.last == newest else frozenset()
    # As in `grouping.py`: what follows the newest `optim_step` and trains nothing belongs to the step before.
    is_tail = newest > 0 and newest >= completed and TRAINING_OPERATIONS.isdisjoint(operations)
    first = min(stamps) if wanted.first is None else wanted.first
    last = newest - is_tail if wanted.last is None else wanted.last
    return StepSpan(min(first, last) if wanted.first is None else first, max(first, last), newest if is_tail else -1)


def _add_live(found: _Found, live: Numbered, wanted: MetricsQuery) -> None:
    """Add what no snapshot took."""
    if found.span is None:
        return
    span = found.span
    numbered = [(span.shown(stamp), record) for stamp, record in live if span.holds(stamp)]
    groups = group_operations(numbered)
    if not wanted.names:
        names = {(operation, name) for (_, operation), group in groups.items() for name in group.metrics}
        found.has_live = bool(names)
        found.available = {*found.available, *names}
        return
    keys = _metric_names(wanted.names)
    found.width = width_for(span.first, span.last, wanted.points)
    fresh = buckets_of(groups.items(), keys, found.width)
    for key, buckets in fresh.items():
        for number, bucket in buckets.items():
            found.buckets.setdefault(key, {}).setdefault(number, Bucket()).add(bucket)
    for step, record in numbered:
        for name in keys & record.nonfinite.keys():
            _add_place(found, step, (record.operation, name), 1, {record.nonfinite[name]})
    found.has_live = bool(fresh) or any(keys & record.nonfinite.keys() for _, record in numbered)


def _add_place(found: _Found, step: int, key: SeriesKey, count: int, kinds: set[str]) -> None:
    steps = found.places.setdefault(key, {})
    known, known_kinds = steps.get(step, (0, set()))
    steps[step] = (known + count, known_kinds | kinds)


# --- Names ----------------------------------------------------------------------------------------------------
def _metric_names(terms: Iterable[str]) -> frozenset[str]:
    """Return the metric names that terms may mean: the whole of one, and what follows its first dot."""
    return frozenset(name for term in terms for name in (term, term.partition(".")[2]) if name)


def _matches(term: str, operation: str, name: str) -> bool:
    return term in (name, f"{operation}.{name}")


# --- Fields of the answer -------------------------------------------------------------------------------------
def _series(found: _Found, wanted: MetricsQuery) -> list[dict[str, Any]]:
    buckets, places = found.buckets, found.places
    keys = sorted(key for key in buckets.keys() | places.keys() if any(_matches(term, *key) for term in wanted.names))
    return [
        {
            "operation": operation,
            "name": name,
            "points": [
                _point(number, bucket, found.width)
                for number, bucket in sorted(buckets.get((operation, name), {}).items())
            ],
            "nonfinite": [
                {"step": step, "count": count, "kinds": sorted(kinds)}
                for step, (count, kinds) in sorted(places.get((operation, name), {}).items())
            ],
            "is_nonfinite_capped": found.places_capped,
        }
        for operation, name in keys
    ]


def _point(number: int, bucket: Bucket, width: int) -> dict[str, Any]:
    return {
        "step": number * width,
        "last_step": number * width + width - 1,
        "count": bucket.count,
        "min": bucket.least,
        "min_step": bucket.least_step,
        "mean": bucket.mean,
        "max": bucket.greatest,
        "max_step": bucket.greatest_step,
        "last": bucket.last,
    }
