"""Keep where each step's time went: one row a step, made of stored records once every worker has told its part.

A step is split half a minute after its end, when workers have flushed six times, and once more in the minutes behind
it: after an outage, one worker's records come before another's.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.db import connection

from telemetry_app import bulk, step_clock, stored_activity
from telemetry_app.instants import from_unix
from telemetry_app.models import Operation, Run, StepAggregate, StepTime
from telemetry_app.run_activity import Life, RunActivity, begin_of, run_step_times
from telemetry_app.spans import microseconds, seconds
from telemetry_app.step_clock import StepWindow
from telemetry_app.turn_spans import Use
from workers_client import wire

SETTLED = timedelta(seconds=30)
TOGETHER = timedelta(seconds=20)  # steps of so long are split at once, which costs as much as one
AGAIN = timedelta(seconds=150)  # a step that was kept so lately is split once more
STEPS_AT_ONCE = 500

_COLUMNS = tuple(f"{part}_seconds" for part in step_clock.PARTS)
_VALUES = ("started_at", "ended_at", "wall_seconds", *_COLUMNS, "gpu_wait_by", "overlap_seconds",
           "clock_offset_seconds", "kept_at")  # fmt: skip
_TABLE = bulk.Table(StepTime, ("run_id", "step", *_VALUES))
_INSTANTS = ("started_at", "ended_at", "kept_at")
# As text, with instants in unix seconds: to make models of fifty rows takes as long as all the rest of the answer.
_KEPT = f"""
SELECT step, extract(epoch FROM started_at)::float8, extract(epoch FROM ended_at)::float8, gpu_wait_by::text,
       overlap_seconds, clock_offset_seconds, {", ".join(_COLUMNS)}
FROM telemetry_app_steptime WHERE run_id = %s AND step BETWEEN %s AND %s ORDER BY step
"""
_waits = msgspec.json.Decoder(list[tuple[str | None, str | None, str | None, float]])


def are_steps_to_split(run_id: str, now: datetime) -> bool:
    """Return whether a step of the run ended long enough ago and is not kept, or is to be split once more."""
    return _steps_to_split(run_id, now) is not None


def keep_step_times(run: Run, now: datetime) -> list[step_clock.StepTime]:
    """Keep the steps of a run that ended long enough ago, and return those that were not kept before.

    Must run under the run's lock, behind its new records.
    """
    steps = _steps_to_split(run.run_id, now)
    if steps is None:
        return []
    until = (now - SETTLED).timestamp()
    times = [time for time in _split(run, *steps, now) if seconds(time.window.end) <= until]
    new = [time for time in times if time.window.step >= steps[1]]
    if new:
        bulk.copy(_TABLE, bulk.packed(_TABLE, [_row(run.run_id, time, now.timestamp()) for time in new]))
    _store_again([_row(run.run_id, time, now.timestamp()) for time in times if time.window.step < steps[1]])
    return new


def parts_of(time: step_clock.StepTime) -> dict[str, float]:
    """Return the seconds of each part of a step."""
    return {part: seconds(time.parts[part]) for part in step_clock.PARTS}


def kept_step_times(run_id: str, first: int, last: int) -> dict[int, step_clock.StepTime]:
    """Return the times that are kept of the steps from `first` to `last` (both included), by step, in order."""
    with connection.cursor() as cursor:
        cursor.execute(_KEPT, (run_id, first, last))
        return {row[0]: _time_of(*row) for row in cursor.fetchall()}


def _time_of(
    step: int, start: float, end: float, waited_for: str, overlap: float, clock_offset: float | None, *parts: float
) -> step_clock.StepTime:
    return step_clock.StepTime(
        window=StepWindow(step, True, microseconds(start), microseconds(end)),
        parts=dict(zip(step_clock.PARTS, map(microseconds, parts), strict=True)),
        gpu_wait_by={
            (None if workload is None else Use(workload, run_id, operation)): microseconds(waited)
            for workload, run_id, operation, waited in _waits.decode(waited_for)
        },
        overlap=microseconds(overlap),
        clock_offset_seconds=clock_offset,
    )


# --- Which steps ----------------------------------------------------------------------------------------------
def _steps_to_split(run_id: str, now: datetime) -> tuple[int, int, int] | None:
    """Return the first step to split, the first that is not kept, and the last one; None where there is nothing."""
    kept = StepTime.objects.filter(run_id=run_id)
    newest, ended_at = kept.order_by("-step").values_list("step", "ended_at").first() or (-1, None)
    if ended_at is not None and ended_at > now - SETTLED - TOGETHER:
        return None
    ended = StepAggregate.objects.filter(run_id=run_id, operation=wire.OPTIM_STEP, finished_at__lte=now - SETTLED)
    following = ended.filter(step__gt=newest).order_by("step").values_list("step", flat=True).first()
    if following is None:
        return None
    first = following
    if ended_at is None:  # its op rows may be gone, those of later steps not
        first = Operation.objects.of_run(run_id).order_by("step").values_list("step", flat=True).first() or 0
    elif following == newest + 1:
        again = kept.filter(step__gt=newest - STEPS_AT_ONCE, kept_at__gt=now - AGAIN).order_by("step")
        first = min([newest, *again.values_list("step", flat=True)[:1]])
    return first, max(first, newest + 1), max(first, newest) + STEPS_AT_ONCE


def _split(run: Run, first: int, following: int, last: int, now: datetime) -> list[step_clock.StepTime]:
    operations = stored_activity.operations_of(run.run_id, first - 1, last + 1)
    if not operations:
        return []
    start, end = begin_of(operations), max(record.at for _, record in operations)
    turns = stored_activity.turns_between(start, end)
    newest = min(last, max(step for step, _ in operations))
    if max(len(turns), len(operations)) >= stored_activity.MOST_RECORDS and newest > first:
        # The oldest are not among them: of fewer steps all are.
        fewer = (following, last) if first < following else (first, (first + newest) // 2)
        return _split(run, fewer[0], following, fewer[1], now)
    names = {record.worker for _, record in operations if record.worker}
    samples = stored_activity.samples_of(run.run_id, start, end)
    others = stored_activity.writers_of([*turns, *samples])
    workers = stored_activity.workers_of(run.run_id, names, now=now.timestamp(), others=others)
    activity = RunActivity(
        run_id=run.run_id,
        operations=operations,
        steps_completed=run.steps_completed,
        samples=samples,
        turns=turns,
        lives=[workers.lives.get(name, Life(name)) for name in names | workers.lives.keys()],
        unknown=stored_activity.gaps_of(run.run_id),
        offsets=workers.offsets,
        enqueue_offset=workers.enqueue_offset,
    )
    times = run_step_times(activity, first=first, last=last)
    return [time for time in times if time.window.completed]


# --- Rows -----------------------------------------------------------------------------------------------------
def _row(run_id: str, time: step_clock.StepTime, kept_at: float) -> tuple[Any, ...]:
    """Return a row in the order of `_TABLE`, its instants as unix seconds."""
    window = time.window
    return (
        run_id, window.step, seconds(window.start), seconds(window.end), seconds(time.wall), *parts_of(time).values(),
        list(_holders(time.gpu_wait_by.items())), seconds(time.overlap), time.clock_offset_seconds, kept_at,
    )  # fmt: skip


def _store_again(rows: Iterable[tuple[Any, ...]]) -> None:
    """Write rows of steps that are kept already, as a rule."""
    values = [dict(zip(_TABLE.columns, row, strict=True)) for row in rows]
    found = [StepTime(**row | {name: from_unix(row[name]) for name in _INSTANTS}) for row in values]
    StepTime.objects.bulk_create(found, update_conflicts=True, unique_fields=("run", "step"), update_fields=_VALUES)


def _holders(waits: Iterable[tuple[Use | None, int]]) -> Iterable[list[object]]:
    for use, length in waits:
        names = (None, None, None) if use is None else (use.workload, use.run_id, use.operation)
        yield [*names, seconds(length)]
