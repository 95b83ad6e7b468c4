"""How long a run's steps took and what in, for plots: thinned here, the newest steps exactly as `/steps` tells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from telemetry_app.exceptions import HistoryUnavailableError, InvalidQueryError
from telemetry_app.inspection.sources import RunSources, history, or_none_where_live_is_out, run_sources
from telemetry_app.inspection.steps import StepsAnswer, answer_steps
from telemetry_app.inspection.time import times_of_steps
from telemetry_app.instants import rfc3339
from telemetry_app.metric_buckets import width_for
from telemetry_app.readers import LiveWorkers, read_workers
from telemetry_app.step_clock import PARTS
from telemetry_app.step_time_buckets import ClockTimes, OperationTimes, StepTimes, clock_of, times_of
from telemetry_app.stored_step_times import MOST_HOLDERS, first_stored_step, stored_clock, stored_times

DEFAULT_POINTS = 500
MOST_POINTS = 2_000
EXACT_STEPS = 200  # newest steps that are read op by op: snapshots may not have taken all of them yet


@dataclass(frozen=True, slots=True)
class StepTimesQuery:
    """Which steps, both included, into how many points they are folded at most, and whether by the step clock."""

    first: int | None = None
    last: int | None = None
    points: int = DEFAULT_POINTS
    by_clock: bool = False


def run_step_times(run_id: str, wanted: StepTimesQuery) -> dict[str, Any]:
    """Return how long a run's steps took, in points of so many steps each.

    Raises:
        InvalidQueryError: the steps end before they begin.
        NotFoundError, LiveDataUnavailableError, HistoryUnavailableError: see `run_sources`.
    """
    if wanted.first is not None and wanted.last is not None and wanted.last < wanted.first:
        raise InvalidQueryError("to", f"to={wanted.last} must not be below from={wanted.first}.")
    sources = run_sources(run_id)
    workers = or_none_where_live_is_out(read_workers) if sources.live is not None else None
    newest = answer_steps(sources, workers, last=EXACT_STEPS, before=None if wanted.last is None else wanted.last + 1)
    groups = [group for group in newest.groups if wanted.first is None or group.step >= wanted.first]
    first, last = _span(newest, wanted)
    width = width_for(first, last, wanted.points)
    buckets = times_of(groups, width)
    exact_from = newest.groups[0].step if newest.groups else last + 1
    if newest.next_before is not None and first < exact_from:
        for number, times in _stored(newest, first, exact_from - 1, width).items():
            buckets.setdefault(number, StepTimes()).add(times)
    if wanted.by_clock:
        _add_clock(buckets, sources, workers, newest, wanted, first=first, exact_from=exact_from, width=width)
    return {
        "run_id": newest.run_id,
        "steps_completed": newest.steps_completed,
        "from": first,
        "to": last,
        "steps_per_point": width,
        "as_of": rfc3339(timezone.now()) if newest.coverage["live"] else newest.coverage["last_snapshot_at"],
        "coverage": newest.coverage,
        "operations": sorted({name for times in buckets.values() for name in times.operations}),
        "parts": list(PARTS) if wanted.by_clock else [],
        "results": [_point(number, times, width) for number, times in sorted(buckets.items())],
    }


def _span(newest: StepsAnswer, wanted: StepTimesQuery) -> tuple[int, int]:
    last = newest.groups[-1].step if wanted.last is None and newest.groups else wanted.last or 0
    if wanted.first is not None:
        return min(wanted.first, last), last
    first = newest.groups[0].step if newest.groups else 0
    if newest.next_before is None or not newest.coverage["history"]:
        return min(first, last), last
    stored = history(lambda: first_stored_step(newest.run_id))
    return min(first if stored is None else stored, last), last


def _stored(newest: StepsAnswer, first: int, last: int, width: int) -> dict[int, StepTimes]:
    if not newest.coverage["history"]:
        return {}
    try:
        return history(lambda: stored_times(newest.run_id, first, last, width))
    except HistoryUnavailableError:
        newest.coverage |= {"history": False, "complete": False}
        return {}


def _add_clock(
    buckets: dict[int, StepTimes],
    sources: RunSources,
    workers: LiveWorkers | None,
    newest: StepsAnswer,
    wanted: StepTimesQuery,
    *,
    first: int,
    exact_from: int,
    width: int,
) -> None:
    """Add where the time of the steps went: of the newest as the step clock tells it, of the others as it is kept."""
    is_newest = wanted.last is None or wanted.last >= sources.steps_completed
    times = times_of_steps(sources, workers, newest, is_newest=is_newest, now=timezone.now().timestamp())
    for step, clock in clock_of(times).items():
        if step >= first and step // width in buckets:
            buckets[step // width].clock.add(clock)
    if first < exact_from and newest.coverage["history"]:
        try:
            kept = history(lambda: stored_clock(newest.run_id, first, exact_from - 1, width))
        except HistoryUnavailableError:
            return
        for number, clock in kept.items():
            if number in buckets:
                buckets[number].clock.add(clock)


def _point(number: int, times: StepTimes, width: int) -> dict[str, Any]:
    """Return one point: seconds are those of a step, on average over the steps of the point."""
    timed = times.timed_count
    return {
        "step": number * width,
        "last_step": number * width + width - 1,
        "steps_count": times.steps_count,
        "open_count": times.open_count,
        "started_at": rfc3339(times.started_at),
        "finished_at": rfc3339(times.finished_at),
        "wall_seconds": times.wall_sum / timed if timed else None,
        "wall_max_seconds": times.wall_max if timed else None,
        "wall_max_step": times.wall_max_step if timed else None,
        "operations": {
            name: _operation_fields(operation, times.steps_count)
            for name, operation in sorted(times.operations.items())
        },
        **_clock_fields(times.clock),
    }


def _clock_fields(clock: ClockTimes) -> dict[str, Any]:
    """Return where the time of a step went, on average over those of the point of which it is known."""
    longest = sorted(clock.gpu_wait_by.items(), key=lambda pair: (-pair[1], str(pair[0])))[:MOST_HOLDERS]
    count = clock.steps_count
    return {
        "clock_steps_count": count,
        "parts": {part: taken / count for part, taken in clock.parts.items()} if count else None,
        "gpu_wait_by": [
            {"workload": workload, "run_id": run_id, "operation": operation, "seconds": waited / count}
            for (workload, run_id, operation), waited in longest
        ],
    }


def _operation_fields(operation: OperationTimes, steps_count: int) -> dict[str, Any]:
    return {
        "count": operation.count,
        "failures": operation.failures,
        "seconds": operation.seconds / steps_count,
        "queue_seconds": operation.queue_seconds / operation.count,
    }
