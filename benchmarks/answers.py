"""How long `/steps?last=20` takes with 2,000 op records in Redis, beside what it can't do without.

usage: script/benchmark answers [--rounds N]. The floor is an empty view on the same server, the raw read of the
records, and parsing them; the answer comes over HTTP from the site's own server, at 1 and at 16 callers.
"""

from __future__ import annotations

import argparse
import http.client
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from benchmarks.ingest import _fill
from benchmarks.site import running_site

RUN = "run-00000"
RECORDS = 2_000
CALLS = 64  # of all callers together
STEPS = f"/api/v1/inspect/runs/{RUN}/steps?last=20"
EMPTY = "/benchmark/empty"
START_SECONDS = 30.0


def main() -> None:
    """Measure round by round, interleaved, and print the table."""
    parser = argparse.ArgumentParser(prog="script/benchmark answers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with running_site():
        _fill(RECORDS)
        token = _token()
        with _server() as port:
            print(f"\n### `/steps?last=20` of a run with {RECORDS:,} op records in Redis, in ms\n")
            print("| callers | empty view | raw read | parsing | floor | answer | times the floor |")
            print("|---:|---:|---:|---:|---:|---:|---:|")
            for callers in (1, 16):
                _print_row(port, token, callers, rounds)


def _print_row(port: int, token: str, callers: int, rounds: int) -> None:
    rows = []
    for _ in range(rounds):
        empty = _ms_of_calls(port, EMPTY, token, callers)
        read, parsed = _ms(_read), _ms(_parse)
        answer = _ms_of_calls(port, STEPS, token, callers)
        # The server has one process: callers wait for each other's reading and parsing, too.
        floor = empty + (read + parsed) * callers
        rows.append((empty, read, parsed, floor, answer, answer / floor))
    cells = [statistics.median(column) for column in zip(*rows, strict=True)]
    print(f"| {callers} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")


def _ms_of_calls(port: int, path: str, token: str, callers: int) -> float:
    """Return the median milliseconds of one answer while so many callers ask at once."""
    with ThreadPoolExecutor(callers) as pool:
        seconds = [
            one for found in pool.map(lambda _: _call(port, path, token, callers), range(callers)) for one in found
        ]
    return statistics.median(seconds) * 1e3


def _call(port: int, path: str, token: str, callers: int) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    seconds = []
    for number in range(CALLS // callers + 3):
        started = time.perf_counter()
        connection.request("GET", path, headers={"Authorization": f"Token {token}"})
        answer = connection.getresponse()
        body = answer.read()
        if number >= 3:  # warm
            seconds.append(time.perf_counter() - started)
        assert answer.status == 200, body[:500]
    connection.close()
    return seconds


def _ms(call: Callable[[], object]) -> float:
    seconds = []
    for _ in range(CALLS):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds) * 1e3


def _read() -> list[bytes]:
    from django_redis import get_redis_connection

    from workers_client import wire

    found: list[bytes] = get_redis_connection("telemetry").lrange(wire.operations_key(RUN), 0, -1)
    return found


def _parse() -> None:
    from workers_client import wire

    if not _raw:
        _raw.extend(_read())
    for element in _raw:
        wire.parse_operation(element, run_id=RUN)


_raw: list[bytes] = []


def _token() -> str:
    from django.contrib.auth import get_user_model

    from telemetry_app.models.access import ApiToken

    user = get_user_model().objects.create_superuser("benchmark")
    _, key = ApiToken.objects.issue(user=user, name="benchmark")
    return key


@contextmanager
def _server() -> Iterator[int]:
    """Start the site's web server; gives its port once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "benchmarks.answer_settings", "ALLOWED_HOSTS": "127.0.0.1"}
    command = [
        sys.executable, "-m", "granian", "--interface", "asginl", "--port", str(port), "--no-ws", "--log-level",
        "error",
        "openrl_site.asgi:application",
    ]  # fmt: skip
    process = subprocess.Popen(command, env=environment)
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(10)


if __name__ == "__main__":
    main()
