"""Named filters of the stored rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from telemetry_app.health import worker_health
from telemetry_app.models import Operation, Sample, Worker
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, START, op, sample_failure, sample_group

pytestmark = pytest.mark.django_db
NOW = datetime.fromtimestamp(START, UTC)


def make_worker(name, age_seconds, *, interval_seconds=5.0, **fields):
    heartbeat_at = NOW - timedelta(seconds=age_seconds)
    return Worker.objects.create(
        worker=name, role="trainer", last_heartbeat_at=heartbeat_at, interval_seconds=interval_seconds, **fields
    )


@pytest.mark.parametrize("interval_seconds", [0.5, 5.0, 60.0])
@pytest.mark.parametrize("intervals", [-10, 0, 2.99, 3, 3.01, 11.99, 12, 12.01, 1_000])
@pytest.mark.parametrize("exited", [False, True])
def test_the_health_of_a_row_is_that_of_the_rule(interval_seconds, intervals, exited):
    age_seconds = intervals * interval_seconds
    make_worker("w", age_seconds, interval_seconds=interval_seconds, exited_at=NOW if exited else None)
    expected = worker_health(
        heartbeat_at=START - age_seconds, interval_seconds=interval_seconds, exited=exited, now=START
    )
    assert Worker.objects.with_health(NOW).get().health == expected.value


@pytest.mark.parametrize(
    ("offset_seconds", "expected"), [(0.0, "alive"), (14.0, "late"), (3_600.0, "lost"), (-3.0, "alive")]
)
def test_the_health_of_a_row_is_told_on_the_clock_of_redis(offset_seconds, expected):
    make_worker("w", 2, record={"clock_offset_seconds": offset_seconds})
    assert Worker.objects.with_health(NOW).get().health == expected


@pytest.fixture
def records(writer):
    writer.operations(
        op(at=START, id="w:1", step=1),
        op(at=START + 1, id="w:2", step=2, status="failed"),
        op(at=START + 2, id="w:3", step=3, status="cancelled"),
        op(at=START, id="b:1", step=2, run_id="run-b"),
    )
    writer.samples(sample_group(at=START), sample_failure(at=START, id="s:1"), sample_failure(at=START, run_id="run-b"))
    take_snapshot(now=NOW + timedelta(seconds=10))


def test_failed_ops_are_neither_cancelled_nor_succeeded(records):
    assert [row.record_id for row in Operation.objects.failed()] == ["w:2"]


def test_failed_samples_of_a_run_are_its_failed_answers(records):
    assert [row.record_id for row in Sample.objects.of_run(RUN).failed()] == ["s:1"]
