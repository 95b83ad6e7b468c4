"""A million records through one recorder: descriptors, threads and memory must stay flat.

usage: script/benchmark soak [--records N]. Ends with an error where one of them grows.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from pathlib import Path

from benchmarks.contenders import Ours
from benchmarks.redis_server import running_redis
from benchmarks.workload import COMMANDS, COUNT, RESULTS

PARTS = 20
GROWTH_LIMIT_KB = 16_384  # between the fifth part, when all tables have been filled once, and the last


def main() -> None:
    """Record, and print a line a part."""
    parser = argparse.ArgumentParser(prog="script/benchmark soak", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    count = parser.parse_args().records
    with running_redis() as server:
        ours = Ours(server.url, interval_seconds=0.5)
        rows = [_part(ours, number, count // PARTS) for number in range(PARTS)]
        ours.recorder.close(30)
        stats = ours.recorder.stats()
    produced, sent = stats["produced"]["operation"], stats["sent"]["operation"]
    lost = sum(stats["dropped"].get("operation", {}).values())
    print(f"produced {produced:,}, sent {sent:,}, dropped {lost:,}, hook errors {stats['hook_errors']}")
    settled, last = rows[PARTS // 4], rows[-1]
    if produced != sent + lost or last[:2] != settled[:2] or last[2] - settled[2] > GROWTH_LIMIT_KB:
        sys.exit("Something grew, or the sum is wrong.")


def _part(ours: Ours, number: int, count: int) -> tuple[int, int, int]:
    """Record one part; return open descriptors, threads, and the memory in kB."""
    for record in range(number * count, (number + 1) * count):
        command = {**COMMANDS[record % COUNT], "request_id": f"soak-{record}"}
        ours.recorder.popped([command])
        with ours.recorder.operation(command) as op:
            op.finish(RESULTS[record % COUNT])
        ours.recorder.answered(command)
        if record % 5_000 == 0:
            ours.drain()
    ours.drain()
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    status = Path("/proc/self/status").read_text()
    memory_kb = int(status.split("VmRSS:")[1].split()[0])
    print(
        f"{(number + 1) * count:>9,} records: {descriptors} descriptors, {threads} threads, {memory_kb:,} kB",
        flush=True,
    )
    return descriptors, threads, memory_kb


if __name__ == "__main__":
    main()
