"""Totals count each record once whatever happens in between, never go back, and have few labels."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from telemetry_app import metric_totals, run_snapshot
from telemetry_app.metric_growth import COLUMNS, MOST_OF_ONE_RECORD, OTHER, Growth, Kind
from telemetry_app.models import ListCursor, MetricTotal, Operation, Run, StepTime
from telemetry_app.retention import apply_retention
from tests.support.records import RUN, START, op, sample_failure, sample_group, step_of_ops, turn, worker
from tests.support.scraping import scraped
from tests.support.snapshots import DEADLINE_SECONDS, all_at_once, snapshot
from workers_client import wire
from workers_client.wire import OPTIM_STEP

pytestmark = pytest.mark.django_db
DAY = 86_400.0


def count(operation=wire.FORWARD_BACKWARD, status="succeeded"):
    return scraped().value("openrl_operations_total", operation=operation, status=status)


# --- What is counted ------------------------------------------------------------------------------------------
def test_ops_are_counted_by_op_and_status_with_their_seconds_and_tokens(writer):
    writer.operations(
        op(at=START, elapsed_seconds=2.0, queue_seconds=0.5, tokens=100),
        op(at=START + 1, elapsed_seconds=30.0, queue_seconds=1.5, tokens=50, status="failed"),
        op(at=START + 2, status="cancelled"),
        op(OPTIM_STEP, at=START + 3, elapsed_seconds=0.05, run_id="run-b"),
    )
    snapshot()
    metrics = scraped()
    counts = {s: count(status=s) for s in ("succeeded", "failed", "cancelled")} | {"optim": count(OPTIM_STEP)}
    assert counts == {"succeeded": 1, "failed": 1, "cancelled": 1, "optim": 1}
    labels = {"operation": "forward_backward"}
    assert metrics.value("openrl_operation_seconds_count", **labels) == 2
    assert metrics.value("openrl_operation_seconds_sum", **labels) == 32.0
    buckets = {le: metrics.value("openrl_operation_seconds_bucket", le=le, **labels) for le in ("1.0", "3.0", "30.0")}
    assert buckets == {"1.0": 0, "3.0": 1, "30.0": 2}
    assert metrics.value("openrl_operation_queue_seconds_total", **labels) == 2.0
    assert metrics.value("openrl_operation_tokens_total", **labels) == 150
    assert metrics.value("openrl_records_stored_total", kind="operation") == 4


def test_sampling_answers_are_counted_as_requests_not_as_records(writer):
    writer.samples(
        sample_failure(at=START), sample_group(at=START, count=7, seconds_sum=70.0, tokens_sum=900),
        sample_group(at=START + 1, count=5),
    )  # fmt: skip
    snapshot()
    metrics = scraped()
    assert metrics.of("openrl_sample_answers_total", "status") == {"answered": 12, "failed": 1}
    assert metrics.value("openrl_sample_seconds_total") == 70.0
    assert metrics.value("openrl_sample_tokens_total") == 900
    assert metrics.value("openrl_records_stored_total", kind="sample") == 3


def test_turns_are_counted_by_workload_with_wait_and_hold(writer):
    writer.turns(
        turn(at=START, started_at=START - 4, requested_at=START - 9), turn(at=START + 8, started_at=START),
        turn(at=START + 9, started_at=START + 8, workload="workload-2"),
    )  # fmt: skip
    snapshot()
    metrics = scraped()
    assert metrics.of("openrl_gpu_turns_total", "workload") == {"workload-1": 2, "workload-2": 1}
    assert metrics.of("openrl_gpu_hold_seconds_total", "workload") == {"workload-1": 12.0, "workload-2": 1.0}
    assert metrics.of("openrl_gpu_wait_seconds_total", "workload") == {"workload-1": 5.0}


def put_step(writer, step, at):
    writer.operations(
        op(at=at + 4, step=step, started_at=at, elapsed_seconds=4.0, enqueued_at=at),
        op(OPTIM_STEP, at=at + 5, step=step, started_at=at + 4, elapsed_seconds=1.0),
    )


def test_a_step_is_counted_once_with_its_parts_though_it_is_split_again(writer):
    for step in range(3):
        put_step(writer, step, START + 10 * step)
    snapshot(after_seconds=25)
    assert scraped().value("openrl_step_seconds_count") == 0  # their workers may have more to tell
    snapshot(after_seconds=90)
    put_step(writer, 3, START + 60)
    snapshot(after_seconds=130)
    assert StepTime.objects.filter(kept_at=_at(130)).count() == 4
    metrics = scraped()
    assert metrics.value("openrl_step_seconds_count") == 4
    assert metrics.value("openrl_step_seconds_sum") == pytest.approx(65.0)
    parts = metrics.of("openrl_step_part_seconds_total", "part")
    assert parts["training"] == pytest.approx(20.0)
    assert sum(parts.values()) == pytest.approx(65.0)


def test_losses_are_counted_when_they_are_noticed(writer):
    first = op(at=START)
    writer.operations(first)
    writer.raw_operations(RUN, b"{", active_at=START)
    writer.ledger(recorded=4)
    snapshot()
    writer.operations(op(at=START + 5, id=first.id))
    writer.ledger(recorded=5)
    snapshot(after_seconds=20)
    metrics = scraped()
    assert metrics.value("openrl_records_malformed_total") == 1
    assert metrics.value("openrl_records_missing_total") == 3
    assert metrics.value("openrl_records_conflicting_total") == 1
    assert count() == 1


def test_what_workers_dropped_is_counted_as_it_grows(writer):
    def say(at, dropped, name="w-1"):
        writer.workers(worker(name, at=at, buffer={"dropped": dropped}))
        snapshot(after_seconds=at - START + 1)

    say(START, {"operation": {"queue_full": 5}})
    say(START + 5, {"operation": {"queue_full": 7}, "gpu_turn": {"exit": 1, "made up": 2}, "made up": {"exit": 4}})
    snapshot(after_seconds=8)  # the same record again
    say(START + 9, {"operation": {"queue_full": 1}}, name="w-2")
    say(START + 12, "nonsense")
    metrics = scraped()
    assert metrics.value("openrl_records_dropped_total", kind="operation", reason="queue_full") == 8
    assert metrics.value("openrl_records_dropped_total", kind="gpu_turn", reason="exit") == 1
    assert metrics.value("openrl_records_dropped_total", kind="gpu_turn", reason="other") == 2
    assert metrics.value("openrl_records_dropped_total", kind="other", reason="exit") == 4


# --- Each record once -----------------------------------------------------------------------------------------
def test_records_that_are_read_again_count_once(writer):
    writer.operations(*step_of_ops(0, at=START))
    writer.samples(sample_group(at=START, count=7))
    writer.turns(turn(at=START))
    snapshot()
    ListCursor.objects.all().delete()
    writer.operations(op(at=START + 5, step=1))
    writer.samples(sample_group(at=START + 5, count=5))
    writer.turns(turn(at=START + 5))
    snapshot(after_seconds=20)
    metrics = scraped()
    assert (count(), count(OPTIM_STEP)) == (2, 1)
    assert metrics.value("openrl_sample_answers_total", status="answered") == 12
    assert metrics.of("openrl_gpu_turns_total", "workload") == {"workload-1": 2}


def test_a_snapshot_that_fails_counts_nothing_and_the_next_one_all(writer, monkeypatch):
    writer.operations(*step_of_ops(0, at=START))

    add_totals = metric_totals.add

    def add_and_fail(growth, now):
        add_totals(growth, now)
        if growth.rows:
            raise ValueError("in between")

    with monkeypatch.context() as patch:
        patch.setattr(metric_totals, "add", add_and_fail)
        assert snapshot().failed_runs == 1
    assert (Run.objects.count(), count()) == (0, 0)
    snapshot(after_seconds=20)
    assert count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_that_add_to_the_same_totals_wait_for_each_other_in_one_order():
    """Whoever came to `b` first would wait for `a`, and the other one for `b`."""
    errors = []
    thread = threading.Thread(target=lambda: errors.extend(all_at_once(1, lambda: add(Kind.TURNS, "b", "a"))))
    with transaction.atomic():
        add(Kind.TURNS, "a")
        thread.start()
        wait_for_a_waiting_session()
        add(Kind.TURNS, "b")
    thread.join(DEADLINE_SECONDS)
    assert errors == []
    assert {label: row["turns"] for label, row in labels_of(Kind.TURNS).items()} == {"a": 2, "b": 2}


def wait_for_a_waiting_session():
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone()[0]:
                return
        time.sleep(0.02)
    raise AssertionError("nobody waits")


def test_what_retention_removes_stays_counted(writer):
    writer.operations(*step_of_ops(0, at=START - 20 * DAY))
    snapshot()
    apply_retention()
    assert (Operation.objects.count(), count()) == (0, 1)


def test_a_snapshot_with_nothing_new_changes_no_total(writer):
    writer.operations(*step_of_ops(0, at=START))
    snapshot()
    before = dict(MetricTotal.objects.values_list("label", "changed_at"))
    snapshot(after_seconds=20)
    assert dict(MetricTotal.objects.values_list("label", "changed_at")) == before


def test_a_run_adds_to_all_totals_in_one_statement(writer):
    writer.operations(*(op(name, at=START) for name in ("forward", "forward_backward", "optim_step", "save_state")))
    writer.samples(sample_group(at=START), sample_failure(at=START))
    with CaptureQueriesContext(connection) as queries:
        snapshot()
    statements = [query["sql"] for query in queries if "metrictotal" in query["sql"]]
    assert len(statements) == 1


# --- Labels ---------------------------------------------------------------------------------------------------
def add(kind, *labels, after_seconds=0.0):
    growth = Growth()
    for label in labels:
        growth.row(kind, label)[COLUMNS[kind][0]] += 1
    metric_totals.add(growth, _at(after_seconds))


def labels_of(kind, after_seconds=0.0):
    return metric_totals.stored_totals(_at(after_seconds))[kind]


def _at(after_seconds):
    return run_snapshot.from_unix(START + after_seconds)


def test_names_beyond_the_most_count_as_other(monkeypatch):
    monkeypatch.setattr(metric_totals, "MOST_OTHERS", {Kind.TURNS: 3})
    add(Kind.TURNS, "a", "b")
    add(Kind.TURNS, "c", "d", "e")
    add(Kind.TURNS, "a", "d", after_seconds=5)
    turns = {label: row["turns"] for label, row in labels_of(Kind.TURNS).items()}
    assert turns == {"a": 2, "b": 1, "c": 1, OTHER: 3}


def test_known_ops_have_totals_of_their_own_whatever_else_there_is(monkeypatch):
    monkeypatch.setattr(metric_totals, "MOST_OTHERS", {Kind.OPERATION: 1})
    add(Kind.OPERATION, *(f"made-up-{n}" for n in range(50)))
    add(Kind.OPERATION, "optim_step")
    assert {label: row["succeeded"] for label, row in labels_of(Kind.OPERATION).items()} == {
        "made-up-0": 1, OTHER: 49, "optim_step": 1,
    }  # fmt: skip


def test_a_name_out_of_use_makes_room_and_goes_on_where_it_was_left(monkeypatch):
    monkeypatch.setattr(metric_totals, "MOST_OTHERS", {Kind.TURNS: 1})
    add(Kind.TURNS, "old")
    add(Kind.TURNS, "new", after_seconds=8 * DAY)
    assert set(labels_of(Kind.TURNS, 8 * DAY)) == {"new"}
    add(Kind.TURNS, "old", after_seconds=9 * DAY)
    assert {label: row["turns"] for label, row in labels_of(Kind.TURNS, 9 * DAY).items()} == {"new": 1, OTHER: 1}
    add(Kind.TURNS, "old", after_seconds=30 * DAY)
    assert {label: row["turns"] for label, row in labels_of(Kind.TURNS, 30 * DAY).items()} == {"old": 2, OTHER: 1}


def test_long_names_are_cut_and_count_together():
    add(Kind.TURNS, "x" * 500, "x" * 501)
    assert {label: row["turns"] for label, row in labels_of(Kind.TURNS).items()} == {"x" * 100: 2}


# --- Hostile and older values ---------------------------------------------------------------------------------
def test_no_single_record_stops_a_total_from_growing(writer):
    writer.operations(op(at=START, elapsed_seconds=1e300, tokens=2**53, queue_seconds=1e200))
    snapshot()
    writer.operations(op(at=START + 1, elapsed_seconds=0.5, tokens=1))
    snapshot(after_seconds=20)
    metrics = scraped()
    labels = {"operation": wire.FORWARD_BACKWARD}
    assert metrics.value("openrl_operation_seconds_sum", **labels) == MOST_OF_ONE_RECORD + 0.5
    assert metrics.value("openrl_operation_tokens_total", **labels) == MOST_OF_ONE_RECORD + 1


def test_rows_of_a_newer_version_are_neither_in_the_way_nor_lost():
    MetricTotal.objects.create(kind="newer", label="w", totals=[1.0], changed_at=_at(0))
    MetricTotal.objects.create(kind=Kind.TURNS, label="w", totals=[1.0, 2.0, 3.0, 4.0], changed_at=_at(0))
    add(Kind.TURNS, "w", after_seconds=1)
    assert labels_of(Kind.TURNS) == {"w": {"turns": 2.0, "hold_seconds": 2.0, "wait_seconds": 3.0}}
    assert MetricTotal.objects.get(kind=Kind.TURNS).totals == [2.0, 2.0, 3.0, 4.0]


def test_a_row_of_fewer_columns_grows_to_all_of_them():
    MetricTotal.objects.create(kind=Kind.TURNS, label="w", totals=[4.0], changed_at=_at(0))
    assert labels_of(Kind.TURNS) == {"w": {"turns": 4.0, "hold_seconds": 0.0, "wait_seconds": 0.0}}
    growth = Growth()
    growth.add_turns("w", [turn(at=START, requested_at=START - 3)])
    metric_totals.add(growth, _at(1))
    assert labels_of(Kind.TURNS) == {"w": {"turns": 5.0, "hold_seconds": 1.0, "wait_seconds": 2.0}}
