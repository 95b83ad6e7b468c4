"""Workers for tests of the client: recorders in this process, real processes, and the sum check."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from workers_client import wire
from workers_client.buffer import FAILURE, OPERATION
from workers_client.config import make_config
from workers_client.core import Core
from workers_client.recorder import Recorder

ROOT = Path(__file__).resolve().parents[2]
RUN = "run-a"
WAIT_SECONDS = 30.0


def make_recorder(url: str, role: str = "trainer", **options: Any) -> Recorder:
    """Return a recorder of its own, beside the one that `start()` makes; its thread ends with `end_recorder`."""
    defaults: dict[str, Any] = {
        "interval_seconds": 0.2,
        "max_records": 50_000,
        "max_bytes": 64 * 1024 * 1024,
        "socket_timeout": 0.3,
    }
    return Recorder(Core(make_config(role, redis_url=url, **(defaults | options))), role)


def end_recorder(recorder: Recorder) -> None:
    """Stop a recorder's thread, whether or not Redis answers."""
    core = recorder._core
    core.exited = core.exited or (time.time(), "test ended")
    core.flusher.stop()
    thread = core.flusher._thread
    if thread is not None:
        thread.join(10)
    core.transport.close()


def command(number: int, operation: str = wire.FORWARD_BACKWARD, run: str = RUN) -> dict[str, Any]:
    """Return a command as an API server queues it."""
    return {"request_id": f"req-{number}", "op": operation, "model_id": run, "payload": {}, "trace_context": None}


def record_ops(recorder: Recorder, numbers: range, operation: str = wire.FORWARD_BACKWARD, run: str = RUN) -> None:
    """Record the whole life of so many ops."""
    for number in numbers:
        wanted = command(number, operation, run)
        recorder.enqueued(wanted)
        recorder.popped([wanted])
        with recorder.operation(wanted) as op:
            op.finish({"type": "done", "metrics": {"loss:sum": 1.5}})
        recorder.answered(wanted, {"type": "done"})


def stored_ids(client: redis.Redis, run: str = RUN) -> list[str]:
    """Return the ids in a run's list, oldest first."""
    raw = client.lrange(wire.operations_key(run), 0, -1)
    return [str(wire.parse_operation(element, run_id=run).id) for element in raw]


def check_sums(recorder: Recorder, client: redis.Redis, *runs: str) -> None:
    """Check that `produced = sent + dropped + buffered` for each kind, and that Redis holds each sent op once.

    `runs` are all that the recorder had to do with, `run-a` unless named, with no more than their lists can hold.
    """
    runs = runs or (RUN,)
    stats = recorder.stats()
    for kind, produced in stats["produced"].items():
        dropped = sum(stats["dropped"].get(kind, {}).values())
        assert produced == stats["sent"][kind] + dropped + stats["buffered"][kind], kind
    ids = [record_id for run in runs for record_id in stored_ids(client, run)]
    assert len(ids) == len(set(ids)), "a record stands twice"
    assert len(ids) == stats["sent"][OPERATION] + stats["sent"][FAILURE]


def ledger(client: redis.Redis, run: str = RUN) -> dict[str, int]:
    """Return the counts of a run's ledger."""
    raw = client.hgetall(wire.ledger_key(run))
    return {name: int(raw.get(name.encode(), 0)) for name in wire.LEDGER_COUNTS}


def failed_flushes(recorder: Recorder) -> int:
    """Return how many flushes got no answer so far."""
    return int(recorder.stats()["failed_flushes"])


def wait_until(is_true: Callable[[], bool], what: str) -> None:
    """Wait for something that must come, for half a minute at most."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.02)


def run_script(
    source: str, url: str, *, python: str = sys.executable, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a small program that records to `url` and return how it ended; `options` are variables of its environment."""
    return subprocess.run(
        [python, "-c", source],
        cwd=ROOT,
        env={"REDIS_URL": url, "PATH": "/usr/bin:/bin", **options},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS * 2,
    )
