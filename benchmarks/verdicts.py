"""How long one pass takes over many active runs: reading Redis, judging, and bringing incidents up to date.

usage: script/benchmark verdicts [--runs N] [--rounds N]. Each run has 200 op records with 8 metrics, a trainer of its
own that holds a request, and one of 20 API servers; every tenth waits for its node's GPU, every twentieth fails.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

from benchmarks.site import running_site
from benchmarks.workload import METRICS

RECORDS = 200  # of each run; a pass reads the newest 64
API_SERVERS = 20
RUNS_PER_NODE = 8


def main() -> None:
    """Measure round by round and print the table."""
    parser = argparse.ArgumentParser(prog="script/benchmark verdicts", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with running_site():
        from telemetry_app.incidents import take_verdicts

        walls, cpus = [], []
        for _ in range(options.rounds):
            fill_redis(options.runs)
            began, cpu = time.perf_counter(), _cpu_seconds()
            summary = take_verdicts()
            walls.append(time.perf_counter() - began)
            cpus.append(_cpu_seconds() - cpu)
            assert summary.runs_count == options.runs, summary
        print(f"\n### The verdicts of {options.runs:,} active runs in one pass\n")
        print("| | s, median | s, longest |\n|---|---:|---:|")
        print(f"| wall time | {statistics.median(walls):.2f} | {max(walls):.2f} |")
        print(f"| processor time of the pass (one core) | {statistics.median(cpus):.2f} | {max(cpus):.2f} |")


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system


def fill_redis(runs: int) -> None:
    """Make so many active runs in an empty Redis, with their workers and 20 API servers."""
    from django_redis import get_redis_connection

    from workers_client import wire
    from workers_client.codec import encode_object

    now = time.time()
    redis = get_redis_connection("telemetry")
    redis.flushdb()
    servers: dict[str, list[dict[str, object]]] = {f"api-{number}": [] for number in range(API_SERVERS)}
    for number in range(runs):
        run_id, trainer, server = f"run-{number:05}", f"trainer-{number:05}", f"api-{number % API_SERVERS}"
        is_failing = number % 20 == 0
        with redis.pipeline(transaction=False) as pipeline:
            records = [_record(run_id, trainer, index, now, is_failing) for index in range(RECORDS)]
            pipeline.rpush(wire.operations_key(run_id), *(encode_object(record) for record in records))
            held = {
                "run_id": run_id, "operation": "forward_backward", "count": 1, "oldest_at": now - 3,
                "request_ids": [f"q-{number}"],
            }  # fmt: skip
            servers[server].append(held)
            turn = {"workload": trainer, "requested_at": now - 3}
            turn |= {} if number % 10 == 0 else {"started_at": now - 2}
            worker = _worker(trainer, "trainer", number, now, [held], turn)
            pipeline.set(wire.worker_key(trainer), encode_object(worker))
            pipeline.zadd(wire.WORKERS_KEY, {trainer: now})
            counts = {"enqueued": RECORDS + 1, "popped": RECORDS + 1, "answered": RECORDS, "delivered": RECORDS}
            pipeline.hset(wire.ledger_key(run_id), mapping={**counts, "last_enqueued_at": now - 3})
            pipeline.zadd(wire.RUNS_KEY, {run_id: now - 1})
            pipeline.execute()
    for number, (server, held_there) in enumerate(servers.items()):
        record = _worker(server, "api_server", number, now, held_there[:20], None)
        record["runs"] = [entry["run_id"] for entry in held_there][:100]
        redis.set(wire.worker_key(server), encode_object(record))
        redis.zadd(wire.WORKERS_KEY, {server: now})


def _record(run_id: str, trainer: str, index: int, now: float, is_failing: bool) -> dict[str, object]:
    at = now - (RECORDS - index) * 2.0
    operation = "optim_step" if index % 4 == 3 else "forward_backward"
    status = "failed" if is_failing and index > RECORDS - 10 else "succeeded"
    return {
        "id": f"{trainer}:{index}", "run_id": run_id, "operation": operation, "request_id": f"{run_id}-{index}",
        "role": "trainer", "worker": trainer, "status": status,
        "enqueued_at": at - 1.2, "queue_seconds": 0.2, "started_at": at - 1, "at": at, "elapsed_seconds": 1.0,
        "step": index // 4, "metrics": METRICS, "tokens": 4096,
    }  # fmt: skip


def _worker(
    name: str, role: str, number: int, now: float, held: list[dict[str, object]], turn: dict[str, object] | None
) -> dict[str, object]:
    return {
        "worker": name, "role": role, "node": f"node-{number // RUNS_PER_NODE}", "at": now, "interval_seconds": 5.0,
        "phase": "running", "runs": [f"run-{number:05}"], "outstanding": held,
        "turns": {"count": 100, "wait_seconds": 40.0}, **({"turn": turn} if turn else {}),
    }  # fmt: skip


if __name__ == "__main__":
    main()
