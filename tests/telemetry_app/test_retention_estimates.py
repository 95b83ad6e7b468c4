"""What a policy would free, at a glance: near the truth, and never by reading a big table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from telemetry_app import retention_estimates
from telemetry_app.models import Operation, RetentionPolicy, Run, StepAggregate
from telemetry_app.partitions import ensure_days
from telemetry_app.retention_estimates import estimate_expired, exact_expired, oldest_at
from telemetry_app.retention_policies import HOLDINGS, cutoff_at
from tests.support.policies import keep

pytestmark = pytest.mark.django_db
NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)


def ops(days, count):
    at = NOW - timedelta(days=days)
    ensure_days(Operation, [at.date()])
    Operation.objects.bulk_create(
        Operation(run_id="run-a", record_id=f"{days}:{n}", operation="forward", status="succeeded", at=at, step=0)
        for n in range(count)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE telemetry_app_operation")


def steps(count):
    for number in range(count):
        at = NOW - timedelta(days=number)
        StepAggregate.objects.create(
            run_id="run-a", step=number, operation="forward", count=1, started_at=at, finished_at=at
        )


def estimate(kind):
    return estimate_expired(RetentionPolicy.objects.get(kind=kind), now=NOW)


def test_whole_days_are_estimated_from_statistics(django_assert_num_queries):
    ops(20, 30)
    ops(15, 20)
    ops(14, 10)
    keep(operations=14)
    policy = RetentionPolicy.objects.get(kind="operations")
    with django_assert_num_queries(1):
        expired = estimate_expired(policy, now=NOW)
    assert (expired.rows, expired.cutoff_at) == (50, datetime(2027, 1, 1, tzinfo=UTC))
    assert expired.size_bytes > 50 * 100


def test_the_exact_count_leaves_out_what_a_pinned_run_keeps():
    ops(20, 30)
    ops(15, 20)
    keep(operations=14)
    whole = exact_expired(now=NOW)[0]
    Operation.objects.filter(record_id__startswith="20:1").update(run_id="pinned")
    Run.objects.create(run_id="pinned", first_seen_at=NOW, last_activity_at=NOW, pinned=True)
    [partly] = exact_expired(now=NOW)
    assert (whole.rows, partly.rows) == (50, 39)
    assert whole.size_bytes > partly.size_bytes > 0


@pytest.mark.parametrize("limit", [5, 1_000])
def test_rows_of_other_tables_are_counted_up_to_a_limit_and_estimated_beyond(monkeypatch, limit):
    monkeypatch.setattr(retention_estimates, "COUNTED_ROWS", limit)
    steps(40)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE telemetry_app_stepaggregate")
    keep(steps=9)
    expired = estimate("steps")
    assert expired.rows == 30 if limit > 40 else 15 < expired.rows <= 40
    assert expired.size_bytes > 0
    assert exact_expired(now=NOW)[0].rows == 30


def test_what_is_kept_for_ever_frees_nothing():
    steps(3)
    keep()
    assert (estimate("steps").rows, estimate("steps").cutoff_at) == (0, None)
    assert exact_expired(now=NOW) == []


def test_the_oldest_row_is_found_in_one_question(django_assert_num_queries):
    ensure_days(Operation, [(NOW - timedelta(days=days)).date() for days in (30, 25)])
    ops(20, 1)
    ops(3, 1)
    steps(3)
    with django_assert_num_queries(2):
        assert oldest_at(HOLDINGS["operations"]) == datetime(2026, 12, 26, tzinfo=UTC)
    assert oldest_at(HOLDINGS["steps"]) == NOW - timedelta(days=2)
    assert oldest_at(HOLDINGS["turns"]) is None
    assert oldest_at(HOLDINGS["runs"]) is None


def test_more_days_than_the_calendar_has_keep_everything():
    assert cutoff_at(NOW, 2**31) == datetime(1, 1, 1, tzinfo=UTC)
