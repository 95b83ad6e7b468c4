"""A run's steps: live records and stored ones joined without a seam, then grouped."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from telemetry_app import rows
from telemetry_app.exceptions import HistoryUnavailableError, InvalidQueryError
from telemetry_app.grouping import MetricSpread, OperationGroup, StepGroup, group_steps
from telemetry_app.inspection.coverage import run_coverage, source_word
from telemetry_app.inspection.sources import RunSources, history, or_none_where_live_is_out, run_sources
from telemetry_app.instants import rfc3339
from telemetry_app.models import Operation
from telemetry_app.readers import LiveWorkers, read_workers
from telemetry_app.step_numbers import number_steps
from workers_client import wire

DEFAULT_LAST = 20
MOST_STEPS = 2_000


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
    if not 1 <= last <= MOST_STEPS:
        raise InvalidQueryError("last", f"last={last} must be from 1 to {MOST_STEPS}.")
    if before is not None and before < 0:
        raise InvalidQueryError("before", f"before={before} must be 0 or more.")
    sources = run_sources(run_id)
    return answer_steps(sources, or_none_where_live_is_out(read_workers), last=last, before=before)


def answer_steps(
    sources: RunSources, workers: LiveWorkers | None, *, last: int, before: int | None = None
) -> StepsAnswer:
    """Return the newest steps from sources that are read already."""
    live_records = sources.live.operations.records if sources.live else []
    numbered = number_steps(live_records, steps_completed=sources.steps_completed)
    end = _end(numbered, sources.steps_completed, before)
    # One step more than asked: its end is where the first one's wall time starts.
    records, has_stored, has_live = _joined(sources, numbered, end=end, wanted=last + 1)
    groups = [
        group
        for group in group_steps(records, steps_completed=sources.steps_completed)
        if before is None or group.step < before
    ]
    shown = groups[-last:]
    return StepsAnswer(
        run_id=sources.run_id,
        steps_completed=sources.steps_completed,
        groups=shown,
        next_before=shown[0].step if shown and shown[0].step > 0 else None,
        coverage=run_coverage(
            sources,
            workers.records.values() if workers else (),
            source=source_word(live=has_live, stored=has_stored),
        ),
    )


def _end(numbered: list[tuple[int, wire.OpRecord]], steps_completed: int, before: int | None) -> int:
    """Return the highest step stamp to look at; the stamp `before` itself holds the tail of the step below it."""
    highest = max([steps_completed, *(step for step, _ in numbered)])
    return highest if before is None else min(before, highest)


def _joined(
    sources: RunSources, numbered: list[tuple[int, wire.OpRecord]], *, end: int, wanted: int
) -> tuple[list[wire.OpRecord], bool, bool]:
    """Return the records of the newest steps up to `end` from both sources, each once, and which sources gave any.

    Where steps have no record at all the span is widened, so that the newest `wanted` steps are found all the same.
    """
    span = wanted + 1
    while True:
        first = max(0, end - span)
        live = {record.identity: _stamped(record, step) for step, record in numbered if first <= step <= end}
        stored: dict[str, wire.OpRecord] = {}
        if _needs_history(sources, numbered, first):
            stored = {record.identity: record for record in _stored(sources, first, end)}
        # The stored copy of a record wins: it carries the step of those that had no stamp.
        records = list({**live, **stored}.values())
        steps = {step for step, _ in number_steps(records, steps_completed=sources.steps_completed)}
        if first == 0 or len(steps) > wanted:
            return records, bool(stored), bool(live) or not stored
        span *= 4


def _stamped(record: wire.OpRecord, step: int) -> wire.OpRecord:
    """Return the record with its step: counted anew among a part of the run's records, it would be another one."""
    return record if record.step is not None else dataclasses.replace(record, step=step)


def _needs_history(sources: RunSources, numbered: list[tuple[int, wire.OpRecord]], first: int) -> bool:
    """Return whether Redis may lack records of steps from `first` on."""
    if sources.row is None or not sources.has_history:
        return False
    if sources.live is None or sources.row.operations_count + len(sources.new_operations) > len(numbered):
        oldest = min((step for step, _ in numbered), default=None)
        return oldest is None or oldest >= first
    return False


def _stored(sources: RunSources, first: int, end: int) -> list[wire.OpRecord]:
    query = Operation.objects.of_run(sources.run_id).between_steps(first, end).only(*rows.OPERATION_RECORD_FIELDS)
    try:
        return history(lambda: rows.records_of(query.order_by("step", "at").iterator(chunk_size=2_000)))
    except HistoryUnavailableError:
        sources.has_history = False
        return []


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
