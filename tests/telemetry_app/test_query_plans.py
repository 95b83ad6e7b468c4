"""Every list and page of stored records is served by an index, in its order: at ten million rows nothing else answers.

The planner is told not to scan tables, so a scan that stands in a plan all the same has no index to replace it.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from telemetry_app import bulk, partitions, rows
from telemetry_app.instants import from_unix
from telemetry_app.models import Run, StepAggregate, Worker, WorkerEvent
from tests.support.records import op, sample_failure, sample_group, turn

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_client")]
RUNS = 20
OPS = 60  # of each run, a day
DAYS = 3
BIG = ("operation", "sample", "turn", "stepaggregate", "workerevent", "run", "worker")


@pytest.fixture
def history():
    """Runs with ops, samples, turns and events over three days that ended now."""
    now = time.time()
    Run.objects.bulk_create(
        Run(run_id=f"run-{n}", first_seen_at=from_unix(now), last_activity_at=from_unix(now - n), operations_count=OPS)
        for n in range(RUNS)
    )
    ats = [now - day * 86_400 - number for day in range(DAYS) for number in range(OPS)]
    with transaction.atomic():
        for model in partitions.partitioned_models():
            partitions.ensure_days(model, {from_unix(at).date() for at in ats})
        operations, samples = [], []
        for run_id in (f"run-{n}" for n in range(RUNS)):
            for number, at in enumerate(ats):
                status = "failed" if number % 20 == 0 else "succeeded"
                operations.append(rows.operation_row(op(at=at, run_id=run_id, status=status), number // 5))
            samples += [rows.sample_row(sample_group(at=at, run_id=run_id)) for at in ats[::6]]
            samples += [rows.sample_row(sample_failure(at=at, run_id=run_id)) for at in ats[::30]]
        bulk.insert_once(rows.OPERATIONS, operations, are_new=True)
        bulk.insert_once(rows.SAMPLES, samples, are_new=True)
        bulk.insert_once(rows.TURNS, [rows.turn_row(turn(at=at)) for at in ats], are_new=True)
    StepAggregate.objects.bulk_create(
        StepAggregate(
            run_id=f"run-{n}", step=step, operation="forward_backward", count=5,
            started_at=from_unix(now), finished_at=from_unix(now),
        )
        for n in range(RUNS) for step in range(OPS * DAYS // 5)
    )  # fmt: skip
    Worker.objects.bulk_create(
        Worker(
            worker=f"w-{n}",
            role="trainer",
            last_heartbeat_at=from_unix(now),
            interval_seconds=5,
            runs=["run-1"],
            record={"outstanding": []},
        )
        for n in range(200)
    )
    WorkerEvent.objects.bulk_create(
        WorkerEvent(worker_id=f"w-{n % 200}", event="late", at=from_unix(now - n)) for n in range(1_000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return now


PATHS = [
    "/api/v1/inspect/runs/run-1/steps?last=5",
    "/api/v1/inspect/runs/run-1/operations",
    "/api/v1/inspect/runs/run-1/operations?status=failed",
    "/api/v1/inspect/runs/run-1/operations?step=3",
    "/api/v1/inspect/runs/run-1/time",
    "/api/v1/inspect/runs/run-1/verdict",
    "/api/v1/inspect/runs/run-1/failures",
    "/api/v1/inspect/failures",
    "/api/v1/inspect/runs",
    "/api/v1/inspect/runs/run-1",
    "/api/v1/inspect/requests",
    "/api/v1/inspect/fleet",
    "/api/v1/inspect/devices",
    "/api/v1/inspect/incidents",
    "/api/v1/inspect/turns",
    "/api/v1/inspect/turns?workload=workload-1",
    "/api/v1/inspect/turns?node=n-1",
    "/api/v1/inspect/turns?worker=w-1&since=2026-01-01T00:00:00Z",
    "/api/v1/inspect/workers",
    "/api/v1/inspect/workers/w-1/events",
    "/admin/telemetry_app/run/",
    "/admin/telemetry_app/run/run-1/change/",
    "/admin/telemetry_app/worker/",
    "/admin/telemetry_app/failedoperation/",
    "/admin/telemetry_app/failedsample/",
]


@pytest.mark.parametrize("path", PATHS)
def test_what_is_listed_is_served_by_an_index(admin_client, history, path):
    with CaptureQueriesContext(connection) as queries:
        assert admin_client.get(path).status_code == 200
    scans = [found for query in queries for found in scans_of(query["sql"])]
    assert scans == []


def test_the_few_with_open_requests_are_found_among_all_there_were(admin_client, history):
    """The index of the list's order alone would be read to its end, for a page that is never full."""
    with CaptureQueriesContext(connection) as queries:
        assert admin_client.get("/api/v1/inspect/requests").status_code == 200
    plans = [plan_of(query["sql"]) for query in queries if query["sql"].startswith("SELECT")]
    for index in ("run_with_open_requests", "worker_holding_requests"):
        assert any(index in plan for plan in plans)


def scans_of(statement: str) -> list[str]:
    """Return the big tables that a query can only read whole."""
    if not statement.startswith("SELECT") or "telemetry_app_" not in statement:
        return []
    plan = json.loads(plan_of(statement))
    return [f"{name}: {statement}" for name in scanned(plan[0]["Plan"]) if is_big(name)]


def plan_of(statement: str) -> str:
    """Return the plan of a query, in JSON, where no table is scanned that has an index to read instead."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}")
        found = cursor.fetchone()[0]
    return found if isinstance(found, str) else json.dumps(found)


def scanned(node: dict[str, Any]) -> list[str]:
    """Return the tables that a plan's node and those below it read whole."""
    own = [node["Relation Name"]] if node["Node Type"] == "Seq Scan" else []
    return own + [name for below in node.get("Plans", ()) for name in scanned(below)]


def is_big(name: str) -> bool:
    return name.removeprefix("telemetry_app_").split("_p2")[0] in BIG
