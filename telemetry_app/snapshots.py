"""Take what is new in Redis into PostgreSQL, once and only once.

One snapshot is an `Execution`: `begin` stores the workers and splits the active runs and workloads into parts, each
part is taken on its own by `take_part`, anywhere and in any order, and the last part to end finishes the execution.
Each run is taken in one transaction under a lock that ends with its holder (`run_snapshot.py`): two snapshots at once,
one killed between any two statements, or a Redis that came back empty leave each record stored once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django.db import DataError, IntegrityError, connection, transaction
from django.utils import timezone

from telemetry_app import partitions, readers
from telemetry_app.facts import Typical, known_workers, models_of, state_of_row, state_of_run, typical_of
from telemetry_app.instants import from_unix
from telemetry_app.models import Execution, Run
from telemetry_app.op_history import learned_of
from telemetry_app.receipt_times import place_received
from telemetry_app.run_snapshot import RunTaken, split_steps, take_run, take_turns
from telemetry_app.run_state import WorkerFact
from telemetry_app.silences import with_silences
from telemetry_app.worker_events import record_events
from workers_client import wire

logger = logging.getLogger(__name__)

# A run without new activity is still read for so long: workers flush seconds apart and their clocks differ.
QUIET_SECONDS = 120.0
SETTLED_STATES = ("idle", "finished")  # only new activity changes them
RUNS_PER_PART = 5  # taken by one task, and read from Redis in one round trip
_UNSTORABLE = (DataError, IntegrityError, ValueError, OverflowError)  # what one run's or workload's content can raise


@dataclass(frozen=True, slots=True)
class Part:
    """Runs and workloads that one task takes, and what ops take in other runs: the fields of a `Typical`.

    Of `split_run_ids` it keeps where the time of their steps went, once their records are stored.
    """

    run_ids: Sequence[str] = ()
    workloads: Sequence[str] = ()
    typical: Mapping[str, Any] = field(default_factory=dict)
    split_run_ids: Sequence[str] = ()


@dataclass(slots=True)
class PartSummary:
    """What taking one part did. `hurried` are runs whose lists fill within seconds: half full after so many."""

    runs_count: int = 0
    rows_written: int = 0
    malformed_count: int = 0
    missing_records: int = 0
    skipped_runs: int = 0  # taken by another snapshot at this moment
    failed_runs: int = 0  # could not be stored; the others are
    lag_seconds: float | None = None
    error: str = ""
    hurried: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, taken: RunTaken | None) -> None:
        """Count what was taken of a run or workload."""
        if taken is None:
            self.skipped_runs += 1
            return
        self.rows_written += taken.rows_written
        self.malformed_count += taken.malformed_count
        self.missing_records += taken.missing_records
        if taken.lag_seconds is not None:
            self.lag_seconds = max(taken.lag_seconds, self.lag_seconds or 0.0)
        if taken.per_second:
            self.hurried[name] = wire.LIST_LIMIT / 2 / taken.per_second


def take_snapshot(*, now: datetime | None = None) -> Execution:
    """Take all that is new, here and now, and return the execution.

    `now` stands for the clock where it is given. The row stays whether the snapshot succeeds or fails.

    Raises:
        LiveDataUnavailableError: Redis can't be read; what was taken before stays.
    """
    execution, parts = begin(now=now)
    for part in parts:
        take_part(execution.pk, part, now=now)
    execution.refresh_from_db()
    return execution


def begin(*, now: datetime | None = None) -> tuple[Execution, list[Part]]:
    """Store what workers say of themselves and return what is to be taken; without anything, it is finished already.

    Raises:
        LiveDataUnavailableError: Redis can't be read.
    """
    started_at = now or timezone.now()
    execution = Execution.objects.create(task=Execution.Task.SNAPSHOT, started_at=started_at)
    try:
        parts, malformed_count = _plan(started_at, is_now=now is None)
    except Exception as error:
        _count_part(execution.pk, PartSummary(error=_words_of(error)), parts=0)
        raise
    execution.parts_open, execution.malformed_count = len(parts), malformed_count
    execution.save(update_fields=["parts_open", "malformed_count"])
    if not parts:
        _count_part(execution.pk, PartSummary(), parts=0)
    return execution, parts


def take_part(execution_id: int | None, part: Part, *, now: datetime | None = None) -> PartSummary:
    """Take a part's runs and workloads, and count it in its execution, if it is of one. The last one finishes it.

    Raises:
        LiveDataUnavailableError: Redis can't be read; what was taken before stays.
    """
    started_at = now or timezone.now()
    summary = PartSummary()
    try:
        _take(part, summary, started_at, is_now=now is None)
    except BaseException as error:  # the execution says why, whatever ends the task
        summary.error = _words_of(error)
        raise
    finally:
        if execution_id is not None:
            _count_part(execution_id, summary)
    return summary


# --- What is to be taken --------------------------------------------------------------------------------------
def _plan(now: datetime, *, is_now: bool) -> tuple[list[Part], int]:
    with transaction.atomic():
        partitions.ensure_ahead(now.date())
    workers = readers.read_workers()
    clock = _clock(workers, now, is_now=is_now)
    record_events(workers, now=from_unix(clock))
    index = readers.read_run_index()
    index |= readers.read_unlisted_runs(index)
    known = known_workers(workers, clock)
    _age_states(index, known, now)
    runs, turns = _chunks(_active_runs(index, now)), _chunks(readers.read_workload_index())
    typical = asdict(typical_of(readers.read_compared_runs(index), models=models_of(known)))
    if len(runs) == 1 and len(turns) <= 1:
        return [Part(runs[0], turns[0] if turns else (), typical, runs[0])], workers.malformed_count
    parts = [Part(workloads=chunk) for chunk in turns]
    parts += [Part(run_ids=chunk, typical=typical) for chunk in runs]
    # All records before any step: lists that overflow lose what was not taken, and a step can be split later.
    return [*parts, *(Part(split_run_ids=chunk) for chunk in runs)], workers.malformed_count


def _clock(workers: readers.LiveWorkers, now: datetime, *, is_now: bool) -> float:
    """Return the clock on which heartbeats are told: Redis's, unless a set instant stands for now."""
    return workers.redis_time if is_now and workers.redis_time else now.timestamp()


def _chunks(names: Iterable[str]) -> list[list[str]]:
    ordered = list(names)
    return [ordered[start : start + RUNS_PER_PART] for start in range(0, len(ordered), RUNS_PER_PART)]


def _active_runs(index: Mapping[str, float], now: datetime) -> list[str]:
    """Return the runs that may have something new, or whose state may change with time alone."""
    rows = Run.objects.filter(run_id__in=index).values_list("run_id", "last_activity_at", "state")
    stored = {run_id: (at.timestamp(), state in SETTLED_STATES) for run_id, at, state in rows.iterator()}
    quiet_before = now.timestamp() - QUIET_SECONDS
    return [
        run_id
        for run_id, at in index.items()
        if run_id not in stored or at > stored[run_id][0] or at > quiet_before or not stored[run_id][1]
    ]


def _age_states(index: Mapping[str, float], workers: Sequence[WorkerFact], now: datetime) -> None:
    """Tell the states of runs that Redis no longer holds: quiet for long enough, they are idle, not progressing."""
    for run in Run.objects.exclude(state__in=SETTLED_STATES).exclude(run_id__in=index):
        verdict = state_of_row(run, workers, now=now.timestamp())
        if verdict.state != run.state:
            run.state, run.state_since = verdict.state, from_unix(verdict.since) or now
            run.state_reason = "; ".join(verdict.evidence)[:500]
            run.save(update_fields=["state", "state_since", "state_reason"])


# --- One part -------------------------------------------------------------------------------------------------
def _take(part: Part, summary: PartSummary, now: datetime, *, is_now: bool) -> None:
    if part.run_ids or part.workloads:
        _take_records(part, summary, now, is_now=is_now)
    for run_id in part.split_run_ids:
        with _bounded(run_id, summary):
            split_steps(run_id, now)


def _take_records(part: Part, summary: PartSummary, now: datetime, *, is_now: bool) -> None:
    workers = readers.read_workers()
    clock = _clock(workers, now, is_now=is_now)
    facts = with_silences(known_workers(workers, clock), now=clock)
    typical = Typical(**part.typical)
    histories = dict(Run.objects.filter(run_id__in=part.run_ids).order_by().values_list("run_id", "op_seconds"))
    for workload in part.workloads:  # before the runs, whose steps are split by them
        with _bounded(workload, summary):
            summary.add(workload, take_turns(workload, now))
    runs = readers.read_runs(part.run_ids, newest=readers.SUMMARY_RECORDS)
    place_received(runs.values())
    for run_id, live in runs.items():
        learned = learned_of(histories.get(run_id, {}))
        verdict = state_of_run(live, facts, typical=typical, learned=learned, now=now.timestamp())
        with _bounded(run_id, summary):
            taken = take_run(live, verdict, now)
            summary.add(run_id, taken)
            summary.runs_count += taken is not None


@contextmanager
def _bounded(name: str, summary: PartSummary) -> Iterator[None]:
    """Let what one run or workload holds fail that one alone: its transaction is rolled back, the others are taken."""
    try:
        yield
    except _UNSTORABLE as error:
        logger.exception("%s could not be stored", name)
        summary.failed_runs += 1
        summary.error = summary.error or f"{name}: {_words_of(error)}"[:500]


# --- The execution --------------------------------------------------------------------------------------------
_COUNTS = ("runs_count", "rows_written", "malformed_count", "missing_records", "skipped_runs", "failed_runs")
_COUNT = f"""
UPDATE {Execution._meta.db_table} SET
    {", ".join(f"{name} = {name} + %({name})s" for name in _COUNTS)},
    lag_seconds = greatest(lag_seconds, %(lag_seconds)s),
    error = CASE WHEN error = '' THEN %(error)s ELSE error END,
    parts_open = greatest(parts_open - %(parts)s, 0),
    finished_at = CASE WHEN parts_open <= %(parts)s THEN coalesce(finished_at, %(now)s) ELSE finished_at END
WHERE id = %(id)s
"""


def _count_part(execution_id: int, summary: PartSummary, *, parts: int = 1) -> None:
    """Count what so many parts did, and finish the execution with its last one. The first error stays.

    A part whose task was delivered twice ends twice.
    """
    values = {name: getattr(summary, name) for name in (*_COUNTS, "lag_seconds", "error")}
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, values | {"id": execution_id, "parts": parts, "now": timezone.now()})


def _words_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]
