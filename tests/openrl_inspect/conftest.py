"""A running site with real records for tests of the command line and the agents' tools, and a way to call both."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis
from click.testing import CliRunner, Result

from openrl_inspect import addresses
from openrl_inspect.program import program
from tests.support.records import RecordWriter, op, step_of_ops, turn, worker
from tests.support.running_site import RunningSite
from workers_client import wire
from workers_client.wire_worker import OutstandingWork

HEALTHY, LOST, NEIGHBOUR = "open-rl/digits:train:0", "sess-lost-0001", "sess-neighbour-0002"
GONE_WORKER, BUSY_WORKER = "trainer-gone-1-0a", "trainer-busy-1-0b"
FAILED_ID = f"{BUSY_WORKER}:failed"


@dataclass(frozen=True)
class LiveSite:
    """Where a site is, how to sign in, and what writes records as its workers do."""

    url: str
    token: str
    writer: RecordWriter
    folder: Any


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    """One site for all tests, with a healthy run, its neighbour on the same device, and one that lost its worker."""
    folder = tmp_path_factory.mktemp("inspected")
    with RunningSite(folder, "--no-fleet") as running:
        running.wait_for("READY: ", timeout_seconds=300)  # once for all tests, however busy the machine
        access = running.access
        with redis.Redis.from_url(access["redis_url"], socket_timeout=5) as client:
            writer = RecordWriter(client)
            write_records(writer, time.time())
            yield LiveSite(access["url"], access["token"], writer, folder)


def write_records(writer: RecordWriter, now: float) -> None:
    """Write what the tests ask about."""
    for step in range(30):
        at = now - 300 + 10 * step
        fields = {"run_id": HEALTHY, "worker": BUSY_WORKER, "elapsed_seconds": 2.0, "queue_seconds": 1.5}
        metrics = {"loss:mean": 2.0 / (step + 1)}
        writer.operations(
            op(at=at - 2, started_at=at - 4, enqueued_at=at - 5.5, step=step, metrics=metrics, **fields),
            op(wire.OPTIM_STEP, at=at, started_at=at - 2, enqueued_at=at - 3.5, step=step, **fields),
        )
    failed = {"run_id": HEALTHY, "worker": BUSY_WORKER, "id": FAILED_ID, "error_type": "OutOfMemoryError"}
    writer.operations(op(at=now - 20, step=27, status="failed", **failed))
    writer.steps(30, run_id=HEALTHY, finished_at=tuple(now - 300 + 10 * step for step in range(30)))
    writer.operations(*step_of_ops(0, at=now - 400, run_id=LOST, worker=GONE_WORKER))
    writer.operations(*step_of_ops(0, at=now - 60, run_id=NEIGHBOUR, worker=BUSY_WORKER))
    writer.turns(*turns(now))
    held = OutstandingWork(
        run_id=LOST, operation="optim_step", count=1, oldest_at=now - 390, request_ids=("request-x",)
    )
    writer.workers(
        worker(GONE_WORKER, at=now - 380, runs=(LOST,), outstanding=(held,)),
        worker(BUSY_WORKER, at=now + 3_600, runs=(HEALTHY, NEIGHBOUR)),  # never late while the tests run
    )
    writer.ledger(LOST, enqueued=3, popped=3, answered=2, last_enqueued_at=now - 390)


def turns(now: float) -> list[wire.TurnRecord]:
    """Return a turn of the neighbour, one of the healthy run that waited for it, and two of no run."""

    def inside(run_id: str, start: float, end: float) -> wire.TurnOp:
        return wire.TurnOp(name="forward_backward", start=start, end=end, run_id=run_id, status="succeeded")

    synced = (wire.TurnOp(name="weight_sync", start=now - 74, end=now - 71),)
    return [
        turn(at=now - 70, workload="sampler", started_at=now - 75, ops=synced),
        turn(at=now - 70, workload="elsewhere", node="n-2", started_at=now - 75, ops=synced),
        turn(at=now - 60, workload="next", started_at=now - 70, ops=(inside(NEIGHBOUR, now - 69, now - 61),)),
        turn(
            at=now - 50,
            workload="mine",
            node="n-1",
            requested_at=now - 68,
            started_at=now - 60,
            ops=(inside(HEALTHY, now - 59, now - 51),),
        ),
    ]


@pytest.fixture(autouse=True)
def _no_other_site(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Keep the tests from a site and a configuration of whoever runs them."""
    for name in (addresses.URL_VARIABLE, addresses.TOKEN_VARIABLE, "VAR_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(addresses.CONFIG_VARIABLE, str(tmp_path / "config" / "config.json"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def inspect(site: LiveSite, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run a command against the site; `columns` makes its output that of a terminal of so many."""
    monkeypatch.setenv(addresses.URL_VARIABLE, site.url)
    monkeypatch.setenv(addresses.TOKEN_VARIABLE, site.token)

    def run(*arguments: str, columns: int | None = None, status: int = 0) -> Result:
        environment = {"COLUMNS": str(columns)} if columns else {}
        shown = ("--table",) if columns else ()
        result = CliRunner(env=environment).invoke(program, [*arguments, *shown])
        assert result.exit_code == status, (result.output, result.exception)
        return result

    return run


@pytest.fixture
def answer(inspect: Callable[..., Result]) -> Callable[..., Any]:
    """Run a command and return the JSON that it writes into a pipe."""
    return lambda *arguments, **options: json.loads(inspect(*arguments, **options).stdout)


@pytest.fixture
def site_environment(site: LiveSite) -> dict[str, str]:
    """The environment of a process that asks the site."""
    return {**os.environ, addresses.URL_VARIABLE: site.url, addresses.TOKEN_VARIABLE: site.token}
