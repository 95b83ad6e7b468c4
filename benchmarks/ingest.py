"""How fast a snapshot takes op records, from the bytes in Redis to committed rows, beside a plain COPY.

usage: script/benchmark ingest [--records N] [--rounds N] [--processes N …]. The limit is a text COPY of bytes that
are ready, into the same partitioned table, without reading, checking, totals or step aggregates.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.site import running_site
from benchmarks.workload import METRICS

RECORDS_PER_RUN = 2_000  # what Redis holds of a run
DAYS = 3
LIMIT = "text COPY of ready bytes (the limit)"


def main() -> None:
    """Measure all, interleaved, and print the table."""
    parser = argparse.ArgumentParser(prog="script/benchmark ingest", description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--memory-of", type=int, help=argparse.SUPPRESS)  # one snapshot alone: prints its memory
    options = parser.parse_args()
    with running_site():
        if options.memory_of:
            _take(options.memory_of)
            print(_peak_kb())
            return
        limits, ways = _rates(options)
    print(f"\n### Taking {options.records:,} op records with {len(METRICS)} metrics into PostgreSQL\n")
    print("| way | rows/s | of the limit beside it |\n|---|---:|---:|")
    print(f"| {LIMIT} | {statistics.median(limits):,.0f} | 100 % |")
    for name, column in ways.items():
        share = statistics.median(rate / limit for rate, limit in column)
        print(f"| {name} | {statistics.median(rate for rate, _ in column):,.0f} | {100 * share:.0f} % |")
    print("\n| records in one snapshot | peak memory |\n|---:|---:|")
    for count in (options.records // 4, options.records):
        command = [sys.executable, "-m", "benchmarks.ingest", "--memory-of", str(count)]
        print(f"| {count:,} | {int(subprocess.check_output(command)) / 1024:.0f} MiB |")


def _rates(options: argparse.Namespace) -> tuple[list[float], dict[str, list[tuple[float, float]]]]:
    """Return the limit's rows/s, and by way its own with those of the limit just before, round by round.

    A shared machine is faster and slower from one minute to the next: only what runs side by side can be compared.
    """
    limits: list[float] = []
    ways: dict[str, list[tuple[float, float]]] = {}
    with ExitStack() as stack:
        pools = {count: stack.enter_context(_pool(count)) for count in options.processes}
        ready = _ready_rows(options.records)
        for _ in range(options.rounds):
            for count, pool in {1: None, **pools}.items():
                limits.append(_copy_rate(ready, options.records))
                name = f"a snapshot in {count} processes" if pool else "a snapshot in one process"
                taken, split = _take(options.records, pool)
                ways.setdefault(name, []).append((taken, limits[-1]))
                ways.setdefault(f"{name}, steps split", []).append((split, limits[-1]))
    return limits, ways


def _pool(count: int) -> ProcessPoolExecutor:
    """Return so many processes, all of them up before anything is timed."""
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _set_up)
    list(pool.map(_nothing, range(count * 4)))
    return pool


def _set_up() -> None:
    import django

    django.setup()


def _nothing(number: int) -> None:
    """Take as long as the pool's other processes need to get a call as well."""
    time.sleep(0.1)


def _take(count: int, pool: ProcessPoolExecutor | None = None) -> tuple[float, float]:
    """Return rows/s of one snapshot of `count` records, its parts taken here or by the processes of a pool.

    The first is told when all records are committed, the second when their steps are split as well.
    """
    from telemetry_app.models import Operation, StepAggregate, StepTime
    from telemetry_app.snapshots import begin

    _empty()
    _fill(count)
    started = time.perf_counter()
    execution, parts = begin()
    _take_parts(execution.pk, [part for part in parts if part.run_ids], pool)
    seconds = time.perf_counter() - started
    assert Operation.objects.count() == count
    resumed = time.perf_counter()
    _take_parts(execution.pk, [part for part in parts if not part.run_ids], pool)
    seconds_to_all = seconds + time.perf_counter() - resumed
    settled_at = datetime.fromtimestamp(time.time() - 60, UTC)  # later ones are left to the next snapshot
    steps = StepAggregate.objects.filter(operation="optim_step", finished_at__lt=settled_at)
    assert StepTime.objects.count() >= steps.count() > 0
    return count / seconds, count / seconds_to_all


def _take_parts(execution_id: int, parts: list[Any], pool: ProcessPoolExecutor | None) -> None:
    from telemetry_app.snapshots import take_part

    list((pool.map if pool else map)(take_part, [execution_id] * len(parts), parts))


def _copy_rate(ready: list[bytes], count: int) -> float:
    """Return rows/s of a text COPY of rows that are bytes already, in one transaction, to its commit."""
    from django.db import connection, transaction

    from telemetry_app.models import Operation

    _empty()
    started = time.perf_counter()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")  # the site's is for single answers
        with cursor.copy(f"COPY {Operation._meta.db_table} ({_names()}) FROM STDIN") as copy:
            for block in ready:
                copy.write(block)
    return count / (time.perf_counter() - started)


def _ready_rows(count: int) -> list[bytes]:
    """Return the rows of a snapshot as blocks of text."""
    from django.db import connection

    from telemetry_app.models import Operation

    _take(count)
    with connection.cursor() as cursor:
        statement = f"COPY (SELECT {_names()} FROM {Operation._meta.db_table} ORDER BY at) TO STDOUT"
        with cursor.copy(statement) as copy:
            return [bytes(block) for block in copy]


def _names() -> str:
    from telemetry_app.models import Operation

    return ", ".join(field.column for field in Operation._meta.fields if field.name != "id")


def _fill(count: int) -> None:
    """Put op records into Redis: 2,000 a run, their finish times spread over three days."""
    from django_redis import get_redis_connection

    from workers_client import wire

    client = get_redis_connection("telemetry")
    client.flushdb()
    now = time.time()
    for run in range(-(-count // RECORDS_PER_RUN)):
        run_id = f"run-{run:05}"
        size = min(RECORDS_PER_RUN, count - run * RECORDS_PER_RUN)
        first = now - (run % DAYS) * 86_400 - size
        records = [wire.encode(_record(run_id, number, round(first + number, 3))) for number in range(size)]
        client.rpush(wire.operations_key(run_id), *records)
        client.hset(wire.ledger_key(run_id), mapping={"enqueued": size, "answered": size, "recorded": size})
        client.zadd(wire.RUNS_KEY, {run_id: now})


def _record(run_id: str, number: int, at: float) -> Any:
    from workers_client import wire

    is_step = number % 5 == 4
    worker = f"trainer-{run_id}-4711-1a2b3c4d5e6"
    return wire.OpRecord(
        run_id=run_id, operation="optim_step" if is_step else "forward_backward", status="succeeded", at=at,
        id=f"{worker}:{number + 1}", request_id=f"5f0c7c1e-2f5a-4d5e-9a51-{number:012}", role="trainer", worker=worker,
        enqueued_at=round(at - 1.5, 3), queue_seconds=0.5, started_at=round(at - 1, 3), elapsed_seconds=1.0,
        step=number // 5, metrics={name: value * (1 + number) for name, value in METRICS.items()}, tokens=4_096,
        trace_id="0af7651916cd43dd8448eb211c80319c", span_id="b7ad6b7169203331",
    )  # fmt: skip


def _empty() -> None:
    from django.db import connection

    from telemetry_app import models

    tables = [
        models.Operation, models.Sample, models.Turn, models.StepAggregate, models.StepTime, models.Gap,
        models.ListCursor, models.Run, models.MetricTotal, models.Execution,
    ]  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(model._meta.db_table for model in tables)}")
        cursor.execute("CHECKPOINT")


def _peak_kb() -> int:
    """Return this process's peak of resident memory, in kB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


if __name__ == "__main__":
    main()
