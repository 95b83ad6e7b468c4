"""How long each kind is kept, over REST."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from telemetry_app.models import Execution, Operation, StepAggregate
from telemetry_app.partitions import ensure_days
from tests.support.policies import keep

pytestmark = pytest.mark.django_db


@pytest.fixture
def kept():
    """Ops for 14 days and steps for 30, each with something older, and an execution of each."""
    keep(operations=14, steps=30)
    now = timezone.now()
    old = now - timedelta(days=40)
    ensure_days(Operation, [old.date()])
    Operation.objects.create(run_id="run-a", record_id="w:1", operation="forward", status="succeeded", at=old, step=0)
    StepAggregate.objects.create(run_id="run-a", step=0, operation="forward", count=1, started_at=old, finished_at=old)
    for policy, error in (("operations", ""), ("steps", "no lock")):
        for days in (2, 1):
            Execution.objects.create(
                task="retention", policy=policy, started_at=now - timedelta(days=days), finished_at=now, error=error,
                rows_removed=days * 10, bytes_removed=days * 1000, cutoff_at=old,
            )  # fmt: skip
    return old


def test_each_policy_is_told_with_its_newest_execution(api, kept):
    answer = api.answer("/retention")
    assert [policy["kind"] for policy in answer["results"]] == [
        "operations", "samples", "turns", "steps", "worker_events", "incidents", "runs",
    ]  # fmt: skip
    operations, samples, _, steps, *_ = answer["results"]
    today = datetime.now(UTC).date()
    assert (operations["days_to_keep"], operations["cutoff_at"]) == (
        14, f"{today - timedelta(days=14)}T00:00:00.000Z",
    )  # fmt: skip
    assert operations["oldest_at"] == f"{kept.date()}T00:00:00.000Z"
    assert operations["expired_bytes"] > 0
    newest = operations["newest_execution"]
    assert (newest["rows_removed"], newest["bytes_removed"], newest["error"]) == (10, 1000, None)
    assert (steps["expired_rows"], steps["newest_execution"]["error"]) == (1, "no lock")
    assert (samples["days_to_keep"], samples["cutoff_at"], samples["newest_execution"]) == (None, None, None)
    assert answer["count"] == 7


def test_it_costs_as_many_queries_for_many_rows_as_for_one(api, kept, django_assert_max_num_queries):
    def cost():
        with django_assert_max_num_queries(40) as queries:
            api.answer("/retention")
        return len(queries)

    one = cost()
    for number in range(20):
        at = kept - timedelta(days=number)
        ensure_days(Operation, [at.date()])
        Execution.objects.create(task="retention", policy="steps", started_at=at)
    assert cost() == one


def test_it_needs_a_sign_in_and_no_parameters(api, client, kept):
    assert client.get("/api/v1/inspect/retention").status_code == 401
    api.refusal("/retention", kind="steps")


def test_without_postgresql_it_says_so(api, kept):
    def refuse(execute, sql, *rest):
        if "retentionpolicy" in sql:
            raise OperationalError("refused")
        return execute(sql, *rest)

    with connection.execute_wrapper(refuse):
        assert api.answer("/retention", 503)["type"] == "server_error"
