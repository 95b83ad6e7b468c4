"""How long stored steps took, folded by PostgreSQL: 100,000 steps come as a few hundred rows."""

from __future__ import annotations

from typing import Any

from django.db import connection

from telemetry_app.sample_windows import MOST_SECONDS
from telemetry_app.step_clock import PARTS
from telemetry_app.step_time_buckets import ClockTimes, OperationTimes, StepTimes

MOST_HOLDERS = 4  # of the GPU that steps waited for: those that they waited for longest

# A step's wall time runs from the end of the step before, as in `grouping.py`; arrays compare by their first member, so
# that the slowest step comes with its number.
_WALLS = """
SELECT step / %(width)s, count(*), count(wall), sum(wall), max(ARRAY[wall, -step]) FILTER (WHERE wall IS NOT NULL),
       extract(epoch FROM min(started_at)), extract(epoch FROM max(finished_at))
FROM (
    SELECT step, started_at, finished_at, CASE
               WHEN step = 0 AND enqueued_at IS NOT NULL
                   THEN greatest(0, extract(epoch FROM finished_at - enqueued_at)::float8)
               WHEN lag(step) OVER by_step = step - 1
                   THEN greatest(0, extract(epoch FROM finished_at - lag(finished_at) OVER by_step)::float8)
           END AS wall
    FROM (
        SELECT step, min(first_enqueued_at) AS enqueued_at, min(started_at) AS started_at,
               max(finished_at) AS finished_at
        FROM telemetry_app_stepaggregate
        WHERE run_id = %(run)s AND step BETWEEN %(first)s - 1 AND %(last)s
        GROUP BY step
    ) steps WINDOW by_step AS (ORDER BY step)
) walls WHERE step >= %(first)s GROUP BY 1
"""
_OPERATIONS = """
SELECT step / %(width)s, operation, sum(count), sum(failures), sum(least(seconds, %(most)s)),
       sum(least(queue_seconds, %(most)s))
FROM telemetry_app_stepaggregate WHERE run_id = %(run)s AND step BETWEEN %(first)s AND %(last)s
GROUP BY 1, 2
"""
_CLOCK = f"""
SELECT step / %(width)s, count(*), {", ".join(f"sum({part}_seconds)" for part in PARTS)}
FROM telemetry_app_steptime WHERE run_id = %(run)s AND step BETWEEN %(first)s AND %(last)s
GROUP BY 1
"""
_HOLDERS = """
SELECT number, workload, holder, operation, seconds FROM (
    SELECT number, workload, holder, operation, seconds,
           row_number() OVER (PARTITION BY number ORDER BY seconds DESC, workload, holder, operation) AS place
    FROM (
        SELECT step / %(width)s AS number, waited->>0 AS workload, waited->>1 AS holder, waited->>2 AS operation,
               sum((waited->>3)::float8) AS seconds
        FROM telemetry_app_steptime, jsonb_array_elements(gpu_wait_by) AS waited
        WHERE run_id = %(run)s AND step BETWEEN %(first)s AND %(last)s
        GROUP BY 1, 2, 3, 4
    ) holders
) placed WHERE place <= %(most)s
"""
_FIRST = "SELECT min(step) FROM telemetry_app_stepaggregate WHERE run_id = %(run)s"


def first_stored_step(run_id: str) -> int | None:
    """Return the oldest step that history keeps, None where it keeps none."""
    [(first,)] = _rows(_FIRST, {"run": run_id})
    return None if first is None else int(first)


def stored_times(run_id: str, first: int, last: int, width: int) -> dict[int, StepTimes]:
    """Return the steps from `first` to `last` (both included) in buckets `width` steps wide."""
    parameters = {"run": run_id, "first": first, "last": last, "width": width, "most": MOST_SECONDS}
    buckets = {}
    for number, steps, timed, total, longest, started_at, finished_at in _rows(_WALLS, parameters):
        times = StepTimes(steps, 0, timed, total or 0.0, started_at=float(started_at), finished_at=float(finished_at))
        if longest is not None:
            times.wall_max, times.wall_max_step = longest[0], -int(longest[1])
        buckets[int(number)] = times
    for number, operation, count, failures, seconds, queue_seconds in _rows(_OPERATIONS, parameters):
        buckets[int(number)].operations[operation] = OperationTimes(int(count), int(failures), seconds, queue_seconds)
    return buckets


def stored_clock(run_id: str, first: int, last: int, width: int) -> dict[int, ClockTimes]:
    """Return where the time of kept steps went, in the same buckets, each with the holders it waited for longest."""
    parameters = {"run": run_id, "first": first, "last": last, "width": width, "most": MOST_HOLDERS}
    buckets = {
        int(number): ClockTimes(count, dict(zip(PARTS, parts, strict=True)))
        for number, count, *parts in _rows(_CLOCK, parameters)
    }
    for number, *holder, waited in _rows(_HOLDERS, parameters):
        workload, run, operation = holder
        buckets[int(number)].gpu_wait_by[workload, run, operation] = waited
    return buckets


def _rows(statement: str, parameters: dict[str, Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall()
