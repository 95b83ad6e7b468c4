"""Take what is new in Redis into PostgreSQL, once and only once.

Each run is taken in one transaction: its records, its totals and the cursors of its lists move together, under an
advisory lock that ends with its holder. Two snapshots at once, one killed between any two statements, or a Redis that
came back empty leave each record stored once.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import DataError, IntegrityError, connection, models, transaction
from django.utils import timezone

from telemetry_app import bulk, partitions, readers, rows
from telemetry_app.facts import known_workers, state_of_row, state_of_run, typical_seconds
from telemetry_app.instants import from_unix
from telemetry_app.ledger_totals import advance
from telemetry_app.models import Execution, ListCursor, Operation, Run, Sample, Turn, Worker
from telemetry_app.rates import per_hour
from telemetry_app.run_state import RunVerdict, WorkerFact
from telemetry_app.step_numbers import count_unstamped_steps, number_steps
from workers_client import wire

logger = logging.getLogger(__name__)

# A run without new activity is still read for so long: workers flush seconds apart and their clocks differ.
QUIET_SECONDS = 120.0
SETTLED_STATES = ("idle", "finished")  # only new activity changes them
RUNS_PER_READ = 50  # runs read from Redis in one round trip
# A record outside of this has a wrong clock: it would make partitions without end, or stay the newest for years.
OLDEST_RECORD = timedelta(days=400)
NEWEST_RECORD = timedelta(days=1)
MOST = 2**63 - 1  # PostgreSQL's bigint: a total that others' numbers drive beyond stops there
_UNSTORABLE = (DataError, IntegrityError, ValueError, OverflowError)  # what one run's or workload's content can raise


@dataclass(slots=True)
class SnapshotSummary:
    """What one snapshot did."""

    runs_count: int = 0
    rows_written: int = 0
    malformed_count: int = 0
    skipped_runs: int = 0  # taken by another snapshot at this moment
    failed_runs: int = 0  # could not be stored; the others are
    first_failure: str = ""

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name, as tasks and commands report them."""
        return {
            "runs_count": self.runs_count,
            "rows_written": self.rows_written,
            "malformed_count": self.malformed_count,
            "skipped_runs": self.skipped_runs,
            "failed_runs": self.failed_runs,
        }


def take_snapshot(*, now: datetime | None = None) -> SnapshotSummary:
    """Take all that is new, and keep a row of the execution whether it succeeds or fails.

    Raises:
        LiveDataUnavailableError: Redis can't be read; what was taken before stays.
    """
    started_at = now or timezone.now()
    execution = Execution.objects.create(task=Execution.Task.SNAPSHOT, started_at=started_at)
    summary = SnapshotSummary()
    try:
        _take(summary, started_at, is_now=now is None)
        execution.error = summary.first_failure
    except Exception as error:
        execution.error = f"{type(error).__name__}: {error}"[:500]
        raise
    finally:
        for name in ("runs_count", "rows_written", "malformed_count"):
            setattr(execution, name, getattr(summary, name))
        execution.finished_at = timezone.now()
        execution.save()
    return summary


def _take(summary: SnapshotSummary, now: datetime, *, is_now: bool) -> None:
    with transaction.atomic():
        partitions.ensure_ahead(now.date())
    workers = readers.read_workers()
    summary.malformed_count += workers.malformed_count
    _save_workers(workers)
    # Workers' heartbeats are told on Redis's clock, unless a set instant stands for now.
    clock = workers.redis_time if is_now and workers.redis_time else now.timestamp()
    facts = known_workers(workers, clock)
    index = readers.read_run_index()
    active = _active_runs(index, now)
    for start in range(0, len(active), RUNS_PER_READ):
        live_runs = readers.read_runs(active[start : start + RUNS_PER_READ], newest=readers.SUMMARY_RECORDS)
        expected = typical_seconds(live_runs.values())
        for live in live_runs.values():
            verdict = state_of_run(live, facts, expected_seconds=expected, now=now.timestamp())
            with _bounded_failure(live.run_id, summary), transaction.atomic():
                _take_run(live, verdict, summary, now)
    _age_states(index, facts, now)
    for workload in readers.read_workload_index():
        with _bounded_failure(workload, summary), transaction.atomic():
            _take_turns(workload, summary, now)


@contextmanager
def _bounded_failure(name: str, summary: SnapshotSummary) -> Iterator[None]:
    """Let what one run or workload holds fail that one alone: its transaction is rolled back, the others are taken."""
    try:
        yield
    except _UNSTORABLE as error:
        logger.exception("%s could not be stored", name)
        summary.failed_runs += 1
        summary.first_failure = summary.first_failure or f"{name}: {type(error).__name__}: {error}"[:500]


def _active_runs(index: Mapping[str, float], now: datetime) -> list[str]:
    """Return the runs that may have something new, or whose state may change with time alone."""
    stored = dict(Run.objects.filter(run_id__in=index).values_list("run_id", "last_activity_at"))
    settled = set(Run.objects.filter(run_id__in=index, state__in=SETTLED_STATES).values_list("run_id", flat=True))
    quiet_before = now.timestamp() - QUIET_SECONDS
    return [
        run_id
        for run_id, at in index.items()
        if run_id not in stored or at > stored[run_id].timestamp() or at > quiet_before or run_id not in settled
    ]


def _age_states(index: Mapping[str, float], workers: Sequence[WorkerFact], now: datetime) -> None:
    """Tell the states of runs that Redis no longer holds: quiet for long enough, they are idle, not progressing."""
    for run in Run.objects.exclude(state__in=SETTLED_STATES).exclude(run_id__in=index):
        verdict = state_of_row(run, workers, now=now.timestamp())
        if verdict.state != run.state:
            run.state, run.state_since = verdict.state, from_unix(verdict.since) or now
            run.state_reason = "; ".join(verdict.evidence)[:500]
            run.save(update_fields=["state", "state_since", "state_reason"])


# --- One run --------------------------------------------------------------------------------------------------
def _take_run(live: readers.LiveRun, verdict: RunVerdict, summary: SnapshotSummary, now: datetime) -> None:
    if not _lock(f"run:{live.run_id}"):
        summary.skipped_runs += 1
        return
    run, _ = Run.objects.get_or_create(
        run_id=live.run_id, defaults={"first_seen_at": now, "last_activity_at": _activity(live, now)}
    )
    new_operations = _take_list(
        wire.operations_key(run.run_id), lambda raw: wire.parse_operation(raw, run_id=run.run_id), run, now
    )
    new_samples = _take_list(
        wire.samples_key(run.run_id), lambda raw: wire.parse_sample(raw, run_id=run.run_id), run, now
    )
    # All before any row: who has written rows and then waits to make a partition blocks who makes one now.
    _ensure_partitions(Operation, new_operations.records)
    _ensure_partitions(Sample, new_samples.records)
    steps = run.steps_completed + count_unstamped_steps(new_operations.records)
    rows_written = _store_operations(run, new_operations.records, steps)
    rows_written += _store_samples(run, new_samples.records)
    run.steps_completed = max(run.steps_completed, live.steps_completed, steps)
    _update_run(run, live, verdict, now)
    new_malformed = new_operations.malformed_count + new_samples.malformed_count
    run.malformed_count += new_malformed
    run.missing_records = missing_records(run)
    run.save()
    summary.runs_count += 1
    summary.rows_written += rows_written
    summary.malformed_count += new_malformed


def missing_records(run: Run) -> int:
    """Return how many op records of the run are known to exist and are not stored.

    `recorded` is what its workers say they wrote; where they don't say, each answered request is one record.
    """
    written = run.answered if run.recorded is None else run.recorded
    return max(0, written - run.operations_count - run.malformed_count)


def _store_operations(run: Run, records: Sequence[wire.OpRecord], steps_completed: int) -> int:
    numbered = number_steps(records, steps_completed=steps_completed)
    inserted = _insert(
        Operation, rows.OPERATION_COLUMNS, [rows.operation_row(record, step) for step, record in numbered], ("status",)
    )
    run.operations_count += len(inserted)
    run.failures_count += sum(status == wire.Status.FAILED.value for (status,) in inserted)
    return len(inserted)


def _store_samples(run: Run, records: Sequence[wire.SampleRecord]) -> int:
    inserted = _insert(Sample, rows.SAMPLE_COLUMNS, list(map(rows.sample_row, records)), ("kind", "count"))
    run.sample_records_count += len(inserted)
    answered = sum(count for kind, count in inserted if kind == "group")
    run.samples_answered = min(MOST, run.samples_answered + answered)
    failed = sum(kind == "failure" for kind, _ in inserted)
    run.samples_failed += failed
    run.failures_count += failed
    return len(inserted)


def _update_run(run: Run, live: readers.LiveRun, verdict: RunVerdict, now: datetime) -> None:
    totals = {name: getattr(run, name) or 0 for name in wire.LEDGER_COUNTS}
    # Read anew under the run's lock: counts older than those another snapshot saw would look like a Redis that came
    # back empty, and count twice.
    moved = advance(totals, run.ledger_seen, readers.read_ledger(run.run_id))
    for name, total in moved.totals.items():
        if name in moved.seen:
            setattr(run, name, min(MOST, total))
    run.ledger_seen = dict(moved.seen)
    run.last_activity_at = max(run.last_activity_at, _activity(live, now))
    run.steps_per_hour = per_hour(live.step_times, now=now.timestamp())
    if run.state != verdict.state or run.state_since is None:
        run.state_since = from_unix(verdict.since) or now
    run.state = verdict.state
    run.state_reason = "; ".join(verdict.evidence)[:500]
    run.last_snapshot_at = now


def _activity(live: readers.LiveRun, now: datetime) -> datetime:
    """Return the run's newest activity, not later than now: a wrong clock must not stay the newest for years."""
    return min(from_unix(live.last_activity_at), now) if live.last_activity_at else now


# --- One list -------------------------------------------------------------------------------------------------
def _take_list(key: str, parse: Callable[[bytes], Any], run: Run | None, now: datetime) -> readers.Checked[Any]:
    """Read what is behind the list's cursor and move the cursor; malformed elements count once."""
    cursor, _ = ListCursor.objects.get_or_create(list_key=key)
    new = readers.read_list_after(key, cursor.newest_record_id, parse)
    plausible = [record for record in new.records if _is_plausible(record.at, now)]
    found = new.malformed_count + len(new.records) - len(plausible)
    if not new.records and found == cursor.malformed_behind:
        return readers.Checked()
    counted_before = min(cursor.malformed_behind, found)
    cursor.malformed_behind = new.malformed_tail_count if new.records else new.malformed_count
    if new.records:
        cursor.newest_record_id = new.records[-1].identity
        cursor.records_taken += len(plausible)
    cursor.moved_at = now
    cursor.save()
    return readers.Checked(plausible, found - counted_before, new.length)


def _is_plausible(at: float, now: datetime) -> bool:
    return (now - OLDEST_RECORD).timestamp() <= at <= (now + NEWEST_RECORD).timestamp()


def _ensure_partitions(model: type[models.Model], records: Sequence[wire.Record]) -> None:
    partitions.ensure_days(model, {from_unix(record.at).date() for record in records})


def _insert(
    model: type[models.Model], columns: Sequence[str], values: Sequence[tuple[Any, ...]], returning: Sequence[str]
) -> list[tuple[Any, ...]]:
    owner = "run_id" if "run_id" in columns else "workload"
    return bulk.insert_once(model, columns, values, owner=owner, returning=returning)


# --- Turns and workers ----------------------------------------------------------------------------------------
def _take_turns(workload: str, summary: SnapshotSummary, now: datetime) -> None:
    if not _lock(f"turns:{workload}"):
        return
    new = _take_list(wire.turns_key(workload), lambda raw: wire.parse_turn(raw, workload=workload), None, now)
    _ensure_partitions(Turn, new.records)
    inserted = _insert(Turn, rows.TURN_COLUMNS, list(map(rows.turn_row, new.records)), ("id",))
    summary.rows_written += len(inserted)
    summary.malformed_count += new.malformed_count


def _save_workers(workers: readers.LiveWorkers) -> None:
    """Keep the newest record of each worker; one older than what is stored changes nothing."""
    stored = dict(Worker.objects.filter(worker__in=workers.records).values_list("worker", "last_heartbeat_at"))
    changed = []
    for worker, record in sorted(workers.records.items()):  # in one order, else two snapshots lock each other out
        values = rows.worker_values(record, max(record.at, workers.heartbeats.get(worker, 0.0)))
        if worker not in stored or values["last_heartbeat_at"] > stored[worker]:
            changed.append(Worker(worker=worker, **values))
    names = [field.name for field in Worker._meta.concrete_fields if field.name != "worker"]
    Worker.objects.bulk_create(
        changed, update_conflicts=True, unique_fields=["worker"], update_fields=names, batch_size=200
    )


def _lock(name: str) -> bool:
    """Take a lock that ends with the transaction, without waiting: whoever holds it does the same work."""
    key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [key])
        return bool(cursor.fetchone()[0])
