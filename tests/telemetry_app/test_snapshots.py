"""What is new in Redis gets into PostgreSQL once, whatever happens in between."""

from __future__ import annotations

import gc
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from telemetry_app import locks, readers, run_snapshot
from telemetry_app.exceptions import LiveDataUnavailableError
from telemetry_app.models import Execution, ListCursor, Operation, Run, Sample, Turn, Worker
from tests.support.records import (
    RUN,
    START,
    foreign_op,
    op,
    sample_failure,
    sample_group,
    step_of_ops,
    turn,
    worker,
)
from tests.support.snapshots import snapshot, stored_ids
from workers_client import wire
from workers_client.codec import encode_object
from workers_client.wire import OPTIM_STEP, TurnOp
from workers_client.wire_worker import CurrentTurn

pytestmark = pytest.mark.django_db


# --- What is stored -------------------------------------------------------------------------------------------
def test_an_op_record_is_stored_field_by_field(writer):
    record = op(
        OPTIM_STEP, at=START, step=7, role="trainer", enqueued_at=START - 9, queue_seconds=2.5, started_at=START - 5,
        elapsed_seconds=5.0, metrics={"loss:sum": 1.5}, nonfinite={"grad_norm": "nan"}, tokens=100, datums=4,
        batch="b1", trace_id="t", span_id="s", status="failed", error_type="ValueError", error_category="user",
    )  # fmt: skip
    writer.operations(record)
    snapshot()
    row = Operation.objects.get()
    stored = {name: getattr(row, name) for name in record.__dataclass_fields__ if hasattr(row, name) and name != "id"}
    instants = {
        name: datetime.fromtimestamp(getattr(record, name), UTC) for name in ("at", "enqueued_at", "started_at")
    }
    expected = {name: getattr(record, name) for name in stored} | instants
    assert stored == expected
    assert row.record_id == record.id


def test_sampling_records_are_stored_by_kind(writer):
    writer.samples(
        sample_failure(at=START, accepted_at=START - 3, source="deadline", error_type="TimeoutError"),
        sample_group(at=START + 1, count=7, seconds_sum=70.0, seconds_max=20.0, tokens_sum=900, busy_seconds=30.0),
    )
    snapshot()
    failure, group = Sample.objects.order_by("at")
    assert (failure.kind, failure.source, failure.error_type, failure.count) == (
        "failure",
        "deadline",
        "TimeoutError",
        1,
    )
    assert (group.kind, group.count, group.seconds_sum, group.tokens_sum) == ("group", 7, 70.0, 900)


def test_turns_are_stored_with_the_runs_that_ran_in_them(writer):
    ops = (
        TurnOp("wake_up", START - 5, START - 4),
        TurnOp("sample", START - 4, START, 3, run_id="b"),
        TurnOp("x", 1.0, 2.0, run_id="a"),
    )
    writer.turns(turn(at=START, ops=ops, requested_at=START - 9, node="node-1"))
    snapshot()
    row = Turn.objects.get()
    assert (row.workload, row.node, row.runs) == ("workload-1", "node-1", ["a", "b"])
    assert [entry["name"] for entry in row.ops] == ["wake_up", "sample", "x"]


def test_a_workers_newest_record_is_kept(writer):
    writer.workers(worker(at=START, phase="idle"))
    snapshot()
    writer.workers(worker(at=START + 5, phase="running", pid=7))
    snapshot(after_seconds=20)
    row = Worker.objects.get()
    assert (row.phase, row.pid, row.last_heartbeat_at.timestamp()) == ("running", 7, START + 5)
    assert row.record["phase"] == "running"


def test_an_older_record_of_a_worker_changes_nothing(writer):
    writer.workers(worker(at=START + 5, phase="running"))
    snapshot()
    writer.workers(worker(at=START, phase="idle"))
    snapshot(after_seconds=20)
    assert Worker.objects.get().phase == "running"


def test_a_run_has_the_sums_of_its_records(writer):
    writer.operations(*step_of_ops(0, at=START), op(at=START + 1, step=1, status="failed"))
    writer.samples(sample_failure(at=START), sample_group(at=START, count=7), sample_group(at=START + 1, count=5))
    writer.ledger(enqueued=9, popped=8, answered=7, delivered=6, failed=1, recorded=3, samples_recorded=3)
    writer.steps(1, finished_at=(START - 60, START))
    snapshot()
    run = Run.objects.get()
    assert (run.operations_count, run.failures_count) == (3, 2)
    assert (run.samples_answered, run.samples_failed, run.sample_records_count) == (12, 1, 3)
    assert (run.enqueued, run.popped, run.answered, run.delivered, run.failed) == (9, 8, 7, 6, 1)
    assert (run.recorded, run.samples_recorded, run.missing_records, run.malformed_count) == (3, 3, 0, 0)
    assert (run.steps_completed, run.steps_per_hour) == (1, 60.0)
    assert run.last_activity_at.timestamp() == START + 1


def test_records_of_openrl_itself_are_numbered_through_all_snapshots(writer):
    def step(at):
        return [foreign_op(at=at, request_id=f"f{at}"), foreign_op(OPTIM_STEP, at=at + 1, request_id=f"o{at}")]

    writer.operations(*step(START), *step(START + 10))
    snapshot(after_seconds=15)
    writer.operations(*step(START + 20))
    snapshot(after_seconds=25)
    assert list(Operation.objects.order_by("at").values_list("step", flat=True)) == [0, 0, 1, 1, 2, 2]
    assert Run.objects.get().steps_completed == 3


def test_an_op_of_openrl_itself_names_its_pod_as_worker(writer):
    writer.operations(foreign_op(at=START, pod="pod-9"))
    snapshot()
    assert Operation.objects.get().worker == "pod-9"


# --- Each record once -----------------------------------------------------------------------------------------
def test_a_second_snapshot_of_the_same_changes_nothing(writer):
    writer.operations(*step_of_ops(0, at=START))
    writer.samples(sample_group(at=START, count=7), sample_failure(at=START))
    writer.turns(turn(at=START))
    writer.ledger(enqueued=4, answered=4)
    snapshot()
    before = Run.objects.values().get() | {"snapshot_lag_records": 0, "snapshot_lag_seconds": 0.0}
    summary = snapshot()
    assert summary.rows_written == 0
    assert (Operation.objects.count(), Sample.objects.count(), Turn.objects.count()) == (2, 2, 1)
    assert Run.objects.values().get() == before


def test_the_next_snapshot_takes_what_came_since(writer):
    writer.operations(*step_of_ops(0, at=START))
    snapshot()
    writer.operations(*step_of_ops(1, at=START + 15))
    summary = snapshot(after_seconds=20)
    assert (summary.runs_count, summary.rows_written) == (1, 2)
    assert Run.objects.get().operations_count == 4


def test_a_record_delivered_again_is_stored_once_as_it_was_first(writer):
    first = op(at=START, id="w:1", elapsed_seconds=1.0)
    writer.operations(first)
    snapshot()
    writer.operations(op(at=START, id="w:1", elapsed_seconds=9.0), op(at=START + 1, id="w:2"))
    summary = snapshot(after_seconds=20)
    assert stored_ids() == ["w:1", "w:2"]
    assert Operation.objects.get(record_id="w:1").elapsed_seconds == 1.0
    assert (Run.objects.get().operations_count, summary.rows_written) == (2, 1)


def test_a_record_delivered_again_with_another_finish_time_is_stored_once(writer):
    writer.operations(op(at=START, id="w:1"), op(at=START + 1, id="w:2"))
    snapshot()
    writer.operations(op(at=START + 3, id="w:1"), op(at=START + 4, id="w:3"))
    snapshot(after_seconds=20)
    assert Run.objects.get().operations_count == 3
    assert stored_ids() == ["w:1", "w:2", "w:3"]


def test_a_batch_delivered_again_behind_records_of_another_worker_hides_none(writer):
    batch = [op(at=START + n, id=f"a:{n}") for n in range(3)]
    writer.operations(*batch)
    snapshot()
    writer.operations(op(at=START + 5, id="b:1"), *batch)
    snapshot(after_seconds=20)
    assert stored_ids() == ["a:0", "a:1", "a:2", "b:1"]
    assert snapshot(after_seconds=30).rows_written == 0


def test_two_runs_may_hold_records_of_one_id(writer):
    writer.operations(op(at=START, id="w:1"), op(at=START, id="w:1", run_id="run-b"))
    snapshot()
    assert Operation.objects.filter(record_id="w:1").count() == 2


def test_records_of_a_redis_that_was_emptied_and_filled_again_are_stored_once(writer):
    records = step_of_ops(0, at=START)
    writer.operations(*records)
    snapshot()
    writer.client.flushdb()
    writer.operations(records[1], *step_of_ops(1, at=START + 15))
    snapshot(after_seconds=20)
    assert Operation.objects.count() == 4
    assert Run.objects.get().operations_count == 4


def test_a_ledger_that_started_again_adds_to_the_totals(writer):
    writer.ledger(enqueued=100, answered=90)
    writer.active(RUN, START)
    snapshot()
    writer.client.flushdb()
    writer.ledger(enqueued=7, answered=5)
    writer.active(RUN, START + 15)
    snapshot(after_seconds=20)
    run = Run.objects.get()
    assert (run.enqueued, run.answered) == (107, 95)


def test_steps_completed_never_fall_when_redis_came_back_empty(writer):
    writer.steps(50)
    writer.active(RUN, START)
    snapshot()
    writer.client.flushdb()
    writer.operations(op(at=START + 15, step=50))
    snapshot(after_seconds=20)
    assert Run.objects.get().steps_completed == 50


# --- Two at once, and one that dies ---------------------------------------------------------------------------
def interrupted_by(monkeypatch, interruption):
    """Let something happen between the moment a run is read and the moment it is taken."""
    original, calls = locks.take_until_commit, []

    def lock(name):
        if name == f"run:{RUN}" and not calls:
            calls.append(name)
            interruption()
        return original(name)

    monkeypatch.setattr(locks, "take_until_commit", lock)


def test_a_snapshot_overtaken_by_another_counts_no_request_twice(writer, monkeypatch):
    writer.active(RUN, START)
    writer.ledger(enqueued=10, answered=10)
    snapshot()

    def overtake():
        writer.ledger(enqueued=15, answered=14)
        snapshot(after_seconds=30)

    writer.ledger(enqueued=12, answered=11)
    interrupted_by(monkeypatch, overtake)
    snapshot(after_seconds=20)
    run = Run.objects.get()
    assert (run.enqueued, run.answered) == (15, 14)


def test_a_snapshot_overtaken_by_another_stores_no_record_twice(writer, monkeypatch):
    writer.operations(*step_of_ops(0, at=START))

    def overtake():
        writer.operations(*step_of_ops(1, at=START + 5))
        snapshot()

    interrupted_by(monkeypatch, overtake)
    snapshot()
    assert Operation.objects.count() == 4
    assert Run.objects.get().operations_count == 4


def test_a_run_that_another_snapshot_holds_is_left_to_it(writer, monkeypatch):
    writer.operations(op(at=START))
    monkeypatch.setattr(locks, "take_until_commit", lambda name: False)
    summary = snapshot()
    assert (summary.skipped_runs, summary.runs_count) == (1, 0)
    assert not Operation.objects.exists()


class Killed(BaseException):
    """The process ends here: nothing catches it."""


@pytest.mark.parametrize(
    "place",
    [
        "_store_operations",
        "_store_samples",
        "step_changes",
        "store_changes",
        "_count_requests",
        "_missing_records",
        "_note_gap",
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_snapshot_killed_half_way_leaves_no_half_a_run(writer, monkeypatch, place, when):
    writer.operations(*step_of_ops(0, at=START))
    writer.samples(sample_group(at=START, count=7))
    writer.turns(turn(at=START))
    writer.ledger(enqueued=4, answered=4)
    original = getattr(run_snapshot, place)

    def killed(*arguments):
        if when == "after":
            original(*arguments)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(run_snapshot, place, killed)
        with pytest.raises(Killed):
            snapshot()
    done = (Operation.objects.count(), Sample.objects.count(), Run.objects.count(), Turn.objects.count())
    assert done in {(0, 0, 0, 1), (2, 1, 1, 1)}  # turns are taken first, on their own
    snapshot(after_seconds=20)
    run = Run.objects.get()
    assert (run.operations_count, run.samples_answered, run.enqueued) == (2, 7, 4)
    assert (Operation.objects.count(), Sample.objects.count(), Turn.objects.count()) == (2, 1, 1)


def test_an_outage_in_the_middle_keeps_the_runs_taken_before(writer, monkeypatch):
    writer.operations(op(at=START, id="a:1"), op(at=START + 1, id="b:1", run_id="run-b"))
    original = readers.read_list_after

    def out(key, *arguments, **fields):
        if key == wire.operations_key(RUN):
            raise LiveDataUnavailableError("out")
        return original(key, *arguments, **fields)

    with monkeypatch.context() as patch:
        patch.setattr(readers, "read_list_after", out)
        with pytest.raises(LiveDataUnavailableError):
            snapshot()
    assert stored_ids() == ["b:1"]
    snapshot(after_seconds=20)
    assert stored_ids() == ["a:1", "b:1"]


# --- One bad apple --------------------------------------------------------------------------------------------
def test_counts_beyond_what_a_column_holds_stop_at_its_end(writer):
    group = {"kind": "group", "at": START, "count": 2**53}
    for number in range(1_100):
        writer.client.rpush(wire.samples_key(RUN), encode_object(group | {"id": f"w:{number}"}))
    writer.active(RUN, START)
    snapshot()
    assert Run.objects.get().samples_answered == 2**63 - 1


def test_a_run_that_cannot_be_stored_leaves_the_others_alone(writer, monkeypatch):
    for run in ("run-a", "run-b", "run-c"):
        writer.operations(op(at=START, id=f"{run}:1", run_id=run))
    original = run_snapshot._store_operations

    def failing(run, *arguments):
        if run.run_id == "run-b":
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 / 0")
        return original(run, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(run_snapshot, "_store_operations", failing)
        summary = snapshot()
    assert stored_ids() == ["run-a:1", "run-c:1"]
    assert summary.failed_runs == 1
    assert "run-b" in Execution.objects.get().error
    snapshot(after_seconds=20)
    assert stored_ids() == ["run-a:1", "run-b:1", "run-c:1"]


def test_hostile_names_and_scores_stop_no_snapshot(writer):
    writer.client.zadd(wire.RUNS_KEY, {"a\x00b": START, "x" * 300: START, "inf": float("inf"), "läuft 🚀" * 40: START})
    writer.client.zadd(wire.WORKLOADS_KEY, {"w\x00": START, "w" * 600: START, "": START})
    for name in ("w\x00", "w" * 600, "", "läuft 🚀"):
        writer.raw_worker(name, {"role": "trainer", "at": START, "settings": {"A": "\x00"}}, heartbeat_at=START)
    writer.client.zadd(wire.WORKERS_KEY, {"läuft 🚀": float("inf")})
    writer.operations(op(at=START, error_type="a\x00b", worker="w\x00", metrics={"a\x00": 1.0}, batch="\x00"))
    snapshot()
    assert stored_ids()
    assert set(Run.objects.values_list("run_id", flat=True)) == {RUN, "inf", "läuft 🚀" * 32} - {"läuft 🚀" * 32} | {
        "inf"
    }
    assert list(Worker.objects.values_list("worker", flat=True)) == ["läuft 🚀"]


# --- Executions and cost --------------------------------------------------------------------------------------
def test_an_execution_tells_what_was_done(writer):
    writer.operations(*step_of_ops(0, at=START))
    writer.raw_operations(RUN, "nonsense", active_at=START)
    summary = snapshot()
    execution = Execution.objects.get()
    assert (execution.task, execution.runs_count, execution.rows_written, execution.malformed_count) == (
        "snapshot",
        1,
        2,
        1,
    )
    assert (execution.error, execution.started_at.timestamp()) == ("", START + 10)
    assert execution.finished_at is not None
    assert summary.counts()["rows_written"] == 2


def test_an_execution_that_failed_says_why(redis_out):
    with pytest.raises(LiveDataUnavailableError):
        snapshot()
    execution = Execution.objects.get()
    assert execution.error.startswith("LiveDataUnavailableError")
    assert execution.finished_at is not None


def queries_of_a_snapshot(after_seconds=10.0):
    with CaptureQueriesContext(connection) as queries:
        snapshot(after_seconds=after_seconds)
    return len(queries)


def test_a_snapshot_of_many_records_takes_as_many_queries_as_of_one(writer):
    writer.operations(op(at=START))
    writer.samples(sample_group(at=START))
    snapshot()
    writer.operations(op(at=START + 11))
    writer.samples(sample_group(at=START + 11))
    one = queries_of_a_snapshot(12)
    writer.operations(*(op(at=START + 12 + n / 100) for n in range(300)))
    writer.samples(*(sample_group(at=START + 12 + n / 100) for n in range(300)))
    assert queries_of_a_snapshot(20) == one


def test_a_snapshot_of_many_workers_takes_as_many_queries_as_of_one(writer):
    snapshot()
    writer.workers(worker("w-0", at=START))
    one = queries_of_a_snapshot()
    writer.workers(*(worker(f"w-{number}", at=START + 1, turn=CurrentTurn("x")) for number in range(50)))
    assert queries_of_a_snapshot() == one


def test_cursors_move_with_the_records(writer):
    writer.operations(*step_of_ops(0, at=START))
    snapshot()
    cursor = ListCursor.objects.get(list_key=wire.operations_key(RUN))
    assert cursor.newest_record_id == Operation.objects.order_by("-at").first().record_id
    assert (cursor.records_taken, cursor.moved_at - timedelta(seconds=10)) == (2, datetime.fromtimestamp(START, UTC))


def test_the_garbage_collector_works_on_after_a_snapshot_whether_it_succeeds_or_fails(writer, monkeypatch):
    writer.operations(op(at=START))
    snapshot()
    assert gc.isenabled()
    writer.operations(op(at=START + 15))
    monkeypatch.setattr(run_snapshot, "_count_requests", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        snapshot(after_seconds=20)
    assert gc.isenabled()
