"""What recording costs a trainer: one op, a training loop, a flush. Run by `script/benchmark`.

All contenders run in one process, round by round; figures are medians over the rounds and ratios are paired within a
round, so that a machine that is busy now and then changes little.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import redis

from benchmarks.contenders import (
    AwaitedWrite,
    Contender,
    OpenTelemetrySpan,
    Ours,
    PrometheusClient,
    TupleAppend,
)
from benchmarks.redis_server import running_redis
from benchmarks.training_loop import print_training_loop
from benchmarks.workload import COMMANDS, COUNT, RESULTS
from workers_client import codec, wire

OPS = [*zip(COMMANDS, RESULTS, strict=True)] * 2  # recorded at once: what waits between two flushes of a busy trainer
SINGLE_BLOCKS = 10
FLUSH_RECORDS = 40_000
IMPORTS = 15


def main() -> None:
    """Run all parts and print the tables."""
    parser = argparse.ArgumentParser(prog="script/benchmark", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with running_redis() as server:
        print_one_op(server.url, rounds)
        print_training_loop(server, rounds)
        print_flush(server.url, rounds)
    print_import()


# --- One op ---------------------------------------------------------------------------------------------------
def print_one_op(url: str, rounds: int) -> None:
    """Print the cost of recording one op, and its ratios."""
    contenders: list[Contender] = [
        TupleAppend(), Ours(url), OpenTelemetrySpan(), PrometheusClient(), AwaitedWrite(url),
    ]  # fmt: skip
    seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for _ in range(rounds):
        for contender in contenders:
            seconds[contender.name].append(_block_seconds(contender))
    limit, ours = contenders[0].name, contenders[1].name
    print("\n### Recording one op with 8 metrics\n")
    print("| contender | µs an op | times the limit | times ours |\n|---|---:|---:|---:|")
    for contender in contenders:
        own = seconds[contender.name]
        print(
            f"| {contender.name} | {statistics.median(own) * 1e6:.2f} | {_ratio(own, seconds[limit]):.1f} | "
            f"{_ratio(own, seconds[ours]):.2f} |"
        )
    p50, p99 = _percentiles(contenders[1])
    for contender in contenders:
        contender.close()  # its threads must not disturb what follows
    print(f"\nSingle calls of workers_client: p99 is {p99 / p50:.1f} times the median.")


def _block_seconds(contender: Contender) -> float:
    """Return the seconds of one op, over blocks that are drained in between."""
    blocks = []
    for _ in range(5):
        contender.drain()
        gc.collect()
        started = time.perf_counter()
        for command, result in OPS:
            contender.record(command, result)
        blocks.append((time.perf_counter() - started) / len(OPS))
    contender.drain()
    return statistics.median(blocks)


def _percentiles(contender: Contender) -> tuple[float, float]:
    """Return p50 and p99 of the seconds of single calls, in blocks that are drained in between."""
    singles = []
    for _ in range(SINGLE_BLOCKS):
        contender.drain()
        for command, result in OPS:
            started = time.perf_counter()
            contender.record(command, result)
            singles.append(time.perf_counter() - started)
    singles.sort()
    return singles[len(singles) // 2], singles[len(singles) * 99 // 100]


def _ratio(own: Sequence[float], other: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(own, other, strict=True))


# --- A flush --------------------------------------------------------------------------------------------------
def print_flush(url: str, rounds: int) -> None:
    """Print how fast records reach Redis from one process, with the fast codec and without."""
    print("\n### Flush\n\n| codec | records/s into Redis |\n|---|---:|")
    fast = codec._encode
    for name, encode in (("msgspec", fast), ("json", codec._encode_with_json)):
        codec._encode = encode  # type: ignore[assignment]
        rates = [_flush_rate(url) for _ in range(max(3, rounds // 2))]
        print(f"| {name} | {statistics.median(rates):,.0f} |")
    codec._encode = fast
    with redis.Redis.from_url(url) as client:
        [key] = [key for key in client.keys(wire.operations_key("*")) if b":samples" not in key][:1]
        sizes = [len(element) for element in client.lrange(key, 0, -1)]
    print(f"\nAn op record with 8 metrics takes {statistics.median(sizes):.0f} bytes.")


def _flush_rate(url: str) -> float:
    """Return records/s of one flush, from the records in the buffer to Redis's answer."""
    ours = Ours(url, interval_seconds=3_600)
    ours.record(*OPS[0])
    ours.drain()
    for number in range(FLUSH_RECORDS):
        ours.record(*OPS[number % COUNT])
    waiting = ours.recorder.stats()["buffered"]["operation"]  # folds: what is measured is encoding and sending
    started = time.perf_counter()
    assert ours.recorder.flush(120)
    seconds = time.perf_counter() - started
    ours.close()
    return float(waiting / seconds)


# --- The import -----------------------------------------------------------------------------------------------
def print_import() -> None:
    """Print the processor time of the import in a fresh interpreter, beside that of the standard library's part."""
    print("\n### Import\n\n| import | ms |\n|---|---:|")
    with tempfile.TemporaryDirectory() as compiled:  # an installed package is compiled, whatever the caller's settings
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": compiled}
        for modules in ("enum, queue, threading, typing", "workers_client", "redis"):
            code = f"import time; t = time.process_time(); import {modules}; print(time.process_time() - t)"
            command = [sys.executable, "-c", code]
            seconds = [float(subprocess.check_output(command, env=environment)) for _ in range(IMPORTS)]
            print(f"| {modules} | {min(seconds) * 1e3:.1f} |")


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
