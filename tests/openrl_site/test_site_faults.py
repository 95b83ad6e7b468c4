"""A whole site whose Celery worker, PostgreSQL and Redis are killed while records come: each record is there once."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.support.running_site import START_SECONDS, RunningSite, processes_on
from workers_client.config import make_config
from workers_client.core import Core
from workers_client.recorder import Recorder

RUN = "run-a"
BATCH = 200
BATCHES = 13  # more than Redis keeps of a run: what is killed must lose nothing that only history has
WAIT_SECONDS = 60.0


def record(recorder: Recorder, first: int) -> None:
    """Record one batch of ops and deliver it, whatever Redis does meanwhile."""
    for number in range(first, first + BATCH):
        command = {"request_id": f"r-{number}", "op": "forward_backward", "model_id": RUN, "payload": {}}
        with recorder.operation(command) as op:
            op.finish({"type": "forward_backward_completed", "metrics": {"loss:sum": 1.0}})
        recorder.answered(command, {"type": "forward_backward_completed"})
    deadline = time.monotonic() + WAIT_SECONDS
    while not recorder.flush(5):
        assert time.monotonic() < deadline


def victims(folder: Path, name: str) -> list[psutil.Process]:
    """Return the processes of one program of the site: its first one, whose end is the program's."""
    words = {"worker": "openrl_site.celery worker", "postgres": "postgres -D", "redis": "redis-server"}[name]
    found = processes_on(folder, words)
    return [process for process in found if process.ppid() not in {other.pid for other in found}]


def stored(site: RunningSite) -> tuple[int, int]:
    """Return how many op rows PostgreSQL has, and of how many records; none while it is out."""
    try:
        with psycopg.connect(site.access["database_url"], connect_timeout=2) as connection:
            found = connection.execute("SELECT count(*), count(DISTINCT record_id) FROM telemetry_app_operation")
            return found.fetchone() or (0, 0)
    except psycopg.Error:
        return 0, 0


def coverage_of(site: RunningSite) -> dict[str, object]:
    status, body = site.get(f"/api/v1/inspect/runs/{RUN}", token=site.access["token"])
    return json.loads(body)["coverage"] if status == 200 else {}


@pytest.mark.processes
def test_records_survive_the_death_of_worker_postgres_and_redis(tmp_path) -> None:
    with RunningSite(tmp_path, "--no-fleet", TELEMETRY_SNAPSHOT_INTERVAL_SECONDS="1") as site:
        site.wait_for("READY: ", timeout_seconds=START_SECONDS)
        config = make_config(
            "trainer", redis_url=site.access["redis_url"], interval_seconds=1.0, max_records=50_000,
            max_bytes=64 << 20, socket_timeout=1.0,
        )  # fmt: skip
        recorder = Recorder(Core(config), "trainer")
        deaths = {3: "worker", 6: "postgres", 9: "redis", 11: "worker"}
        for batch in range(BATCHES):
            if batch in deaths:
                found = victims(tmp_path, deaths[batch])
                assert found, deaths[batch]
                for process in found:
                    process.send_signal(signal.SIGKILL)
            record(recorder, batch * BATCH)
            wait_for_snapshot(site, (batch + 1) * BATCH)
        stats = recorder.stats()
        assert sum(stats["produced"].values()) == BATCH * BATCHES == sum(stats["sent"].values())
        assert stored(site) == (BATCH * BATCHES, BATCH * BATCHES)
        told = coverage_of(site)
        assert (told["missing_records"], told["conflicts"], told["malformed"]) == (0, 0, 0)
        recorder.close(5)


def wait_for_snapshot(site: RunningSite, taken: int) -> None:
    """Wait until history has so many ops: batches that pile up would leave Redis untaken, as they should."""
    deadline = time.monotonic() + WAIT_SECONDS
    while stored(site)[0] < taken:
        assert time.monotonic() < deadline, site.lines[-20:]
        time.sleep(0.2)
