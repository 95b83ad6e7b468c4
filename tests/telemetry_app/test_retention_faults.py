"""Retention beside others, and retention that is killed: what went is exactly what was counted."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.db import connection, connections
from django.db.models import Sum

from telemetry_app import locks, partition_removal, partitions, removal
from telemetry_app.models import Execution, Operation, Run, Sample, StepAggregate
from telemetry_app.partitions import ensure_days, existing_days, list_partitions, partition_name
from telemetry_app.retention import apply_retention
from tests.support.policies import keep

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_client")]
NOW = datetime(2020, 6, 10, 12, tzinfo=UTC)  # before the days of all other tests: what is older is this test's own
OLD = [NOW - timedelta(days=days) for days in (5, 4, 3)]
TABLE = Operation._meta.db_table
ROWS_A_DAY = 40


@pytest.fixture(autouse=True)
def _without_partitions_afterwards():
    yield
    connection.close()  # where a test killed it
    with connection.cursor() as cursor:
        for partition in list_partitions():
            if partition.day.year == NOW.year:
                cursor.execute(f"DROP TABLE {partition.name}")


@pytest.fixture
def filled():
    """Three old days of ops of two runs, and old step aggregates."""
    for model in (Operation, Sample):
        ensure_days(model, [at.date() for at in OLD])
    for run_id in ("run-a", "run-b"):
        Run.objects.create(run_id=run_id, first_seen_at=NOW, last_activity_at=NOW)
    for day, at in enumerate(OLD):
        Operation.objects.bulk_create(
            Operation(
                run_id="run-a" if number % 2 else "run-b", record_id=f"w:{day}:{number}", operation="forward",
                status="succeeded", at=at, step=number, error_type="x" * 500,
            )
            for number in range(ROWS_A_DAY)
        )  # fmt: skip
        Sample.objects.create(run_id="run-a", record_id=f"s:{day}", kind="group", at=at)
    StepAggregate.objects.bulk_create(
        StepAggregate(run_id="run-a", step=step, operation="forward", count=1, started_at=at, finished_at=at)
        for step, at in enumerate(OLD * 10)
    )
    keep(operations=1, samples=1, steps=1)


@pytest.fixture
def other_session():
    """Another session of the test's database."""
    connection.ensure_connection()
    with psycopg.connect(**connection.get_connection_params() | {"cursor_factory": psycopg.Cursor}) as session:
        yield session
        session.rollback()


def kill_own_session(other_session):
    """End this thread's PostgreSQL session from another one, as a killed task or a restarted server would."""
    backend = connection.connection.info.backend_pid
    other_session.execute("SELECT pg_terminate_backend(%s)", [backend])
    other_session.commit()


def removed_in_all():
    return Execution.objects.filter(task="retention").aggregate(total=Sum("rows_removed"))["total"]


def rows_left():
    return Operation.objects.count() + Sample.objects.count() + StepAggregate.objects.count()


EXPIRED = 3 * ROWS_A_DAY + 3 + 30


def test_two_retentions_at_once_do_it_once_and_one_says_that_it_did_nothing(filled):
    is_inside, may_go_on, found = threading.Event(), threading.Event(), {}

    def wait_inside(policy, rows):
        is_inside.set()
        may_go_on.wait(20)

    def first():
        try:
            found["first"] = apply_retention(now=NOW, on_progress=wait_inside)
        finally:
            connections.close_all()

    thread = threading.Thread(target=first)
    thread.start()
    assert is_inside.wait(20)
    second = apply_retention(now=NOW)
    may_go_on.set()
    thread.join(20)
    assert (second.was_skipped, second.policies) == (True, [])
    assert (found["first"].was_skipped, found["first"].rows_removed) == (False, EXPIRED)
    assert (removed_in_all(), rows_left()) == (EXPIRED, 0)
    assert apply_retention(now=NOW).was_skipped is False


@pytest.mark.parametrize("kills_after", [1, 2])
def test_a_retention_whose_session_is_killed_between_chunks_is_gone_on_with(
    filled, other_session, monkeypatch, kills_after
):
    """A pinned run makes the rows of its days go in chunks; each of the three policies is cut once."""
    monkeypatch.setattr(partition_removal, "CHUNK_BLOCKS", 1)
    monkeypatch.setattr(removal, "CHUNK_ROWS", 4)
    Run.objects.filter(run_id="run-a").update(pinned=True)
    StepAggregate.objects.update(run_id="run-b")
    chunks = {}

    def kill(policy, rows):
        chunks[policy] = chunks.get(policy, 0) + 1
        if chunks[policy] == kills_after:
            kill_own_session(other_session)

    first = apply_retention(now=NOW, on_progress=kill)
    assert {"operations", "steps"} <= set(first.errors)
    assert 0 < first.rows_removed < 3 * ROWS_A_DAY / 2 + 30
    assert rows_left() == EXPIRED - first.rows_removed
    second = apply_retention(now=NOW)
    assert second.errors == {}
    kept = 3 * ROWS_A_DAY // 2 + 3  # the pinned run's ops and samples
    assert (first.rows_removed + second.rows_removed, removed_in_all(), rows_left()) == (
        EXPIRED - kept, EXPIRED - kept, kept,
    )  # fmt: skip


def test_a_day_that_was_detached_and_not_dropped_goes_with_the_next_one(filled, other_session, monkeypatch):
    drop = partition_removal._drop

    def die(name, removal):
        kill_own_session(other_session)
        drop(name, removal)

    monkeypatch.setattr(partition_removal, "_drop", die)
    assert "operations" in apply_retention(now=NOW).errors
    monkeypatch.undo()
    assert Operation.objects.count() == 2 * ROWS_A_DAY
    # The day may come back meanwhile, with a record that is late.
    ensure_days(Operation, [OLD[0].date()])
    Operation.objects.create(run_id="run-a", record_id="late", operation="forward", status="failed", at=OLD[0], step=0)
    assert apply_retention(now=NOW).errors == {}
    assert (removed_in_all(), rows_left()) == (EXPIRED + 1, 0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_class WHERE relname LIKE %s", [f"%{partition_removal.REMOVED_SUFFIX}"])
        assert cursor.fetchone() == (0,)


def test_a_reader_that_holds_a_table_for_long_costs_one_policy_one_execution(filled, other_session, monkeypatch):
    monkeypatch.setattr(partition_removal, "LOCK_TIMEOUT_MILLISECONDS", 50)
    monkeypatch.setattr(partition_removal, "LOCK_PAUSE_SECONDS", 0.01)
    other_session.execute(f"SELECT count(*) FROM {TABLE}")  # and its transaction stays open
    summary = apply_retention(now=NOW)
    assert set(summary.errors) == {"operations"}
    assert "lock" in Execution.objects.get(policy="operations").error
    assert (Operation.objects.count(), Sample.objects.count(), StepAggregate.objects.count()) == (3 * ROWS_A_DAY, 0, 0)
    other_session.rollback()
    assert apply_retention(now=NOW).errors == {}
    assert (removed_in_all(), rows_left()) == (EXPIRED, 0)


def test_a_reader_that_ends_in_time_costs_nothing(filled, other_session, monkeypatch):
    monkeypatch.setattr(partition_removal, "LOCK_TIMEOUT_MILLISECONDS", 50)
    monkeypatch.setattr(partition_removal.time, "sleep", lambda seconds: other_session.rollback())
    other_session.execute(f"SELECT count(*) FROM {TABLE}")
    assert apply_retention(now=NOW).errors == {}
    assert (removed_in_all(), rows_left()) == (EXPIRED, 0)


def test_nobody_waits_for_a_second():
    assert partition_removal.LOCK_TIMEOUT_MILLISECONDS < 1_000


def test_a_reader_of_a_day_that_goes_row_by_row_is_not_waited_for(filled, other_session):
    Run.objects.filter(run_id="run-a").update(pinned=True)
    other_session.execute(f"SELECT count(*) FROM {TABLE}")
    assert apply_retention(now=NOW).errors.keys() <= {"samples"}
    assert Operation.objects.count() == 3 * ROWS_A_DAY / 2


def test_a_run_that_is_pinned_while_its_day_is_detached_keeps_it(filled, other_session, monkeypatch):
    looked = partition_removal._has_kept_rows

    def pin_after_looking(name, holding):
        found = looked(name, holding)
        other_session.execute("UPDATE telemetry_app_run SET pinned = true WHERE run_id = 'run-a'")
        other_session.commit()
        return found

    monkeypatch.setattr(partition_removal, "_has_kept_rows", pin_after_looking)
    apply_retention(now=NOW)
    assert set(Operation.objects.values_list("run_id", flat=True)) == {"run-a"}
    assert Operation.objects.count() == 3 * ROWS_A_DAY / 2
    assert {at.date() for at in OLD} <= existing_days(TABLE)


def test_a_day_that_a_view_depends_on_is_told_and_the_others_go(filled):
    held = partition_name(TABLE, OLD[0].date())
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE VIEW a_view_of_ours AS SELECT record_id FROM {held}")
    for _ in range(2):  # the second finds it detached
        apply_retention(now=NOW)
        execution = Execution.objects.filter(policy="operations").latest("pk")
        assert "view a_view_of_ours depends on" in execution.error
        assert held in execution.error
        assert not existing_days(TABLE) & {at.date() for at in OLD}
        assert Execution.objects.filter(policy="operations").aggregate(Sum("rows_removed"))["rows_removed__sum"] == 80
    with connection.cursor() as cursor:
        cursor.execute("DROP VIEW a_view_of_ours")
    apply_retention(now=NOW)
    execution = Execution.objects.filter(policy="operations").latest("pk")
    assert (execution.error, execution.rows_removed) == ("", ROWS_A_DAY)


def test_the_lock_of_a_retention_ends_with_it(filled, other_session):
    apply_retention(now=NOW)
    [[count]] = other_session.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchall()
    assert count == 0


def test_a_run_that_a_snapshot_takes_is_not_removed(filled, other_session):
    keep(runs=1)
    Run.objects.update(last_activity_at=OLD[0])
    with locks.held(locks.run_lock("run-a")), connection.cursor() as cursor:  # the key of that name
        cursor.execute("SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory'")
        [[key]] = cursor.fetchall()
    other_session.execute("SELECT pg_advisory_xact_lock(%s)", [key])
    apply_retention(now=NOW)
    assert list(Run.objects.values_list("run_id", flat=True)) == ["run-a"]
    other_session.rollback()
    apply_retention(now=NOW)
    assert Run.objects.count() == 0
    assert Operation.objects.count() == 0


def test_a_missing_partition_is_named_at_midnight_and_mended_by_the_next_maintenance(filled):
    midnight = datetime(2020, 6, 13, tzinfo=UTC)
    partitions.ensure_ahead(midnight.date() - timedelta(days=1))
    name = partition_name(TABLE, midnight.date())
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {name}")
    assert partitions.missing_days(midnight.date()) == [name]
    apply_retention(now=midnight)
    assert partitions.missing_days(midnight.date()) == []
    Operation.objects.create(
        run_id="run-a", record_id="first", operation="forward", status="failed", at=midnight, step=0
    )
    assert partitions.ensure_ahead(midnight.date()) == 0
