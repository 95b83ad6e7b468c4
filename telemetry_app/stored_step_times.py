"""How long stored steps took, folded by PostgreSQL: 100,000 steps come as a few hundred rows.

They are folded part by part, and each part is remembered as long as its rows are the same: what is old is not folded
anew each time that a plot is looked at.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import lru_cache
from typing import Any

from django.db import connection

from telemetry_app.sample_windows import MOST_SECONDS
from telemetry_app.step_clock import PARTS
from telemetry_app.step_time_buckets import ClockTimes, OperationTimes, StepTimes
from telemetry_app.step_time_rows import STEPS_AT_ONCE

MOST_HOLDERS = 4  # of the GPU that steps waited for: those that they waited for longest
STEPS_OF_A_PART = 4_096
MOST_PARTS = 32
PARTS_KEPT = 128  # that a process remembers of each kind: four answers of the longest runs

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
# Bucket by bucket: a plan for all steps at once can't tell how few buckets there are, and sorts on disk.
_OF_BUCKET = """run_id = %(run)s
    AND step BETWEEN greatest(%(first)s, number * %(width)s) AND least(%(last)s, number * %(width)s + %(width)s - 1)"""
_CLOCK = f"""
SELECT number, folded.* FROM generate_series(%(first)s / %(width)s, %(last)s / %(width)s) AS number
CROSS JOIN LATERAL (
    SELECT count(*) AS steps, {", ".join(f"sum({part}_seconds)" for part in PARTS)}
    FROM telemetry_app_steptime WHERE {_OF_BUCKET}
) folded WHERE steps > 0
"""
_HOLDERS = f"""
SELECT number, longest.* FROM generate_series(%(first)s / %(width)s, %(last)s / %(width)s) AS number
CROSS JOIN LATERAL (
    SELECT waited->>0 AS workload, waited->>1 AS holder, waited->>2 AS operation, sum((waited->>3)::float8) AS seconds
    FROM telemetry_app_steptime, jsonb_array_elements(gpu_wait_by) AS waited WHERE {_OF_BUCKET}
    GROUP BY 1, 2, 3 ORDER BY seconds DESC, 1, 2, 3 LIMIT %(holders)s
) longest
"""
_FIRST = "SELECT min(step) FROM telemetry_app_stepaggregate WHERE run_id = %(run)s"
# Each op that is counted raises a count, and no id comes twice: aggregates with the same sums are the same.
_MARKS = """
SELECT step / %(size)s, count(*), sum(count)::text, sum(id)::text
FROM telemetry_app_stepaggregate WHERE run_id = %(run)s AND step BETWEEN %(first)s - 1 AND %(last)s GROUP BY 1
"""
_OF_PART = """FROM telemetry_app_steptime
    WHERE run_id = %(run)s AND step BETWEEN number * %(size)s AND number * %(size)s + %(size)s - 1"""
# A kept time is written anew only while it is among the newest of its run, and what is removed never comes back with
# its id: parts of old ones that have as many, and the same at both ends, are the same.
_CLOCK_MARKS = f"""
SELECT number, newest.step, (SELECT count(*) {_OF_PART}), (SELECT id {_OF_PART} ORDER BY step LIMIT 1),
       (SELECT id {_OF_PART} ORDER BY step DESC LIMIT 1)
FROM generate_series(%(first)s / %(size)s, %(last)s / %(size)s) AS number
CROSS JOIN (SELECT max(step) AS step FROM telemetry_app_steptime WHERE run_id = %(run)s) newest
"""

Row = tuple[Any, ...]


def first_stored_step(run_id: str) -> int | None:
    """Return the oldest step that history keeps, None where it keeps none."""
    [(first,)] = _rows(_FIRST, {"run": run_id})
    return None if first is None else int(first)


def stored_times(run_id: str, first: int, last: int, width: int) -> dict[int, StepTimes]:
    """Return the steps from `first` to `last` (both included) in buckets `width` steps wide."""
    size = _part_size(first, last, width)
    span = {"run": run_id, "first": first, "last": last, "size": size}
    marks = {int(number): tuple(mark) for number, *mark in _rows(_MARKS, span)}
    buckets: dict[int, StepTimes] = {}
    for number, begin, end in _parts(first, last, size, marks):
        # What comes before a part says when its first step began.
        walls, operations = _folded_times(run_id, begin, end, width, (marks.get(number - 1), marks.get(number)))
        buckets |= {int(bucket): _times(*sums) for bucket, *sums in walls}
        for bucket, operation, count, failures, seconds, queue_seconds in operations:
            times = OperationTimes(int(count), int(failures), seconds, queue_seconds)
            buckets[int(bucket)].operations[operation] = times
    return buckets


def stored_clock(run_id: str, first: int, last: int, width: int) -> dict[int, ClockTimes]:
    """Return where the time of kept steps went, in the same buckets, each with the holders it waited for longest."""
    size = _part_size(first, last, width)
    span = {"run": run_id, "first": first, "last": last, "size": size}
    marks = {number: tuple(mark) for number, *mark in _rows(_CLOCK_MARKS, span) if mark[1]}
    buckets: dict[int, ClockTimes] = {}
    for number, begin, end in _parts(first, last, size, marks):
        newest, *mark = marks[number]
        is_old = number * size + size <= newest - STEPS_AT_ONCE
        fold = _folded_clock if is_old else _folded_clock.__wrapped__
        clocks, holders = fold(run_id, begin, end, width, tuple(mark))
        buckets |= {bucket: ClockTimes(count, dict(zip(PARTS, sums, strict=True))) for bucket, count, *sums in clocks}
        for bucket, workload, run, operation, waited in holders:
            buckets[bucket].gpu_wait_by[workload, run, operation] = waited
    return buckets


# --- Parts ----------------------------------------------------------------------------------------------------
def _part_size(first: int, last: int, width: int) -> int:
    """Return how many steps are folded by one statement: whole buckets."""
    steps = max(STEPS_OF_A_PART, (last - first) // MOST_PARTS + 1)
    return -(-steps // width) * width


def _parts(first: int, last: int, size: int, marks: Container[int]) -> Iterator[tuple[int, int, int]]:
    """Yield number, first and last step of each part that has a mark: others hold nothing."""
    for number in range(first // size, last // size + 1):
        if number in marks:
            yield number, max(first, number * size), min(last, number * size + size - 1)


@lru_cache(PARTS_KEPT)
def _folded_times(run_id: str, first: int, last: int, width: int, marks: Row) -> tuple[list[Row], list[Row]]:
    """Return the buckets of some steps, and of their ops; `marks` are others where one of their rows is."""
    span = {"run": run_id, "first": first, "last": last, "width": width, "most": MOST_SECONDS}
    return _rows(_WALLS, span), _rows(_OPERATIONS, span)


@lru_cache(PARTS_KEPT)
def _folded_clock(run_id: str, first: int, last: int, width: int, mark: Row) -> tuple[list[Row], list[Row]]:
    """Return the buckets of some kept times, and the holders of each; `mark` is another where one of the rows is."""
    span = {"run": run_id, "first": first, "last": last, "width": width, "holders": MOST_HOLDERS}
    return _rows(_CLOCK, span), _rows(_HOLDERS, span)


def _times(
    steps: int, timed: int, total: float | None, longest: list[float] | None, started_at: Any, finished_at: Any
) -> StepTimes:
    times = StepTimes(steps, 0, timed, total or 0.0, started_at=float(started_at), finished_at=float(finished_at))
    if longest is not None:
        times.wall_max, times.wall_max_step = longest[0], -int(longest[1])
    return times


def _rows(statement: str, parameters: dict[str, Any]) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall()
