"""What recording costs a training loop: parse a command, compute, build its result, record; with Redis well and hung.

A loop's caches are cold when it records: other code ran since. So a call costs several times what it costs in a row, an
empty one too, and how much is the machine's doing; the limit stands beside.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from resource import RUSAGE_THREAD, getrusage
from typing import NamedTuple

import numpy as np

from benchmarks.contenders import AwaitedWrite, Contender, Nothing, Ours, TupleAppend
from benchmarks.redis_server import RedisServer
from benchmarks.workload import COMMANDS, COUNT, RESULTS

WINDOW_SECONDS = 2.0
FLUSH_SECONDS = 1.0  # a fifth of what is usual, so that each window has flushes
OP_LENGTHS = ((0.002, "2 ms"), (0.0002, "0.2 ms"))
_COMMANDS = [json.dumps(command) for command in COMMANDS]
_RESULTS = [json.dumps(result) for result in RESULTS]


class Window(NamedTuple):
    """One contender's calls in one window, in seconds."""

    mean_seconds: float
    median_seconds: float


def print_training_loop(server: RedisServer, rounds: int) -> None:
    """Print what a call costs in the loop, and what part of the loop's time that is."""
    print("\n### What a training loop loses\n")
    print("| contender | op | Redis | a call, median | of the loop's time, mean |\n|---|---|---|---:|---:|")
    for mode in ("well", "hung"):
        for op_seconds, length in OP_LENGTHS:
            compute = _computation(op_seconds)
            windows: dict[str, list[Window]] = {}
            for _ in range(rounds):
                for make in _CONTENDERS:
                    name, window = _measure(server, make, compute, is_hung=mode == "hung")
                    windows.setdefault(name, []).append(window)
            for name, measured in windows.items():
                median = statistics.median(window.median_seconds for window in measured)
                mean = statistics.median(window.mean_seconds for window in measured)
                share = mean / (op_seconds + mean)
                print(f"| {name} | {length} | {mode} | {median * 1e6:,.1f} µs | {100 * share:.2f} % |")


_CONTENDERS: tuple[Callable[[str], Contender], ...] = (
    lambda url: Nothing(),
    lambda url: TupleAppend(),
    lambda url: Ours(url, interval_seconds=FLUSH_SECONDS),
    AwaitedWrite,
)


def _measure(
    server: RedisServer, make: Callable[[str], Contender], compute: Callable[[], None], *, is_hung: bool
) -> tuple[str, Window]:
    """Run one window of one contender, alone."""
    contender = make(server.url)
    contender.record(COMMANDS[0], RESULTS[0])
    contender.drain()
    if is_hung:
        server.freeze()
    try:
        return contender.name, _run(contender, compute)
    finally:
        server.thaw()
        contender.drain()
        contender.close()


def _run(contender: Contender, compute: Callable[[], None]) -> Window:
    """Run the loop. A call from which the kernel took the processor for another program says nothing, and is left out,
    unless most are so: it is the contender then that woke the other one. Waiting for Python's global lock, for a socket
    or for memory counts."""
    seconds: list[float] = []
    undisturbed: list[float] = []
    ends_at = time.perf_counter() + WINDOW_SECONDS
    number = 0
    while time.perf_counter() < ends_at:
        command = json.loads(_COMMANDS[number % COUNT])
        compute()
        result = json.loads(_RESULTS[number % COUNT])
        switches = getrusage(RUSAGE_THREAD).ru_nivcsw
        started = time.perf_counter()
        contender.record(command, result)
        seconds.append(time.perf_counter() - started)
        if getrusage(RUSAGE_THREAD).ru_nivcsw == switches:
            undisturbed.append(seconds[-1])
        number += 1
    if len(undisturbed) > len(seconds) / 2:
        seconds = undisturbed
    return Window(statistics.fmean(seconds), statistics.median(seconds))


def _computation(seconds: float) -> Callable[[], None]:
    """Return a computation that takes about so long where nothing disturbs it: matrix products, as a trainer's."""
    matrix = np.ones((96, 96), dtype=np.float32)

    def compute(products: int) -> None:
        for _ in range(products):
            matrix @ matrix

    shortest = float("inf")
    for _ in range(30):
        started = time.perf_counter()
        compute(20)
        shortest = min(shortest, (time.perf_counter() - started) / 20)
    products = max(1, round(seconds / shortest))
    return lambda: compute(products)
