"""What recording costs a training loop: matrix products for 2 or 0.2 ms, then one op recorded; Redis well and hung.

As a trainer does, the loop makes the command before it computes and the result after, and records what it just made. A
loop's caches are cold when it records: other code ran since. So a call costs several times what it costs in a row, an
empty one too, and how much is the machine's doing: the empty call and the limit stand beside. Each contender runs
without recording, with it twice, and without again, so that a machine that gets slower meanwhile favours nobody.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.contenders import AwaitedWrite, Contender, Nothing, Ours, TupleAppend
from benchmarks.redis_server import RedisServer
from benchmarks.workload import make_command, make_result

SEGMENT_SECONDS = 1.2
FLUSH_SECONDS = 1.0  # a fifth of what is usual, so that each segment has a flush
OP_LENGTHS = ((0.002, "2 ms"), (0.0002, "0.2 ms"))


class Segment(NamedTuple):
    """Iterations of the loop in a row: seconds of one, and of the call in it where it recorded."""

    op_seconds: float
    call_seconds: float


class Loss(NamedTuple):
    """What one round of a contender lost: a call's mean seconds, its share of the loop, and of the loop's speed."""

    call_seconds: float
    call_share: float
    speed_share: float


def print_training_loop(server: RedisServer, rounds: int) -> None:
    """Print what a call costs in the loop, what part of the loop's time that is, and how much slower the loop runs."""
    print("\n### What a training loop loses\n")
    print("| contender | op | Redis | a call, mean | of the loop's time, in calls | of its speed, flushes included |")
    print("|---|---|---|---:|---:|---:|")
    for mode in ("well", "hung"):
        for op_seconds, length in OP_LENGTHS:
            compute = _computation(op_seconds)
            losses: dict[str, list[Loss]] = {}
            for _ in range(rounds):
                for make in _CONTENDERS:
                    name, loss = _measure(server, make, compute, is_hung=mode == "hung")
                    losses.setdefault(name, []).append(loss)
            for name, measured in losses.items():
                call, in_calls, of_speed = (statistics.median(column) for column in zip(*measured, strict=True))
                print(
                    f"| {name} | {length} | {mode} | {call * 1e6:,.1f} µs | {100 * in_calls:.2f} % "
                    f"| {100 * of_speed:.1f} % |"
                )


_CONTENDERS: tuple[Callable[[str], Contender], ...] = (
    lambda url: Nothing(),
    lambda url: TupleAppend(),
    lambda url: Ours(url, interval_seconds=FLUSH_SECONDS),
    AwaitedWrite,
)


def _measure(
    server: RedisServer, make: Callable[[str], Contender], compute: Callable[[], None], *, is_hung: bool
) -> tuple[str, Loss]:
    """Run one round of one contender, alone."""
    contender = make(server.url)
    contender.record(make_command(0), make_result(0))
    contender.drain()
    if is_hung:
        server.freeze()
    try:
        before = _without(compute)
        recording = [_recording(contender, compute) for _ in range(2)]
        after = _without(compute)
    finally:
        server.thaw()
        contender.drain()
        contender.close()
    base = (before.op_seconds + after.op_seconds) / 2
    call = statistics.fmean(segment.call_seconds for segment in recording)
    whole = statistics.fmean(segment.op_seconds for segment in recording)
    return contender.name, Loss(call, call / (base + call), 1 - base / whole)


def _without(compute: Callable[[], None]) -> Segment:
    count = 0
    started = time.perf_counter()
    while time.perf_counter() - started < SEGMENT_SECONDS:
        make_command(count)
        compute()
        make_result(count)
        count += 1
    return Segment((time.perf_counter() - started) / count, 0.0)


def _recording(contender: Contender, compute: Callable[[], None]) -> Segment:
    count, in_calls, now = 0, 0.0, time.perf_counter
    started = now()
    while now() - started < SEGMENT_SECONDS:
        command = make_command(count)
        compute()
        result = make_result(count)
        called = now()
        contender.record(command, result)
        in_calls += now() - called
        count += 1
    return Segment((now() - started) / count, in_calls / count)


def _computation(seconds: float) -> Callable[[], None]:
    """Return a computation that takes about so long where nothing disturbs it: matrix products, as a trainer's."""
    generator = np.random.default_rng(1)
    left, right = (generator.random((128, 128), dtype=np.float32) for _ in range(2))
    product = np.empty_like(left)

    def compute(products: int) -> None:
        for _ in range(products):
            np.matmul(left, right, out=product)

    shortest = float("inf")
    for _ in range(30):
        started = time.perf_counter()
        compute(50)
        shortest = min(shortest, (time.perf_counter() - started) / 50)
    products = max(1, round(seconds / shortest))
    return lambda: compute(products)
