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
import time
from collections.abc import Callable, Sequence

import numpy as np
import redis

from benchmarks.contenders import (
    AwaitedWrite,
    Contender,
    Nothing,
    OpenTelemetrySpan,
    Ours,
    PrometheusClient,
    TupleAppend,
)
from benchmarks.redis_server import RedisServer, running_redis
from workers_client import codec, wire

BLOCK = 2_000  # calls timed at once: what waits between two flushes of a busy trainer
SINGLE_CALLS = 20_000
FLUSH_RECORDS = 40_000
LOOP_SECONDS = 2.0
IMPORTS = 15
LoopContender = type[Nothing] | type[Ours] | type[AwaitedWrite]


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
    print(f"\nSingle calls of workers_client: p99 is {p99 / p50:.1f} times the median.")


def _block_seconds(contender: Contender) -> float:
    """Return the seconds of one op, over blocks that are drained in between."""
    blocks = []
    for _ in range(5):
        contender.drain()
        gc.collect()
        started = time.perf_counter()
        for number in range(BLOCK):
            contender.record(number)
        blocks.append((time.perf_counter() - started) / BLOCK)
    contender.drain()
    return statistics.median(blocks)


def _percentiles(contender: Contender) -> tuple[float, float]:
    singles = []
    for number in range(SINGLE_CALLS):
        started = time.perf_counter()
        contender.record(number)
        singles.append(time.perf_counter() - started)
    singles.sort()
    return singles[len(singles) // 2], singles[len(singles) * 99 // 100]


def _ratio(own: Sequence[float], other: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(own, other, strict=True))


# --- A training loop ------------------------------------------------------------------------------------------
def print_training_loop(server: RedisServer, rounds: int) -> None:
    """Print how much of a training loop's time is spent in recording, with Redis well and with Redis that hangs."""
    print("\n### What a training loop loses\n")
    print("| contender | op | Redis | of the loop's time in recording |\n|---|---|---|---:|")
    for mode in ("well", "hung"):
        for op_seconds, name in ((0.002, "2 ms"), (0.0002, "0.2 ms")):
            for kind in (Nothing, Ours, AwaitedWrite):
                share = _median_share(server, kind, op_seconds, rounds, is_hung=mode == "hung")
                print(f"| {kind.name} | {name} | {mode} | {100 * share:.2f} % |")


def _median_share(
    server: RedisServer,
    kind: type[Nothing] | type[Ours] | type[AwaitedWrite],
    op_seconds: float,
    rounds: int,
    *,
    is_hung: bool,
) -> float:
    contender = kind(server.url)
    contender.record(0)
    contender.drain()
    if is_hung:
        server.freeze()
    try:
        return statistics.median(_share_in_recording(contender, op_seconds) for _ in range(rounds))
    finally:
        server.thaw()
        contender.drain()
        contender.close()


def _share_in_recording(contender: Contender, op_seconds: float) -> float:
    """Return the share of a loop's time that the calls take; the loop computes for about `op_seconds` an op."""
    work = _work(op_seconds)
    started = time.perf_counter()
    inside = 0.0
    number = 0
    while time.perf_counter() - started < LOOP_SECONDS:
        work()
        before = time.perf_counter()
        contender.record(number)
        inside += time.perf_counter() - before
        number += 1
    return inside / (time.perf_counter() - started)


def _work(seconds: float) -> Callable[[], None]:
    """Return a computation that takes about so long: matrix products, as a trainer's."""
    matrix = np.ones((96, 96), dtype=np.float32)
    started = time.perf_counter()
    for _ in range(50):
        matrix @ matrix
    products = max(1, round(seconds / ((time.perf_counter() - started) / 50)))

    def compute() -> None:
        for _ in range(products):
            matrix @ matrix

    return compute


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
    ours.record(0)
    ours.drain()
    for number in range(FLUSH_RECORDS):
        ours.record(number)
    ours.recorder.stats()  # folds: what is measured is encoding and sending
    started = time.perf_counter()
    assert ours.recorder.flush(120)
    seconds = time.perf_counter() - started
    ours.recorder.close(10)
    return FLUSH_RECORDS / seconds


# --- The import -----------------------------------------------------------------------------------------------
def print_import() -> None:
    """Print the processor time of the import in a fresh interpreter, beside that of the standard library's part."""
    print("\n### Import\n\n| import | ms |\n|---|---:|")
    for modules in ("dataclasses, json, logging, queue, threading, typing", "workers_client"):
        code = f"import time; t = time.process_time(); import {modules}; print(time.process_time() - t)"
        seconds = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(IMPORTS)]
        print(f"| {modules} | {min(seconds) * 1e3:.1f} |")


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
