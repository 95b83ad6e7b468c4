"""Records older than they are kept go; runs, workers and totals stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from telemetry_app import partitions, retention
from telemetry_app.models import Execution, Operation, Run, Sample, Turn, Worker
from telemetry_app.retention import apply_retention
from telemetry_app.snapshots import take_snapshot
from tests.support.records import START, op, sample_group, turn, worker

pytestmark = pytest.mark.django_db
NOW = datetime.fromtimestamp(START, UTC)
DAY_SECONDS = 86_400.0


@pytest.fixture
def history(writer):
    """A run with one record of each kind on each of 20 days up to now."""
    for days in range(20):
        at = START - days * DAY_SECONDS
        writer.operations(op(at=at))
        writer.samples(sample_group(at=at, count=5))
        writer.turns(turn(at=at))
    writer.workers(worker(at=START - 19 * DAY_SECONDS))
    writer.ledger(enqueued=20, answered=20, recorded=20)
    take_snapshot(now=NOW)
    return writer


def newest_kept(model):
    return sorted({(NOW.date() - row.at.date()).days for row in model.objects.all()})


def test_records_of_days_that_ended_earlier_than_they_are_kept_go(history):
    summary = apply_retention(now=NOW, days=14)
    assert [newest_kept(model) for model in (Operation, Sample, Turn)] == [list(range(15))] * 3
    assert summary.as_dict() == {"cutoff": str(NOW.date() - timedelta(days=14)), "rows_removed": 15}


def test_days_kept_are_those_of_the_settings(history, settings):
    settings.TELEMETRY_RETENTION_DAYS = 3
    apply_retention(now=NOW)
    assert newest_kept(Operation) == [0, 1, 2, 3]


def test_runs_workers_and_totals_stay(history):
    before = Run.objects.values().get()
    apply_retention(now=NOW, days=1)
    assert Run.objects.values().get() == before
    assert (before["operations_count"], before["samples_answered"]) == (20, 100)
    assert Worker.objects.count() == 1


def test_what_was_removed_does_not_come_back_and_is_not_missing(history):
    apply_retention(now=NOW, days=1)
    history.operations(op(at=START + 5))
    history.ledger(recorded=21)
    take_snapshot(now=NOW + timedelta(seconds=10))
    assert newest_kept(Operation) == [0, 1]
    assert (Run.objects.get().operations_count, Run.objects.get().missing_records) == (21, 0)


def test_a_second_retention_removes_nothing(history):
    apply_retention(now=NOW, days=14)
    assert apply_retention(now=NOW, days=14).rows_removed == 0


def test_records_are_stored_after_days_without_any(history):
    later = NOW + timedelta(days=60)
    apply_retention(now=later, days=14)
    assert Operation.objects.count() == 0
    history.operations(op(at=later.timestamp()))
    take_snapshot(now=later + timedelta(seconds=10))
    assert Operation.objects.count() == 1


def test_an_execution_tells_how_many_rows_went(history):
    apply_retention(now=NOW, days=14)
    execution = Execution.objects.get(task="retention")
    assert (execution.rows_removed, execution.error, execution.started_at) == (15, "", NOW)
    assert execution.finished_at is not None


def test_a_retention_that_failed_says_why(history, monkeypatch):
    def fail(*_):
        raise RuntimeError("no lock")

    monkeypatch.setattr(partitions, "drop_before", fail)
    with pytest.raises(RuntimeError):
        apply_retention(now=NOW, days=14)
    assert Execution.objects.get(task="retention").error == "RuntimeError: no lock"


def test_executions_are_kept_a_week():
    for days in (0, 6, 8):
        Execution.objects.create(task="snapshot", started_at=NOW - timedelta(days=days))
    apply_retention(now=NOW, days=14)
    assert Execution.objects.filter(task="snapshot").count() == 2
    assert timedelta(days=7) == retention.EXECUTIONS_KEPT
