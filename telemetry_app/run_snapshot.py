"""Take one run, or one workload's turns: records, totals and cursors move together, under a lock of its own."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from django.db import models, transaction

from telemetry_app import bulk, locks, metric_totals, partitions, readers, rows
from telemetry_app.instants import from_unix
from telemetry_app.ledger_totals import advance, missing_records
from telemetry_app.list_taking import Taken, cursors_of, take_list
from telemetry_app.metric_growth import Growth
from telemetry_app.models import Gap, Run
from telemetry_app.op_history import grown
from telemetry_app.rates import per_hour
from telemetry_app.run_state import RunVerdict
from telemetry_app.spans import seconds
from telemetry_app.step_aggregates import StepChanges, step_changes, store_changes, stored_groups
from telemetry_app.step_numbers import count_unstamped_steps, number_steps
from telemetry_app.step_time_rows import are_steps_to_split, keep_step_times, parts_of
from telemetry_app.upserts import upsert
from telemetry_app.wrong_clocks import is_ahead
from workers_client import wire

DAY_SECONDS = 86_400
# A query is built anew at each use, which takes as long as a hundred records do.
_STORED = f"SELECT * FROM {Run._meta.db_table} WHERE run_id = %s"
MOST = 2**63 - 1  # PostgreSQL's bigint: a total that others' numbers drive beyond stops there


@dataclass(frozen=True, slots=True)
class RunTaken:
    """What taking one run, or one workload's turns, did. `lag_seconds` is None where nothing was new."""

    rows_written: int = 0
    malformed_count: int = 0
    missing_records: int = 0  # found to be lost for good
    lag_seconds: float | None = None
    per_second: float = 0.0  # records a second of its fastest list


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector: it would look through the thousands of records of one run again and again.

    That was a fifth of the processor's time (`script/benchmark ingest`). None of them is part of a cycle.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_collector_paused()
def take_run(live: readers.LiveRun, verdict: RunVerdict, now: datetime) -> RunTaken | None:
    """Take what is new of a run in one transaction; None where another task is taking it.

    Raises:
        LiveDataUnavailableError: Redis can't be read; nothing of the run is taken.
    """
    with transaction.atomic():
        if not locks.take_until_commit(locks.run_lock(live.run_id)):
            return None
        run = next(iter(Run.objects.raw(_STORED, [live.run_id])), None) or Run(
            run_id=live.run_id, first_seen_at=now, last_activity_at=_activity(live, now) or now
        )
        # Before the lists: what the ledger counts of records is then in them, or was.
        ledger = readers.read_ledger(run.run_id)
        operations_cursor, samples_cursor = cursors_of(wire.operations_key(run.run_id), wire.samples_key(run.run_id))
        operations = take_list(
            operations_cursor, partial(wire.parse_operation, run_id=run.run_id), now,
            parse_all=partial(wire.parse_operations, run_id=run.run_id),
        )  # fmt: skip
        samples = take_list(samples_cursor, partial(wire.parse_sample, run_id=run.run_id), now)
        # All before any row: who has written rows and then waits to make a partition blocks who makes one now.
        _ensure_partitions(rows.OPERATIONS, operations)
        _ensure_partitions(rows.SAMPLES, samples)
        growth, conflicts_before = Growth(), run.conflicts_count
        written = _store_operations(run, operations, growth) + _store_samples(run, samples, growth)
        _count_requests(run, ledger)
        activity = _activity(live, now) or (now if operations.records or samples.records else run.last_activity_at)
        run.last_activity_at = max(run.last_activity_at, activity)
        _tell_state(run, live, verdict, now)
        run.malformed_count += operations.malformed_count + samples.malformed_count
        missing_before, run.missing_records = run.missing_records, _missing_records(run)
        found_missing = max(0, run.missing_records - missing_before)
        _note_gap(run, wire.operations_key(run.run_id), operations, found_missing, now)
        _note_gap(run, wire.samples_key(run.run_id), samples, found_missing, now)
        lags = [taken.lag_seconds for taken in (operations, samples) if taken.records]
        run.snapshot_lag_seconds = max(lags, default=0.0)
        run.snapshot_lag_records = len(operations.records) + len(samples.records)
        upsert(run)
        growth.add_losses(
            malformed=operations.malformed_count + samples.malformed_count,
            missing=found_missing,
            conflicts=run.conflicts_count - conflicts_before,
        )
        metric_totals.add(growth, now)
    return RunTaken(
        rows_written=written,
        malformed_count=operations.malformed_count + samples.malformed_count,
        missing_records=found_missing,
        lag_seconds=max(lags, default=None),
        per_second=max(operations.per_second, samples.per_second),
    )


@_collector_paused()
def split_steps(run_id: str, now: datetime) -> None:
    """Keep where the time of a run's steps went that ended long enough ago; left out while another task has the run.

    In a transaction behind that of its records: those wait for nothing that can be told from them later.
    """
    if not are_steps_to_split(run_id, now):
        return
    with transaction.atomic():
        if not locks.take_until_commit(locks.run_lock(run_id)):
            return
        run = Run.objects.filter(run_id=run_id).first()
        if run is None:  # retention removed it meanwhile
            return
        growth = Growth()
        for time in keep_step_times(run, now):
            growth.add_step(seconds(time.wall), parts_of(time))
        metric_totals.add(growth, now)


def take_turns(workload: str, now: datetime) -> RunTaken | None:
    """Take what is new of a workload's GPU turns in one transaction; None where another task is taking them.

    Raises:
        LiveDataUnavailableError: Redis can't be read; nothing of the workload is taken.
    """
    with transaction.atomic():
        if not locks.take_until_commit(locks.turns_lock(workload)):
            return None
        [cursor] = cursors_of(wire.turns_key(workload))
        taken = take_list(cursor, partial(wire.parse_turn, workload=workload), now)
        _ensure_partitions(rows.TURNS, taken)
        inserted = _insert(rows.TURNS, workload, taken, bulk.Rows(rows.turn_row, taken.records))
        growth = Growth()
        growth.add_turns(workload, (record for record in taken.records if record.identity in inserted.record_ids))
        growth.add_losses(malformed=taken.malformed_count, conflicts=inserted.conflicts_count)
        metric_totals.add(growth, now)
    return RunTaken(
        rows_written=len(inserted.record_ids),
        malformed_count=taken.malformed_count,
        lag_seconds=taken.lag_seconds if taken.records else None,
        per_second=taken.per_second,
    )


# --- Records --------------------------------------------------------------------------------------------------
def _store_operations(run: Run, taken: Taken[wire.OpRecord], growth: Growth) -> int:
    steps_completed = run.steps_completed + count_unstamped_steps(taken.records)
    numbered = number_steps(taken.records, steps_completed=steps_completed)
    steps, ordered = [step for step, _ in numbered], replace(taken, records=[record for _, record in numbered])
    known = stored_groups(run.run_id, steps)
    changes: list[StepChanges] = []
    inserted = _insert(
        rows.OPERATIONS, run.run_id, ordered, bulk.Rows(rows.operation_row, ordered.records, steps),
        meanwhile=lambda: changes.append(step_changes(run.run_id, numbered, known)),
    )  # fmt: skip
    new = numbered
    if not changes or len(inserted.record_ids) < len(numbered):
        new = [(step, record) for step, record in numbered if record.identity in inserted.record_ids]
        changes = [step_changes(run.run_id, new, known)]
    store_changes(changes[0])
    run.steps_completed = max(run.steps_completed, steps_completed)
    growth.add_operations(record for _, record in new)
    run.op_seconds = grown(run.op_seconds, (record for _, record in new))
    run.operations_count += len(new)
    run.failures_count += sum(record.status == "failed" for _, record in new)
    run.conflicts_count += inserted.conflicts_count
    return len(new)


def _store_samples(run: Run, taken: Taken[wire.SampleRecord], growth: Growth) -> int:
    inserted = _insert(rows.SAMPLES, run.run_id, taken, bulk.Rows(rows.sample_row, taken.records))
    new = [record for record in taken.records if record.identity in inserted.record_ids]
    failures = sum(isinstance(record, wire.SampleFailure) for record in new)
    answered = sum(record.count for record in new if isinstance(record, wire.SampleGroup))
    growth.add_samples(new)
    run.op_seconds = grown(run.op_seconds, new)
    run.sample_records_count += len(new)
    run.samples_answered = min(MOST, run.samples_answered + answered)
    run.samples_failed += failures
    run.failures_count += failures
    run.conflicts_count += inserted.conflicts_count
    return len(new)


def _insert(
    table: bulk.Table,
    owner: str,
    taken: Taken[Any],
    rows_of: bulk.Rows,
    *,
    meanwhile: Callable[[], None] | None = None,
) -> bulk.Inserted:
    """Insert the rows of what was taken; those of wrong clocks get what the clock said, and are looked up by identity
    alone."""
    reported_at = taken.reported_at
    if not reported_at:
        return bulk.insert_once(table, rows_of, are_new=taken.are_new, meanwhile=meanwhile)
    known = _known_of_wrong_clocks(table, owner, list(reported_at))
    values = [
        (*row[:-1], reported_at.get(record.identity))
        for record, row in zip(taken.records, rows_of, strict=True)
        if record.identity not in known
    ]
    return bulk.insert_once(table, values)


def _known_of_wrong_clocks(table: bulk.Table, owner: str, identities: Sequence[str]) -> frozenset[str]:
    """Return which records of wrong clocks are stored already: their rows end when they were received, not now."""
    if not identities:
        return frozenset()
    stored: models.QuerySet[Any] = table.model._default_manager.filter(
        **{table.owner: owner}, record_id__in=identities, reported_at__isnull=False
    )
    return frozenset(stored.values_list("record_id", flat=True))


def _ensure_partitions(table: bulk.Table, taken: Taken[Any]) -> None:
    days = {record.at // DAY_SECONDS for record in taken.records}
    partitions.ensure_days(table.model, {from_unix(day * DAY_SECONDS).date() for day in days})


# --- Totals ---------------------------------------------------------------------------------------------------
def _count_requests(run: Run, ledger: Any) -> None:
    totals = {name: getattr(run, name) or 0 for name in wire.LEDGER_COUNTS}
    # Read under the run's lock: counts older than those another snapshot saw would look like a Redis that came back
    # empty, and count twice.
    moved = advance(totals, run.ledger_seen, ledger)
    for name, total in moved.totals.items():
        if name in moved.seen:
            setattr(run, name, min(MOST, total))
    run.ledger_seen = dict(moved.seen)


def _tell_state(run: Run, live: readers.LiveRun, verdict: RunVerdict, now: datetime) -> None:
    run.steps_completed = max(run.steps_completed, live.steps_completed)
    run.steps_per_hour = per_hour(live.step_times, now=now.timestamp())
    if run.state != verdict.state or run.state_since is None:
        run.state_since = from_unix(verdict.since) or now
    run.state = verdict.state
    run.state_reason = "; ".join(verdict.evidence)[:500]
    run.last_snapshot_at = now


def _missing_records(run: Run) -> int:
    return missing_records(
        {"recorded": run.recorded, "samples_recorded": run.samples_recorded, "answered": run.answered},
        operations_count=run.operations_count,
        samples_count=run.sample_records_count,
        malformed_count=run.malformed_count,
    )


def _note_gap(run: Run, key: str, taken: Taken[Any], missing_count: int, now: datetime) -> None:
    """Keep where records went missing: between the one taken last, which left Redis, and the oldest behind it.

    How many is known where workers count their records; a full list of others may have lost some, or none.
    """
    tells = run.recorded is not None
    if not taken.is_cut or (tells and not missing_count):
        return
    Gap.objects.get_or_create(
        list_key=key,
        after_record_id=taken.after_record_id,
        defaults={
            "run": run, "after_at": taken.after_at, "before_at": from_unix(taken.records[0].at), "found_at": now,
            "records_count": missing_count if tells else None,
        },
    )  # fmt: skip


def _activity(live: readers.LiveRun, now: datetime) -> datetime | None:
    """Return the run's newest activity, not later than now; None where nobody tells it, or only a wrong clock."""
    newest = max((record.at for record in live.operations.records), default=None)  # of a run that stands in no index
    at = live.last_activity_at or newest
    return min(from_unix(at), now) if at and not is_ahead(at, now.timestamp()) else None
