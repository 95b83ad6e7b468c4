"""A run's steps: what history keeps of them, and what Redis has that is not in a snapshot yet, joined without a seam.

History is asked for its step aggregates, never for op rows: a step costs the same whatever ran in it, and whether its
rows are still there or not.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet, Subquery
from django.db.models.functions import Coalesce

from telemetry_app.exceptions import HistoryUnavailableError, InvalidQueryError
from telemetry_app.grouping import (
    MetricSpread,
    OperationGroup,
    OperationKey,
    StepGroup,
    group_operations,
    merged,
    steps_of,
)
from telemetry_app.inspection.coverage import run_coverage, source_word
from telemetry_app.inspection.sources import RunSources, history, or_none_where_live_is_out, run_sources
from telemetry_app.instants import from_unix, rfc3339
from telemetry_app.models import Operation, Run, StepAggregate
from telemetry_app.readers import LiveWorkers, read_workers
from telemetry_app.step_aggregates import groups_of
from telemetry_app.step_numbers import number_steps
from workers_client import wire

DEFAULT_LAST = 20
MOST_STEPS = 2_000
MOST_READINGS = 3  # of a run that snapshots are taking at the moment
REDELIVERY_SPAN = timedelta(days=1)  # as in `bulk.py`: within it a record is stored once
Numbered = list[tuple[int, wire.OpRecord]]


@dataclass(slots=True)
class StepsAnswer:
    """Groups oldest first; `next_before` continues below them, None where nothing is."""

    run_id: str
    steps_completed: int
    groups: list[StepGroup]
    next_before: int | None
    coverage: dict[str, Any]


def run_steps(run_id: str, *, last: int = DEFAULT_LAST, before: int | None = None) -> StepsAnswer:
    """Return the newest `last` steps of a run, of those below `before` where it is given.

    Raises:
        InvalidQueryError: `last` is not from 1 to 2,000, or `before` is negative.
        NotFoundError, LiveDataUnavailableError, HistoryUnavailableError: see `run_sources`.
    """
    check_span(last, before)
    sources = run_sources(run_id)
    return answer_steps(sources, or_none_where_live_is_out(read_workers), last=last, before=before)


def check_span(last: int, before: int | None) -> None:
    """Refuse a span of steps that is too long, or below 0.

    Raises:
        InvalidQueryError: `last` is not from 1 to 2,000, or `before` is negative.
    """
    if not 1 <= last <= MOST_STEPS:
        raise InvalidQueryError("last", f"last={last} must be from 1 to {MOST_STEPS}.")
    if before is not None and before < 0:
        raise InvalidQueryError("before", f"before={before} must be 0 or more.")


def answer_steps(
    sources: RunSources, workers: LiveWorkers | None, *, last: int, before: int | None = None
) -> StepsAnswer:
    """Return the newest steps from sources that are read already."""
    # Two more than asked: the end of the one before is where the first one's wall time starts, and the stamp `before`
    # itself may hold the tail of the step below it.
    sources, found = _settled(sources, _Span(wanted=last + 2, end=before))
    groups = [
        group
        for group in steps_of(found.groups, steps_completed=sources.steps_completed)
        if before is None or group.step < before
    ]
    shown = groups[-last:]
    stamps = _stamps_of(shown, found)
    return StepsAnswer(
        run_id=sources.run_id,
        steps_completed=sources.steps_completed,
        groups=shown,
        next_before=shown[0].step if shown and shown[0].step > 0 else None,
        coverage=run_coverage(
            sources,
            workers.records.values() if workers else (),
            source=source_word(
                live=not stamps.isdisjoint(found.live) or stamps.isdisjoint(found.stored),
                stored=not stamps.isdisjoint(found.stored),
            ),
        ),
    )


# --- Both sources ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Span:
    """Which stamps are looked at: the newest `wanted` up to `end`, or up to the newest there is."""

    wanted: int
    end: int | None

    def oldest(self, steps: set[int]) -> int:
        """Return the oldest stamp of the span among those there are."""
        return sorted(steps)[-self.wanted] if len(steps) >= self.wanted else 0


@dataclass(slots=True)
class _Found:
    """Groups of ops by stamp, and which stamps have something that is in Redis or in history alone."""

    groups: dict[OperationKey, OperationGroup] = field(default_factory=dict)
    live: set[int] = field(default_factory=set)
    stored: set[int] = field(default_factory=set)
    operations_count: int | None = None  # ops of the run in history when they were read


def _settled(sources: RunSources, span: _Span) -> tuple[RunSources, _Found]:
    """Return what both sources have, read anew while a snapshot moves records from one to the other."""
    for _ in range(MOST_READINGS):
        found = _find(sources, span)
        stored_before = sources.row.operations_count if sources.row else None
        if not sources.new_operations or found.operations_count in (None, stored_before):
            break
        sources = run_sources(sources.run_id)
    return sources, found


def _find(sources: RunSources, span: _Span) -> _Found:
    live = _numbered(sources.live.operations.records if sources.live else [], sources, span)
    retold = _retold(sources)
    if not (retold or _lacks_records(sources)):
        return _of_live(live, span)
    try:
        # Before the aggregates: of what is stored in between, these know, and the count tells.
        new = not_stored(sources, _numbered(sources.new_operations, sources, span))
        rows = history(lambda: list(_aggregates(sources.run_id, span)))
    except HistoryUnavailableError:
        sources.has_history = False
        return _of_live(live, span)
    found = _Found(groups_of(rows), stored={row.step for row in rows})
    found.operations_count = rows[0].operations_count if rows else None  # type: ignore[attr-defined] # annotated
    oldest = span.oldest(found.stored)
    _add_new(found, [(step, record) for step, record in new if step >= oldest])
    _prefer_live(found, [(step, record) for step, record in live if step >= oldest], retold)
    return found


def _numbered(records: list[wire.OpRecord], sources: RunSources, span: _Span) -> Numbered:
    numbered = number_steps(records, steps_completed=sources.steps_completed)
    return numbered if span.end is None else [(step, record) for step, record in numbered if step <= span.end]


def _of_live(live: Numbered, span: _Span) -> _Found:
    oldest = span.oldest({step for step, _ in live})
    shown = [(step, record) for step, record in live if step >= oldest]
    return _Found(group_operations(shown), live={step for step, _ in shown})


def _add_new(found: _Found, new: Numbered) -> None:
    """Add what no snapshot has taken yet."""
    for key, group in group_operations(new).items():
        found.groups[key] = merged(found.groups[key], group) if key in found.groups else group
        found.live.add(key[0])


def _prefer_live(found: _Found, live: Numbered, retold: Container[str]) -> None:
    """Take a step from Redis where that has all of it; records without a stamp are history's to number."""
    groups = group_operations(live)
    counts, live_counts = _counts(found.groups), _counts(groups)
    whole = {step for step, count in live_counts.items() if count >= counts.get(step, 0)}
    found.live |= whole
    found.stored -= whole
    taken = whole - {step for step, record in live if record.step is None or record.identity in retold}
    found.groups = {key: group for key, group in found.groups.items() if key[0] not in taken}
    found.groups |= {key: group for key, group in groups.items() if key[0] in taken}


def _counts(groups: dict[OperationKey, OperationGroup]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for (step, _), group in groups.items():
        counts[step] = counts.get(step, 0) + group.count
    return counts


def _stamps_of(shown: list[StepGroup], found: _Found) -> set[int]:
    """Return the stamps of the steps shown: the newest may hold a tail with the next stamp."""
    steps = {group.step for group in shown}
    return steps | ({max(steps) + 1} if shown and shown[-1].step + 1 not in steps else set())


# --- History --------------------------------------------------------------------------------------------------
def _lacks_records(sources: RunSources) -> bool:
    """Return whether Redis lacks records of the run, and history can be asked for them."""
    if sources.row is None or not sources.has_history:
        return False
    if sources.live is None:
        return True
    known = len(sources.live.operations.records)
    return sources.row.operations_count + len(sources.new_operations) > known


def _retold(sources: RunSources) -> frozenset[str]:
    """Return the taken records of wrong clocks whose rows are gone: Redis's copy ends whenever it is read.

    What they amount to is in the aggregates, by the time at which they were received.
    """
    if sources.row is None or sources.live is None or not sources.has_history:
        return frozenset()
    new = {record.identity for record in sources.new_operations}
    return frozenset(sources.live.operations.of_wrong_clocks.keys() - new)


def _aggregates(run_id: str, span: _Span) -> QuerySet[StepAggregate]:
    """Return the rows of a span in one query by the index of their unique key, with the run's count of stored ops."""
    rows = StepAggregate.objects.filter(run_id=run_id)
    if span.end is not None:
        rows = rows.filter(step__lte=span.end)
    newest = rows.order_by("-step").values("step").distinct()
    oldest = Coalesce(Subquery(newest[span.wanted - 1 : span.wanted]), 0)
    stored = Run.objects.filter(run_id=run_id).values("operations_count")
    return rows.filter(step__gte=oldest).annotate(operations_count=Subquery(stored[:1]))


def not_stored(sources: RunSources, new: Numbered) -> Numbered:
    """Leave out what is stored: a record told again whose first copy has left Redis, or taken a moment ago."""
    if not new:
        return new
    instants = [from_unix(record.at) for _, record in new]
    stored = Operation.objects.of_run(sources.run_id).filter(
        record_id__in=[record.identity for _, record in new],
        at__range=(min(instants) - REDELIVERY_SPAN, max(instants) + REDELIVERY_SPAN),
    )
    known = set(history(lambda: list(stored.values_list("record_id", flat=True))))
    return [(step, record) for step, record in new if record.identity not in known]


# --- Fields of the answer -------------------------------------------------------------------------------------
def step_fields(group: StepGroup) -> dict[str, Any]:
    """Return one step as the API and the pages show it."""
    return {
        "step": group.step,
        "completed": group.completed,
        "started_at": rfc3339(group.started_at),
        "finished_at": rfc3339(group.finished_at),
        "wall_seconds": group.wall_seconds,
        "failures": group.failures,
        "operations": {name: _operation_fields(operation) for name, operation in group.operations.items()},
    }


def _operation_fields(group: OperationGroup) -> dict[str, Any]:
    return {
        "count": group.count,
        "failures": group.failures,
        "seconds": group.seconds,
        "queue_seconds": group.queue_seconds,
        "metrics": {name: _spread_fields(spread) for name, spread in group.metrics.items()},
        "nonfinite": group.nonfinite,
    }


def _spread_fields(spread: MetricSpread) -> dict[str, Any]:
    if not spread.count:
        return {"count": 0}
    return {
        "count": spread.count,
        "min": spread.min,
        "mean": spread.mean,
        "max": spread.max,
        "last": spread.last,
    }
