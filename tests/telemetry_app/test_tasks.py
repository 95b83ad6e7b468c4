"""The Celery shells round the services."""

from __future__ import annotations

import json
import logging
import time

import pytest

from telemetry_app import tasks
from telemetry_app.models import Execution, Operation
from tests.support.records import op

pytestmark = pytest.mark.django_db


def test_the_snapshot_task_takes_what_is_new(writer):
    writer.operations(op(at=time.time()))
    assert tasks.snapshot()["rows_written"] == 1
    assert Operation.objects.count() == 1


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


@pytest.mark.parametrize("task", [tasks.snapshot, tasks.retention])
def test_a_task_is_acknowledged_when_done_and_ends_in_time(task, settings):
    assert task.acks_late
    assert task.soft_time_limit < task.time_limit <= settings.CELERY_TASK_TIME_LIMIT
    assert task.time_limit < settings.CELERY_BROKER_TRANSPORT_OPTIONS["visibility_timeout"]
