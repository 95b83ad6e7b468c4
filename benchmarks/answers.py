"""How long `/steps?last=20` takes with 2,000 op records in Redis, beside what it can't do without.

usage: script/benchmark answers [--rounds N] [--peers PYTHON]. The floor is an empty view on the same server, the raw
read of the records, and parsing them; the answer comes over HTTP from the site's own server, at 1 and at 16 callers.
"""

from __future__ import annotations

import argparse
import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.answer_peers import Target, free_port, peers, wait_for
from benchmarks.ingest import _fill
from benchmarks.site import running_site

RUN = "run-00000"
RECORDS = 2_000
CALLS = 64  # of all callers together
STEPS = f"/api/v1/inspect/runs/{RUN}/steps?last=20"
EMPTY = "/benchmark/empty"


def main() -> None:
    """Measure round by round, interleaved, and print the tables."""
    parser = argparse.ArgumentParser(prog="script/benchmark answers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", metavar="PYTHON", help="of an environment with benchmarks/peers.txt: ask those too")
    options = parser.parse_args()
    with running_site(), tempfile.TemporaryDirectory(prefix="telemetry-peers-") as folder, ExitStack() as stack:
        _fill(RECORDS)
        headers = {"Authorization": f"Token {_token()}"}
        port = stack.enter_context(_server())
        _print_floor(Target("", port, EMPTY, headers), Target("", port, STEPS, headers), options.rounds)
        if options.peers:
            found = stack.enter_context(peers(options.peers, Path(folder)))
            ours = Target("`/steps?last=20`, of 2,000 op records with 8 metrics", port, STEPS, headers)
            _print_peers([ours, *found], options.rounds)


def _print_floor(empty: Target, steps: Target, rounds: int) -> None:
    print(f"\n### `/steps?last=20` of a run with {RECORDS:,} op records in Redis, in ms\n")
    print("| callers | empty view | raw read | parsing | floor | answer | times the floor |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for callers in (1, 16):
        rows = []
        for _ in range(rounds):
            nothing = _ms_of_calls(empty, callers)
            read, parsed = _ms(_read), _ms(_parse)
            answer = _ms_of_calls(steps, callers)
            # The server has one process: callers wait for each other's reading and parsing, too.
            floor = nothing + (read + parsed) * callers
            rows.append((nothing, read, parsed, floor, answer, answer / floor))
        cells = [statistics.median(column) for column in zip(*rows, strict=True)]
        print(f"| {callers} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |", flush=True)


def _print_peers(targets: list[Target], rounds: int) -> None:
    print("\n### Beside others, in ms\n")
    print("| asked | 1 caller | times ours | 16 callers | times ours |")
    print("|---|---:|---:|---:|---:|")
    found: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for callers in (1, 16):
            for target in targets:
                found.setdefault((target.name, callers), []).append(_ms_of_calls(target, callers))
    for target in targets:
        cells = []
        for callers in (1, 16):
            theirs, ours = found[target.name, callers], found[targets[0].name, callers]
            ratio = statistics.median(one / other for one, other in zip(theirs, ours, strict=True))
            cells += [f"{statistics.median(theirs):.1f}", f"{ratio:.1f}"]
        print(f"| {target.name} | " + " | ".join(cells) + " |", flush=True)


def _ms_of_calls(target: Target, callers: int) -> float:
    """Return the median milliseconds of one answer while so many callers ask at once."""
    with ThreadPoolExecutor(callers) as pool:
        seconds = [one for found in pool.map(lambda _: _call(target, callers), range(callers)) for one in found]
    return statistics.median(seconds) * 1e3


def _call(target: Target, callers: int) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=60)
    seconds = []
    for number in range(CALLS // callers + 3):
        started = time.perf_counter()
        answer, body = _ask(connection, target)
        if number >= 3:  # warm
            seconds.append(time.perf_counter() - started)
        assert answer.status == 200, body[:500]
    connection.close()
    return seconds


def _ask(connection: http.client.HTTPConnection, target: Target) -> tuple[http.client.HTTPResponse, bytes]:
    """Ask once, and again where the server closed a connection that it had kept open."""
    for _ in range(3):
        try:
            connection.request("POST" if target.body else "GET", target.path, target.body, target.headers)
            answer = connection.getresponse()
            return answer, answer.read()
        except (http.client.RemoteDisconnected, ConnectionError):
            connection.close()
    raise ConnectionError(f"{target.name} closes every connection")


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
    port = free_port()
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "benchmarks.answer_settings", "ALLOWED_HOSTS": "127.0.0.1"}
    command = [
        sys.executable, "-m", "granian", "--interface", "asginl", "--port", str(port), "--no-ws", "--log-level",
        "error",
        "openrl_site.asgi:application",
    ]  # fmt: skip
    process = subprocess.Popen(command, env=environment)
    try:
        wait_for(port)
        yield port
    finally:
        process.terminate()
        process.wait(10)


if __name__ == "__main__":
    main()
