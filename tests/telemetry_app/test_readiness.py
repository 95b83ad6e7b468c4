"""The site is ready while its work is done; past their limits, what is late is named."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from telemetry_app import partitions, readiness
from telemetry_app.models import Execution, Operation, RetentionPolicy
from telemetry_app.readiness import check_all, newest_retention_at, snapshot_age_limit_seconds
from telemetry_app.retention import apply_retention
from telemetry_app.schedule import SNAPSHOT_TASK, create_periodic_tasks
from telemetry_app.snapshots import take_snapshot
from tests.support.policies import keep

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_client")]
NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)
ALL = {"redis", "postgres", "partitions", "snapshot", "retention"}


@pytest.fixture
def ready(monkeypatch):
    """A site whose web process started at `NOW`, with a snapshot and a retention of then."""
    monkeypatch.setattr(readiness, "_STARTED_AT", NOW)
    keep(operations=14, worker_events=90)
    RetentionPolicy.objects.update(changed_at=NOW - timedelta(days=30))
    take_snapshot(now=NOW)
    apply_retention(now=NOW)


def failed(*, seconds=0.0):
    """Return the names of what fails so long after `NOW`."""
    return {check.name for check in check_all(now=NOW + timedelta(seconds=seconds)) if not check.is_ok}


def test_a_site_that_does_its_work_is_ready(ready):
    assert {check.name for check in check_all(now=NOW)} == ALL
    assert failed() == set()


@pytest.mark.parametrize(
    ("seconds", "late"), [(119, set()), (121, {"snapshot"}), (3 * 86_400, {"snapshot", "retention"})]
)
def test_what_is_too_old_is_named(ready, seconds, late):
    partitions.ensure_ahead((NOW + timedelta(days=3)).date())
    assert failed(seconds=seconds) == late


def test_the_age_and_its_limit_are_told(ready):
    late = next(check for check in check_all(now=NOW + timedelta(seconds=200)) if check.name == "snapshot")
    assert late.as_dict() == {
        "ok": False, "detail": "the newest snapshot is 3 min 20 s old; the limit is 2 min",
        "last_at": "2027-01-15T08:00:00.000Z", "age_seconds": 200.0, "limit_seconds": 120.0,
    }  # fmt: skip


def test_snapshots_that_fail_are_none(ready):
    Execution.objects.create(task="snapshot", started_at=NOW + timedelta(seconds=190), error="Redis")
    unfinished = Execution.objects.create(task="snapshot", started_at=NOW + timedelta(seconds=190))
    assert failed(seconds=200) == {"snapshot"}
    unfinished.finished_at = NOW + timedelta(seconds=195)
    unfinished.save()
    assert failed(seconds=200) == set()


def test_a_snapshot_that_left_out_one_bad_run_counts(ready):
    at = NOW + timedelta(seconds=190)
    Execution.objects.create(task="snapshot", started_at=at, finished_at=at, error="run-a: DataError", failed_runs=1)
    assert failed(seconds=200) == set()


def test_a_fresh_site_has_time_for_its_first_snapshot_and_retention(monkeypatch):
    monkeypatch.setattr(readiness, "_STARTED_AT", NOW)
    keep(operations=14)
    RetentionPolicy.objects.update(changed_at=NOW)
    partitions.ensure_ahead((NOW + timedelta(days=2)).date())
    partitions.ensure_ahead(NOW.date())
    assert (failed(), failed(seconds=119), failed(seconds=121)) == (set(), set(), {"snapshot"})
    assert failed(seconds=2 * 86_400 + 1) == {"snapshot", "retention"}
    late = {check.name: check.detail for check in check_all(now=NOW + timedelta(days=3))}
    assert late["snapshot"] == "there was no snapshot yet; the limit is 2 min"
    assert late["retention"] == "there was no retention of operations yet; the limit is 2 d"


def test_one_policy_that_fails_each_time_is_named_though_the_others_are_applied(ready):
    later = NOW + timedelta(days=3)
    take_snapshot(now=later)
    apply_retention(now=later)
    Execution.objects.filter(policy="worker_events", started_at__gte=later).update(error="no lock")
    [late] = [check for check in check_all(now=later) if not check.is_ok]
    # Three days less what the retention itself had taken when it came to that policy.
    assert late.name == "retention"
    assert re.fullmatch(r"the newest retention of worker_events is (2 d 23 h|3 d) old; the limit is 2 d", late.detail)


def test_a_policy_that_was_just_changed_has_time(ready):
    later = NOW + timedelta(days=3)
    take_snapshot(now=later)
    RetentionPolicy.objects.update(changed_at=later)
    assert failed(seconds=3 * 86_400) == set()


def test_where_nothing_is_ever_removed_retention_is_not_late(ready, settings):
    settings.TELEMETRY_REDIS_IDLE_DAYS = 0
    keep()
    take_snapshot(now=NOW + timedelta(days=30))
    assert failed(seconds=30 * 86_400) == set()


def test_a_missing_partition_is_named_until_it_is_made(ready):
    name = partitions.partition_name(Operation._meta.db_table, NOW.date() + timedelta(days=1))
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {name}")
    [wrong] = [check for check in check_all(now=NOW) if not check.is_ok]
    assert (wrong.name, wrong.detail) == ("partitions", f"missing: {name}")
    take_snapshot(now=NOW)
    assert failed() == set()


def test_the_newest_retention_of_ops_is_known(ready):
    Execution.objects.create(task="retention", policy="operations", started_at=NOW + timedelta(days=1), error="no lock")
    assert NOW <= newest_retention_at() < NOW + timedelta(minutes=1)


def test_limits_follow_the_schedule_and_the_settings(settings):
    create_periodic_tasks()
    assert snapshot_age_limit_seconds() == 120.0
    task = PeriodicTask.objects.get(task=SNAPSHOT_TASK)
    task.interval = IntervalSchedule.objects.create(every=2, period="minutes")
    task.save()
    assert snapshot_age_limit_seconds() == 600.0
    task.enabled = False
    task.save()
    assert snapshot_age_limit_seconds() == 120.0
    settings.TELEMETRY_SNAPSHOT_AGE_LIMIT_SECONDS = 7
    assert snapshot_age_limit_seconds() == 7.0


def test_an_outage_of_redis_is_named(ready, redis_out):
    assert failed() == {"redis"}
