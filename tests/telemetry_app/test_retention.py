"""What is older than its policy keeps goes, exactly, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.apps import apps
from django.db import connection
from django.db.models.signals import post_migrate

from telemetry_app import partition_removal, removal
from telemetry_app.models import (
    Execution,
    Gap,
    ListCursor,
    Operation,
    RetentionPolicy,
    Run,
    Sample,
    StepAggregate,
    Turn,
    Worker,
    WorkerEvent,
)
from telemetry_app.partitions import ensure_days, existing_days, partition_name
from telemetry_app.retention import apply_retention
from telemetry_app.snapshots import take_snapshot
from tests.support.policies import keep
from tests.support.records import RUN, START, op, sample_group, turn, worker
from workers_client import wire

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_client")]
NOW = datetime.fromtimestamp(START, UTC)
DAY = timedelta(days=1)
DETAILS = {"operations": 14, "samples": 14, "turns": 14}


@pytest.fixture
def history(writer):
    """A run with one record of each kind on each of 20 days up to now."""
    for days in range(20):
        at = (NOW - days * DAY).timestamp()
        writer.operations(op(at=at))
        writer.samples(sample_group(at=at, count=5))
        writer.turns(turn(at=at))
    writer.workers(worker(at=(NOW - 19 * DAY).timestamp()))
    writer.ledger(enqueued=20, answered=20, recorded=20)
    take_snapshot(now=NOW)
    return writer


def ages(model):
    """Return how many days ago the rows were, each age once."""
    return sorted({(NOW.date() - row.at.date()).days for row in model.objects.all()})


def result_of(summary, policy):
    return next(result for result in summary.policies if result.policy == policy)


def an_op(run_id, at, number):
    return Operation(run_id=run_id, record_id=f"w:{number}", operation="forward", status="succeeded", at=at, step=0)


def a_run(run_id, last_activity_at=NOW, **fields):
    return Run.objects.create(run_id=run_id, first_seen_at=NOW, last_activity_at=last_activity_at, **fields)


# --- Policies -------------------------------------------------------------------------------------------------
def test_policies_are_there_after_a_migration_and_then_the_operators(settings):
    settings.TELEMETRY_RETENTION_DAYS = 21
    RetentionPolicy.objects.all().delete()
    RetentionPolicy.objects.create(kind="samples", days_to_keep=3)
    config = apps.get_app_config("telemetry_app")
    post_migrate.send(sender=config, app_config=config, verbosity=0, interactive=False, using="default")
    assert dict(RetentionPolicy.objects.values_list("kind", "days_to_keep")) == {
        "operations": 21, "samples": 3, "turns": 21, "worker_events": 90, "incidents": 365, "steps": None, "runs": None,
    }  # fmt: skip


def test_records_of_days_that_ended_earlier_than_they_are_kept_go(history):
    keep(**DETAILS)
    summary = apply_retention(now=NOW)
    assert [ages(model) for model in (Operation, Sample, Turn)] == [list(range(15))] * 3
    assert (summary.rows_removed, summary.errors, summary.is_complete, summary.was_skipped) == (15, {}, True, False)


def test_each_kind_is_kept_for_its_own_days(history):
    keep(operations=3, samples=10)
    apply_retention(now=NOW)
    assert (ages(Operation), ages(Sample), ages(Turn)) == ([0, 1, 2, 3], list(range(11)), list(range(20)))


def test_a_policy_shortened_from_90_days_to_1_removes_all_but_two_days(history):
    keep(operations=90)
    assert apply_retention(now=NOW).rows_removed == 0
    keep(operations=1)
    assert apply_retention(now=NOW).rows_removed == 18
    assert ages(Operation) == [0, 1]


def test_runs_workers_and_totals_stay(history):
    before = Run.objects.values().get()
    keep(operations=1, samples=1, turns=1, worker_events=1)
    apply_retention(now=NOW)
    assert Run.objects.values().get() == before
    assert (before["operations_count"], before["samples_answered"]) == (20, 100)
    assert Worker.objects.count() == 1


def test_what_was_removed_does_not_come_back_and_is_not_missing(history):
    keep(operations=1)
    apply_retention(now=NOW)
    history.operations(op(at=START + 5))
    history.ledger(recorded=21)
    take_snapshot(now=NOW + timedelta(seconds=10))
    assert ages(Operation) == [0, 1]
    assert (Run.objects.get().operations_count, Run.objects.get().missing_records) == (21, 0)


def test_a_second_retention_removes_nothing(history):
    keep(**DETAILS)
    apply_retention(now=NOW)
    assert apply_retention(now=NOW).rows_removed == 0


# --- Calendar -------------------------------------------------------------------------------------------------
def test_records_are_stored_after_60_days_without_any(history):
    keep(**DETAILS)
    later = NOW + 60 * DAY
    apply_retention(now=later)
    assert Operation.objects.count() == 0
    assert {later.date(), later.date() + DAY} <= existing_days(Operation._meta.db_table)
    Operation.objects.bulk_create([an_op(RUN, later, 1)])
    assert Operation.objects.get().at == later


def test_an_empty_month_between_two_days_is_no_trouble():
    keep(operations=5)
    for number, days in enumerate((40, 6, 5)):
        ensure_days(Operation, [(NOW - days * DAY).date()])
        Operation.objects.bulk_create([an_op(RUN, NOW - days * DAY, number)])
    assert apply_retention(now=NOW).rows_removed == 2
    assert ages(Operation) == [5]


@pytest.mark.parametrize("day", ["2027-10-31", "2027-03-28"])
def test_a_day_ends_in_utc_where_the_clocks_change(day, settings):
    """On the days of 25 and 23 hours in Berlin, whatever hour retention runs at, a record goes at the same time."""
    settings.TIME_ZONE = "Europe/Berlin"
    midnight = datetime.fromisoformat(f"{day}T00:00+00:00")
    for days in range(-1, 5):
        ensure_days(Operation, [(midnight - days * DAY).date()])
    first, before_it = midnight - 2 * DAY, midnight - 2 * DAY - timedelta(microseconds=1)
    keep(operations=2)
    Operation.objects.bulk_create([an_op(RUN, first, 1), an_op(RUN, before_it, 2)])
    for hours in range(25):
        now = (midnight + timedelta(hours=hours)).astimezone(ZoneInfo("Europe/Berlin"))
        removed = apply_retention(now=now).rows_removed
        assert removed == (1 if hours in (0, 24) else 0)
    assert Operation.objects.count() == 0


# --- Pinned runs ----------------------------------------------------------------------------------------------
@pytest.fixture
def pinned():
    """A pinned run and another one with rows of every kind 20 days ago."""
    old = NOW - 20 * DAY
    for model in (Operation, Sample, Turn):
        ensure_days(model, [old.date()])
    for name, is_pinned in (("pinned", True), ("other", False)):
        a_run(name, old, pinned=is_pinned)
        Operation.objects.bulk_create(an_op(name, old, number) for number in range(50))
        Sample.objects.bulk_create(Sample(run_id=name, record_id=f"s:{n}", kind="group", at=old) for n in range(50))
        Turn.objects.create(workload=name, record_id="t:1", started_at=old, at=old, runs=["third", name])
        StepAggregate.objects.create(
            run_id=name, step=1, operation="optim_step", count=1, started_at=old, finished_at=old
        )
        Worker.objects.create(
            worker=f"worker-{name}", role="trainer", last_heartbeat_at=old, interval_seconds=5, runs=[name]
        )
        WorkerEvent.objects.create(worker_id=f"worker-{name}", event="started", at=old)
        Gap.objects.create(run_id=name, list_key=wire.operations_key(name), after_record_id="w:1", found_at=old)
        ListCursor.objects.create(list_key=wire.operations_key(name))


def test_a_pinned_run_is_kept_whole(pinned):
    keep(operations=1, samples=1, turns=1, steps=1, worker_events=1, incidents=1, runs=1)
    summary = apply_retention(now=NOW)
    for model in (Operation, Sample, StepAggregate, Gap, Run):
        assert set(model.objects.values_list("run_id", flat=True)) == {"pinned"}
    assert (Operation.objects.count(), Sample.objects.count()) == (50, 50)
    assert list(Turn.objects.values_list("workload", flat=True)) == ["pinned"]
    assert list(WorkerEvent.objects.values_list("worker_id", flat=True)) == ["worker-pinned"]
    assert list(Worker.objects.values_list("worker", flat=True)) == ["worker-pinned"]
    assert list(ListCursor.objects.values_list("list_key", flat=True)) == [wire.operations_key("pinned")]
    assert {result.policy: result.rows_removed for result in summary.policies} == {
        "operations": 50, "samples": 50, "turns": 1, "steps": 1, "worker_events": 1, "incidents": 0, "runs": 3,
        "redis": 0, "executions": 0,
    }  # fmt: skip


def test_the_day_of_a_run_that_is_no_longer_pinned_is_dropped(pinned):
    keep(operations=1)
    apply_retention(now=NOW)
    assert (NOW - 20 * DAY).date() in existing_days(Operation._meta.db_table)
    Run.objects.update(pinned=False)
    assert apply_retention(now=NOW).rows_removed == 50
    assert (NOW - 20 * DAY).date() not in existing_days(Operation._meta.db_table)


def test_rows_go_in_chunks_where_they_can_not_be_dropped(pinned, monkeypatch):
    monkeypatch.setattr(partition_removal, "CHUNK_BLOCKS", 1)
    keep(operations=1)
    chunks = []
    summary = apply_retention(now=NOW, on_progress=lambda policy, rows: chunks.append(rows))
    assert len(chunks) > 2
    assert summary.rows_removed == sum(chunks) == 50


# --- Tables without partitions --------------------------------------------------------------------------------
@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_step_aggregates_go_in_chunks_also_where_many_end_at_one_instant(monkeypatch, chunk):
    monkeypatch.setattr(removal, "CHUNK_ROWS", chunk)
    a_run(RUN)
    for step in range(10):
        at = NOW - (10 * DAY if step < 7 else DAY)
        StepAggregate.objects.create(run_id=RUN, step=step, operation="forward", count=1, started_at=at, finished_at=at)
    keep(steps=5)
    assert apply_retention(now=NOW).rows_removed == 7
    assert sorted(StepAggregate.objects.values_list("step", flat=True)) == [7, 8, 9]


def test_events_of_workers_go_by_their_own_time():
    for days in (1, 89, 90, 91, 200):
        WorkerEvent.objects.create(worker_id="worker-1", event="late", at=NOW - days * DAY)
    keep(worker_events=90)
    assert apply_retention(now=NOW).rows_removed == 2
    assert WorkerEvent.objects.count() == 3


def test_executions_are_kept_90_days_and_snapshots_that_did_their_work_a_week():
    for days in (0, 6, 8, 89, 91):
        Execution.objects.create(task="snapshot", started_at=NOW - days * DAY)
        Execution.objects.create(task="snapshot", started_at=NOW - days * DAY, error="Redis")
        Execution.objects.create(task="retention", policy="runs", started_at=NOW - days * DAY)
    keep()
    summary = apply_retention(now=NOW)
    assert (summary.rows_removed, result_of(summary, "executions").rows_removed) == (5, 5)
    assert Execution.objects.filter(task="snapshot", error="").count() == 2
    assert Execution.objects.filter(task="snapshot").exclude(error="").count() == 4


# --- Runs -----------------------------------------------------------------------------------------------------
def test_a_run_goes_with_all_that_history_has_of_it(history):
    keep(runs=30)
    later = NOW + 31 * DAY
    Gap.objects.create(run_id=RUN, list_key=wire.operations_key(RUN), after_record_id="w:1", found_at=NOW)
    StepAggregate.objects.filter(run_id=RUN).delete()
    StepAggregate.objects.create(run_id=RUN, step=1, operation="forward", count=1, started_at=NOW, finished_at=NOW)
    a_run("younger", later - 2 * DAY)
    turns = Turn.objects.count()
    summary = apply_retention(now=later)
    assert list(Run.objects.values_list("run_id", flat=True)) == ["younger"]
    for model in (Operation, Sample, StepAggregate, Gap):
        assert model.objects.count() == 0
    assert Turn.objects.count() == turns  # they are their workload's
    assert not ListCursor.objects.filter(list_key__contains=RUN).exists()
    # 20 ops, 20 samples, a step aggregate, a gap, the run, and the worker of that time
    assert result_of(summary, "runs").rows_removed == 44


def test_a_run_that_was_removed_does_not_come_back_with_the_next_snapshot(history):
    keep(runs=30)
    apply_retention(now=NOW + 31 * DAY)
    take_snapshot(now=NOW + 31 * DAY)
    assert Run.objects.count() == 0


def test_a_run_that_redis_has_something_new_of_is_not_removed(history):
    keep(runs=30)
    history.operations(op(at=START + 10))
    apply_retention(now=NOW + 31 * DAY)
    assert Run.objects.count() == 1
    assert history.client.llen(wire.operations_key(RUN)) == 21


def test_a_turn_of_a_removed_run_alone_goes_with_it():
    ensure_days(Turn, [NOW.date()])
    a_run(RUN, NOW - 40 * DAY)
    for number, runs in enumerate(([RUN], [RUN, "other"], [])):
        Turn.objects.create(workload="w", record_id=f"t:{number}", started_at=NOW, at=NOW, runs=runs)
    keep(runs=30)
    apply_retention(now=NOW)
    assert sorted(Turn.objects.values_list("record_id", flat=True)) == ["t:1", "t:2"]


# --- Executions -----------------------------------------------------------------------------------------------
def test_each_policy_leaves_an_execution_that_says_what_went(history):
    keep(**DETAILS, runs=400)
    apply_retention(now=NOW)
    kept = {execution.policy: execution for execution in Execution.objects.filter(task="retention")}
    assert set(kept) == {"operations", "samples", "turns", "runs", "redis", "executions"}
    of_ops = kept["operations"]
    midnight = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    assert (of_ops.rows_removed, of_ops.error, of_ops.cutoff_at) == (5, "", midnight - 14 * DAY)
    assert of_ops.bytes_removed > 0
    assert of_ops.finished_at >= of_ops.started_at >= NOW


def test_a_policy_that_fails_says_why_and_stops_no_other(history):
    keep(**DETAILS)
    oldest = partition_name(Sample._meta.db_table, (NOW - 19 * DAY).date())
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE VIEW blocker AS SELECT id FROM {oldest}")
    summary = apply_retention(now=NOW)
    assert set(summary.errors) == {"samples"}
    assert "blocker" in Execution.objects.get(policy="samples").error
    assert (result_of(summary, "operations").rows_removed, result_of(summary, "turns").rows_removed) == (5, 5)


def test_without_time_left_the_next_one_goes_on(history):
    keep(**DETAILS)
    first = apply_retention(now=NOW, budget_seconds=0)
    assert (first.is_complete, first.rows_removed) == (False, 0)
    second = apply_retention(now=NOW)
    assert (second.is_complete, second.rows_removed) == (True, 15)
