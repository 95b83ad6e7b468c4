"""The Celery shells round the services."""

from __future__ import annotations

import json
import logging
import time

import pytest
from django_celery_beat.models import PeriodicTask

from telemetry_app import tasks
from telemetry_app.models import Execution, Operation, Run
from tests.support.records import op, worker
from workers_client.wire_worker import OutstandingWork

pytestmark = pytest.mark.django_db


def test_the_snapshot_task_takes_what_is_new(writer):
    writer.operations(op(at=time.time()))
    assert tasks.snapshot()["rows_written"] == 1
    assert Operation.objects.count() == 1


@pytest.fixture
def queued(monkeypatch):
    """What the snapshot leaves to other tasks, in place of a broker: arguments and options of each."""
    calls = []
    monkeypatch.setattr(tasks.snapshot_part, "apply_async", lambda args, **options: calls.append((args, options)))
    return calls


def many_runs(writer, count, *, at):
    for number in range(count):
        writer.operations(op(at=at, id=f"w:{number + 1}", run_id=f"run-{number:02}"))


def test_many_runs_are_left_to_tasks_on_any_worker_and_the_last_one_finishes(writer, queued):
    many_runs(writer, 12, at=time.time())
    assert tasks.snapshot()["rows_written"] == 0
    parts = [(len(arguments[1]["run_ids"]), len(arguments[1]["split_run_ids"])) for arguments, _ in queued]
    assert parts == [(5, 0), (5, 0), (2, 0), (0, 5), (0, 5), (0, 2)]  # all records before any step
    assert all(options["expires"] >= tasks.PART_EXPIRES_SECONDS for _, options in queued)
    for arguments, _ in reversed(queued):
        execution = Execution.objects.get()
        assert execution.finished_at is None
        tasks.snapshot_part(*json.loads(json.dumps(arguments)))
    execution = Execution.objects.get()
    assert (execution.parts_open, execution.rows_written, execution.runs_count) == (0, 12, 12)
    assert execution.finished_at is not None
    assert Operation.objects.count() == 12


def test_a_run_without_records_is_judged_by_what_ops_take_in_runs_of_other_parts(writer, queued):
    now = time.time()
    for number in range(20):
        slow = op(at=now - number, id=f"w:{number + 1}", run_id=f"run-{number:02}", elapsed_seconds=60.0)
        writer.operations(slow)
    work = OutstandingWork(
        run_id="young", operation="forward_backward", count=1, oldest_at=now - 100, request_ids=("r",)
    )
    writer.workers(worker(at=now, runs=("young",), outstanding=(work,)))
    writer.ledger("young", enqueued=1, popped=1)
    writer.active("young", now - 100)
    tasks.snapshot()
    assert [arguments[1]["run_ids"] for arguments, _ in queued if "young" in arguments[1]["run_ids"]] == [["young"]]
    for arguments, _ in queued:
        tasks.snapshot_part(*arguments)
    assert Run.objects.get(run_id="young").state != "stuck"  # it would be after 60 s, and is after 300


@pytest.mark.parametrize("oldest", ["run-00", "run-11"])
def test_the_lag_of_an_execution_is_that_of_the_record_that_waited_longest(writer, queued, oldest):
    writer.operations(op(at=time.time() - 50, id="w:0", run_id=oldest))
    many_runs(writer, 12, at=time.time())
    tasks.snapshot()
    for arguments, _ in queued:
        tasks.snapshot_part(*arguments)
    assert 45 < Execution.objects.get().lag_seconds < 200


def test_a_part_that_is_delivered_twice_does_no_harm(writer, queued):
    many_runs(writer, 25, at=time.time())
    tasks.snapshot()
    for arguments, _ in (*queued, queued[0]):
        tasks.snapshot_part(*arguments)
    execution = Execution.objects.get()
    assert (execution.parts_open, execution.rows_written, execution.error) == (0, 25, "")


def test_a_part_that_fails_is_counted_with_its_reason_and_the_others_stand(writer, queued, redis_out_later):
    many_runs(writer, 12, at=time.time())
    tasks.snapshot()
    for arguments, _ in queued[:2]:
        tasks.snapshot_part(*arguments)
    redis_out_later()
    for arguments, _ in queued[2:]:
        tasks.snapshot_part(*arguments)
    execution = Execution.objects.get()
    assert (execution.parts_open, execution.rows_written) == (0, 10)
    assert execution.error.startswith("LiveDataUnavailableError")


@pytest.fixture
def redis_out_later(point_site_at, tmp_path):
    """A function after whose call Redis is out."""
    return lambda: point_site_at(f"unix://{tmp_path}/nothing.sock?db=0")


def test_a_run_whose_list_would_overflow_before_the_next_snapshot_is_taken_again_before(writer, queued, settings):
    settings.TELEMETRY_SNAPSHOT_INTERVAL_SECONDS = 60
    PeriodicTask.objects.all().delete()
    now = time.time()
    writer.operations(*[op(at=now - 4 + number / 250, id=f"w:{number + 1}") for number in range(1_000)])
    tasks.snapshot()
    [(arguments, options)] = queued
    execution_id, part, until = arguments
    assert (execution_id, part["run_ids"], part["workloads"]) == (None, ["run-a"], [])
    assert 3 < options["countdown"] < 5  # 250 records a second fill half of 2,000 in 4 s
    assert now + 55 < until < now + 65
    tasks.snapshot_part(*arguments)
    assert len(queued) == 1  # nothing new: nothing to hurry for


def test_a_run_that_gives_time_until_the_next_snapshot_is_not_taken_before(writer, queued):
    now = time.time()
    writer.operations(*[op(at=now - 100 + number / 10, id=f"w:{number + 1}") for number in range(1_000)])
    tasks.snapshot()
    assert queued == []


def test_an_outage_of_redis_is_one_line_and_no_failed_task(redis_out, caplog):
    with caplog.at_level(logging.WARNING):
        assert tasks.snapshot() == {}
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["snapshot left out"]
    assert Execution.objects.get().error.startswith("LiveDataUnavailableError")


def test_the_retention_task_removes_what_is_old(writer):
    assert tasks.retention()["rows_removed"] == 0
    assert set(Execution.objects.values_list("task", flat=True)) == {"retention"}


def test_a_retention_that_ran_out_of_time_queues_another(writer, monkeypatch):
    queued = []
    monkeypatch.setattr(tasks, "RETENTION_BUDGET_SECONDS", 0.0)
    monkeypatch.setattr(tasks.retention, "apply_async", lambda **options: queued.append(options))
    assert not tasks.retention()["is_complete"]
    assert queued == [{"countdown": tasks.RETENTION_PAUSE_SECONDS}]


@pytest.mark.parametrize("task", [tasks.snapshot, tasks.retention])
def test_a_task_answers_in_json(writer, task):
    assert json.loads(json.dumps(task()))


@pytest.mark.parametrize("task", [tasks.snapshot, tasks.snapshot_part, tasks.retention])
def test_a_task_is_acknowledged_when_done_and_ends_in_time(task, settings):
    assert task.acks_late
    assert task.soft_time_limit < task.time_limit <= settings.CELERY_TASK_TIME_LIMIT
    assert task.time_limit < settings.CELERY_BROKER_TRANSPORT_OPTIONS["visibility_timeout"]
