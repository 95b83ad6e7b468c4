"""One record's whole way with real processes: hook, buffer, Redis, snapshot, API, admin page.

A newcomer can read it from top to bottom to see where a record is at each moment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from django.db import connection
from django.test import Client

from telemetry_app.models import Operation, Run
from workers_client import wire

ROOT = Path(__file__).resolve().parents[1]
RUN = "Qwen/Qwen3-8B:train:0"

# A trainer as its owner would write it: pops one command, runs it, answers. It prints what its recorder counts before
# and after the flush, and then exits on its own.
TRAINER = f"""
import json, workers_client
recorder = workers_client.start(role="trainer", interval_seconds=60)
command = {{"request_id": "req-1", "op": "optim_step", "model_id": {RUN!r}, "payload": {{}}, "trace_context": None}}
recorder.enqueued(command)
recorder.popped([command])
with recorder.operation(command) as op:
    op.finish({{"type": "optim_step_completed", "metrics": {{"grad_norm:mean": 0.25}}}}, tokens=34)
recorder.answered(command, {{"type": "optim_step_completed"}})
before = recorder.stats()
recorder.flush(10)
print(json.dumps([before, recorder.stats(), recorder.worker]))
"""


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_a_record_goes_from_the_hook_to_the_admin_page(redis_client: redis.Redis, admin_client: Client) -> None:
    # hook → buffer: the record waits in the worker's memory
    before, after, worker = _run_trainer()
    assert before["buffered"]["operation"] == 1
    assert before["sent"]["operation"] == 0

    # buffer → Redis: one element in the run's list, and the totals with it
    assert after["buffered"]["operation"] == 0
    assert after["sent"]["operation"] == 1
    [raw] = redis_client.lrange(wire.operations_key(RUN), 0, -1)
    record = wire.parse_operation(raw, run_id=RUN)
    assert (record.id, record.request_id, record.step) == (f"{worker}:1", "req-1", 0)
    assert redis_client.get(wire.steps_key(RUN)) == b"1"
    assert redis_client.hget(wire.ledger_key(RUN), "answered") == b"1"

    # live answer: before any snapshot
    assert _steps(admin_client)["coverage"]["source"] == "live"

    # Redis → PostgreSQL: by the command that does what the periodic task does, twice: it counts once
    assert _snapshot()["rows_written"] == 1
    assert _snapshot()["rows_written"] == 0
    row = Operation.objects.get()
    assert (row.run_id, row.record_id, row.metrics, row.tokens) == (RUN, record.id, {"grad_norm:mean": 0.25}, 34)
    assert Run.objects.get().steps_completed == 1

    # PostgreSQL → API: the same step once Redis is empty
    live = _steps(admin_client)
    redis_client.flushdb()
    stored = _steps(admin_client)
    assert stored["coverage"]["source"] == "history"
    assert stored["results"] == live["results"]
    [step] = stored["results"]
    assert step["completed"] is True
    assert step["operations"]["optim_step"]["metrics"]["grad_norm:mean"]["last"] == 0.25

    # API → admin page: the same figures for a person
    page = admin_client.get(f"/admin/telemetry_app/run/{RUN.replace('/', '_2F').replace(':', '_3A')}/change/")
    assert page.status_code == 200
    shown = page.content.decode()
    assert RUN in shown
    assert "grad_norm:mean" in shown
    assert "0.25" in shown


def _run_trainer() -> tuple[dict, dict, str]:
    done = subprocess.run(
        [sys.executable, "-c", TRAINER], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    before, after, worker = json.loads(done.stdout)
    return before, after, worker


def _snapshot() -> dict[str, int]:
    """Take a snapshot in a process of its own, into the database of this test."""
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    done = subprocess.run(
        [sys.executable, "manage.py", "snapshot", "--json"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout)


def _steps(client: Client) -> dict:
    answer = client.get(f"/api/v1/inspect/runs/{RUN}/steps")
    assert answer.status_code == 200
    return answer.json()
