"""How long the pages that people open first take on the server, and how many queries, as history and the fleet grow.

usage: script/benchmark pages [--rows N] [--runs N] [--active N] [--calls N]. The small size is a hundredth of that.
Rows are op records, made by PostgreSQL itself; the newest runs are active in Redis, with a trainer each.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import dataclass
from datetime import timedelta

from benchmarks.history import fill, signed_in_client
from benchmarks.site import running_site
from benchmarks.verdicts import fill_redis

RUN = "/admin/telemetry_app/run"
LONG_RUN = "run-00001"  # has a step aggregate and a kept time for each of very many steps
PAGES = {
    "fleet": "/admin/",
    "runs": f"{RUN}/",
    "runs in trouble": f"{RUN}/?show=trouble",
    "runs, a search": f"{RUN}/?q=0042",
    "one run": f"{RUN}/{LONG_RUN}/change/",
    "its step time by the clock": f"{RUN}/{LONG_RUN}/step-times?split=clock&points=300",
    "requests": f"{RUN}/requests/",
    "failures": "/admin/telemetry_app/failedoperation/groups/",
    "incidents": "/admin/telemetry_app/incident/",
    "GPUs, last hour": f"{RUN}/gpus/?span=hour",
    "GPUs, last 7 days": f"{RUN}/gpus/?span=week",
    "workers": "/admin/telemetry_app/worker/",
    "one worker": "/admin/telemetry_app/worker/trainer-00001/change/",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one page: wall and processor milliseconds (medians; PostgreSQL's own is in the first alone), and queries."""

    wall_ms: float
    processor_ms: float
    queries: int


def main() -> None:
    """Measure at both sizes and print the table."""
    parser = argparse.ArgumentParser(prog="script/benchmark pages", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--active", type=int, default=100, help="runs that are active at the large size")
    parser.add_argument("--calls", type=int, default=9)
    options = parser.parse_args()
    sizes = [tuple(max(10, n // 100) for n in (options.rows, options.runs, options.active)),
             (options.rows, options.runs, options.active)]  # fmt: skip
    with running_site():
        small, large = (_costs(*size, calls=options.calls) for size in sizes)
    rows, runs, active = sizes[0]
    print(f"\n### Pages over {options.rows:,} op rows of {options.runs:,} runs, {options.active:,} of them active\n")
    print(f"The small size has {rows:,} rows of {runs:,} runs, {active:,} of them active.\n")
    print("| page | ms, small | ms, large | ratio | processor ms, small | large | queries, small | large |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in PAGES:
        one, other = small[name], large[name]
        print(
            f"| {name} | {one.wall_ms:.0f} | {other.wall_ms:.0f} | {other.wall_ms / one.wall_ms:.2f} | "
            f"{one.processor_ms:.0f} | {other.processor_ms:.0f} | {one.queries} | {other.queries} |"
        )


def _costs(rows: int, runs: int, active: int, *, calls: int) -> dict[str, Cost]:
    fill(rows, runs)
    _fill_beside(rows)
    fill_redis(active)
    _tell_verdicts()
    return {name: _cost(path, calls) for name, path in PAGES.items()}


def _tell_verdicts() -> None:
    from telemetry_app.incidents import take_verdicts
    from telemetry_app.inspection import every_run

    take_verdicts()
    every_run.forget()


def _fill_beside(rows: int) -> None:
    """Make what grows with ops: turns, workers, and the steps of one long run, each a hundredth as many."""
    from django.db import connection, transaction
    from django.utils import timezone

    from telemetry_app import models, partitions

    now = timezone.now()
    with transaction.atomic():
        partitions.ensure_days(models.Turn, {(now - timedelta(days=day)).date() for day in range(9)})
    values = {"count": max(100, rows // 100), "now": now, "run": LONG_RUN}
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("TRUNCATE telemetry_app_turn, telemetry_app_worker, telemetry_app_steptime")
        cursor.execute("DELETE FROM telemetry_app_incident")
        for statement in (_TURNS, _WORKERS, _LONG_RUN, _STEP_TIMES):
            cursor.execute(statement, values)
    connection.set_autocommit(True)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("RESET statement_timeout")


_TURNS = """
INSERT INTO telemetry_app_turn (record_id, workload, role, worker, node, requested_at, started_at, at, runs, ops)
SELECT 't:' || n, 'w-' || n %% 100, 'trainer', 'trainer-' || n %% 100, 'node-' || n %% 20, ended - interval '4 s',
  ended - interval '3 s', ended, ARRAY['run-' || lpad((n %% 100)::text, 5, '0')], jsonb_build_array(jsonb_build_object(
  'name', 'forward_backward', 'start', extract(epoch FROM ended) - 2, 'end', extract(epoch FROM ended) - 0.5,
  'run_id', 'run-' || lpad((n %% 100)::text, 5, '0'), 'count', 1, 'status', 'succeeded'))
FROM generate_series(0, %(count)s - 1) n,
  LATERAL (SELECT %(now)s - (n::float8 / %(count)s) * interval '7 days' AS ended) instant
"""
_WORKERS = """
INSERT INTO telemetry_app_worker (worker, role, parent, pod, node, host, pid, started_at, last_heartbeat_at,
  interval_seconds, phase, exit_reason, runs, record)
SELECT 'old-' || n, 'trainer', '', '', 'node-' || n %% 20, 'host', n, %(now)s - n * interval '60 s',
  %(now)s - n * interval '30 s', 5, 'idle', '', ARRAY['run-' || lpad((n %% 1000)::text, 5, '0')],
  jsonb_build_object('worker', 'old-' || n, 'role', 'trainer', 'outstanding', '[]'::jsonb)
FROM generate_series(0, %(count)s / 10) n
"""
_LONG_RUN = """
INSERT INTO telemetry_app_stepaggregate (run_id, step, operation, count, failures, cancelled, seconds, queue_seconds,
  metric_names, metric_numbers, nonfinite, batches, started_at, finished_at)
SELECT %(run)s, 1000000 + n, operation, 1, 0, 0, 1, 0.5, '{}', '{}', '{}', '[]',
  %(now)s - (%(count)s - n) * interval '4 s', %(now)s - (%(count)s - n) * interval '4 s' + interval '3 s'
FROM generate_series(0, %(count)s - 1) n, unnest(ARRAY['forward_backward', 'optim_step']) operation
"""
_STEP_TIMES = """
INSERT INTO telemetry_app_steptime (run_id, step, started_at, ended_at, wall_seconds, training_seconds,
  saving_seconds, gpu_switch_seconds, gpu_wait_seconds, queue_seconds, sampling_seconds, client_seconds,
  no_worker_seconds, untracked_seconds, gpu_wait_by, overlap_seconds, kept_at)
SELECT %(run)s, 1000000 + n, %(now)s - (%(count)s - n) * interval '4 s', %(now)s - (%(count)s - n - 1) * interval '4 s',
  4, 2, 0, 0.5, 1, 0.25, 0, 0.25, 0, 0, jsonb_build_array(jsonb_build_array('w-1', 'run-00002', 'optim_step', 0.75),
  jsonb_build_array('w-2', 'run-00003', 'optim_step', 0.25)), 0, %(now)s
FROM generate_series(0, %(count)s - 1) n
"""


def _cost(path: str, calls: int) -> Cost:
    """Return what a GET costs, signed in, within one process."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from telemetry_app.inspection import every_run

    client = signed_in_client()
    with CaptureQueriesContext(connection) as captured:
        _get(client, path)
        queries = len(captured)  # they are forgotten with the next request
    walls, processor = [], []
    for _ in range(calls):
        every_run.forget()  # what was told of all runs a moment ago
        began, used = time.perf_counter(), _processor_seconds()
        _get(client, path)
        walls.append(time.perf_counter() - began)
        processor.append(_processor_seconds() - used)
    return Cost(statistics.median(walls) * 1e3, statistics.median(processor) * 1e3, queries)


def _get(client: object, path: str) -> None:
    answer = client.get(path)  # type: ignore[attr-defined]
    assert answer.status_code == 200, answer.content[:500]


def _processor_seconds() -> float:
    times = os.times()
    return times.user + times.system


if __name__ == "__main__":
    main()
