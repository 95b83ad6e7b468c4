"""How long a run's steps took and what in, for plots: thinned here, the newest steps exactly as `/steps` tells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from telemetry_app.exceptions import HistoryUnavailableError, InvalidQueryError
from telemetry_app.inspection.sources import history
from telemetry_app.inspection.steps import StepsAnswer, run_steps
from telemetry_app.instants import rfc3339
from telemetry_app.metric_buckets import width_for
from telemetry_app.step_time_buckets import OperationTimes, StepTimes, times_of
from telemetry_app.stored_step_times import first_stored_step, stored_times

DEFAULT_POINTS = 500
MOST_POINTS = 2_000
EXACT_STEPS = 200  # newest steps that are read op by op: snapshots may not have taken all of them yet


@dataclass(frozen=True, slots=True)
class StepTimesQuery:
    """Which steps, both included, and into how many points they are folded at most."""

    first: int | None = None
    last: int | None = None
    points: int = DEFAULT_POINTS


def run_step_times(run_id: str, wanted: StepTimesQuery) -> dict[str, Any]:
    """Return how long a run's steps took, in points of so many steps each.

    Raises:
        InvalidQueryError: the steps end before they begin.
        NotFoundError, LiveDataUnavailableError, HistoryUnavailableError: see `run_sources`.
    """
    if wanted.first is not None and wanted.last is not None and wanted.last < wanted.first:
        raise InvalidQueryError("to", f"to={wanted.last} must not be below from={wanted.first}.")
    newest = run_steps(run_id, last=EXACT_STEPS, before=None if wanted.last is None else wanted.last + 1)
    groups = [group for group in newest.groups if wanted.first is None or group.step >= wanted.first]
    first, last = _span(newest, wanted)
    width = width_for(first, last, wanted.points)
    buckets = times_of(groups, width)
    exact_from = newest.groups[0].step if newest.groups else last + 1
    if newest.next_before is not None and first < exact_from:
        for number, times in _stored(newest, first, exact_from - 1, width).items():
            buckets.setdefault(number, StepTimes()).add(times)
    return {
        "run_id": newest.run_id,
        "steps_completed": newest.steps_completed,
        "from": first,
        "to": last,
        "steps_per_point": width,
        "as_of": rfc3339(timezone.now()) if newest.coverage["live"] else newest.coverage["last_snapshot_at"],
        "coverage": newest.coverage,
        "operations": sorted({name for times in buckets.values() for name in times.operations}),
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
    }


def _operation_fields(operation: OperationTimes, steps_count: int) -> dict[str, Any]:
    return {
        "count": operation.count,
        "failures": operation.failures,
        "seconds": operation.seconds / steps_count,
        "queue_seconds": operation.queue_seconds / operation.count,
    }
