"""A whole site whose Celery worker is up and takes no work: readiness finds it, and live answers go on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.support.running_site import START_SECONDS, RunningSite, processes_on

WAIT_SECONDS = 30.0


def readiness(site: RunningSite) -> tuple[int, list[str]]:
    status, body = site.get("/readyz")
    return status, json.loads(body)["failed"]


def wait_until(site: RunningSite, is_so: Callable[[tuple[int, list[str]]], bool]) -> tuple[int, list[str]]:
    """Return what readiness says once it says so, or when the time is over."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so(found := readiness(site)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


@pytest.mark.processes
def test_a_worker_that_is_up_and_takes_no_work_is_found(tmp_path) -> None:
    limits = {"TELEMETRY_SNAPSHOT_INTERVAL_SECONDS": "1", "TELEMETRY_SNAPSHOT_AGE_LIMIT_SECONDS": "5"}
    with RunningSite(tmp_path, "--no-fleet", **limits) as site:
        site.wait_for("READY: ", timeout_seconds=START_SECONDS)
        assert wait_until(site, lambda found: found[0] == 200) == (200, [])
        workers = processes_on(tmp_path, "openrl_site.celery worker")
        assert workers
        for process in workers:
            process.suspend()
        try:
            assert wait_until(site, lambda found: found[0] == 503) == (503, ["snapshot"])
            assert site.get("/healthz")[0] == 200
            assert site.get("/api/v1/inspect/runs", token=site.access["token"])[0] == 200
        finally:
            for process in workers:
                process.resume()
        assert wait_until(site, lambda found: found[0] == 200) == (200, [])
