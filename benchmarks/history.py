"""How long pages and answers from history take as it grows: medians at a hundredth of the rows and at all of them.

usage: script/benchmark history [--rows N] [--runs N] [--calls N]. Rows are op records, made by PostgreSQL itself.
"""

from __future__ import annotations

import argparse
import statistics
import time
from datetime import datetime, timedelta
from typing import Any

from benchmarks.site import running_site

DAYS = 7
PATHS = (
    "/api/v1/inspect/runs?page_size=50",
    "/api/v1/inspect/runs?state=idle&page_size=50",
    "/api/v1/inspect/runs/run-00001/steps?last=20",
    "/api/v1/inspect/runs/run-00001/operations?page_size=50",
    "/api/v1/inspect/runs/run-00001/failures?page_size=50",
    "/api/v1/inspect/failures?page_size=50",
    "/admin/telemetry_app/run/",
    "/admin/telemetry_app/run/run-00001/change/",
    "/admin/telemetry_app/failedoperation/",
)


def main() -> None:
    """Measure at both sizes and print the table."""
    parser = argparse.ArgumentParser(prog="script/benchmark history", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--calls", type=int, default=15)
    options = parser.parse_args()
    with running_site():
        columns = []
        for rows in (options.rows // 100, options.rows):
            fill(rows, options.runs)
            columns.append({path: _median_ms(path, options.calls) for path in PATHS})
    small, large = columns
    print(f"\n### Answers from {options.rows:,} op rows of {options.runs:,} runs\n")
    print(f"| path | ms at {options.rows // 100:,} | ms at {options.rows:,} | ratio |\n|---|---:|---:|---:|")
    for path in PATHS:
        print(f"| `{path}` | {small[path]:.1f} | {large[path]:.1f} | {large[path] / small[path]:.2f} |")


def fill(rows: int, runs: int) -> None:
    """Make rows op records of so many runs over a week that ended now, a hundredth of them failed."""
    from django.db import connection, transaction
    from django.utils import timezone

    from telemetry_app import models, partitions

    now = timezone.now()
    with transaction.atomic():
        days = {(now - timedelta(days=day)).date() for day in range(DAYS + 1)}
        partitions.ensure_days(models.Operation, days)
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("TRUNCATE telemetry_app_operation, telemetry_app_run, telemetry_app_stepaggregate")
        models.Run.objects.bulk_create(_run(number, rows // runs, now) for number in range(runs))
        for statement in (_OPERATIONS, _STEPS):
            cursor.execute(statement, {"rows": rows, "runs": runs, "each": rows // runs, "now": now, "days": DAYS})
    connection.set_autocommit(True)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("RESET statement_timeout")


def _run(number: int, each: int, now: datetime) -> Any:
    from telemetry_app.models import Run

    at = now - timedelta(seconds=number)
    return Run(
        run_id=f"run-{number:05}", first_seen_at=now, last_activity_at=at, state="idle", steps_completed=each // 5,
        enqueued=each, popped=each, answered=each, delivered=each, recorded=each, operations_count=each,
        failures_count=each // 100, last_snapshot_at=now,
    )  # fmt: skip


_OPERATIONS = """
INSERT INTO telemetry_app_operation (run_id, record_id, worker, role, operation, request_id, status, error_type,
  error_category, queue_seconds, started_at, at, elapsed_seconds, step, metrics, nonfinite, batch, trace_id, span_id)
SELECT 'run-' || lpad((n %% %(runs)s)::text, 5, '0'), 'w:' || n, 'w', 'trainer',
  CASE WHEN n / %(runs)s %% 5 = 4 THEN 'optim_step' ELSE 'forward_backward' END, 'r-' || n,
  CASE WHEN n / %(runs)s %% 100 = 0 THEN 'failed' ELSE 'succeeded' END, '', '', 0.5, ended - interval '1 s', ended, 1,
  n / %(runs)s / 5, '{"loss:mean": 1.25, "grad_norm:mean": 0.5, "reward:mean": 0.125, "kl:mean": 0.01}', '{}', '',
  '', ''
FROM generate_series(0, %(rows)s - 1) n,
  LATERAL (SELECT %(now)s - (1 - n::float8 / %(rows)s) * %(days)s * interval '1 day' AS ended) instant
"""
_STEPS = """
INSERT INTO telemetry_app_stepaggregate (run_id, step, operation, count, failures, cancelled, seconds, queue_seconds,
  metric_names, metric_numbers, nonfinite, batches, started_at, finished_at)
SELECT run_id, step, operation, count(*), count(*) FILTER (WHERE status = 'failed'), 0, count(*), count(*) / 2.0,
  '{loss:mean}', '{4, 1.25, 1.25, 1.25, 1.25, 1796000000}', '{}', '[]', min(started_at), max(at)
FROM telemetry_app_operation GROUP BY run_id, step, operation
"""


def _median_ms(path: str, calls: int) -> float:
    """Return the median milliseconds of a GET, signed in, within one process."""
    client = signed_in_client()
    client.get(path)
    seconds = []
    for _ in range(calls):
        started = time.perf_counter()
        answer = client.get(path)
        seconds.append(time.perf_counter() - started)
        assert answer.status_code == 200, answer.content[:500]
    return statistics.median(seconds) * 1e3


def signed_in_client() -> Any:
    """Return a client of the site that is signed in as one who may see all."""
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.test import Client

    settings.ALLOWED_HOSTS = ["testserver"]
    user, _ = get_user_model().objects.get_or_create(username="reader", is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(user)
    return client


if __name__ == "__main__":
    main()
