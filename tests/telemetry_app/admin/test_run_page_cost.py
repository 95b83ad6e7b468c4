"""The run page reads its sources once: queries and round trips to Redis are counted."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.test import Client

from telemetry_app.snapshots import take_snapshot
from tests.support.costs import cost_of
from tests.support.records import RUN, WORKER, RecordWriter, op, step_of_ops, turn, worker
from workers_client.wire_worker import OutstandingWork

pytestmark = pytest.mark.django_db
PAGE = f"/admin/telemetry_app/run/{RUN}/change/"


class Pages:
    """Pages as the counting helper asks for them."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def answer(self, path: str, **query: Any) -> None:
        assert self.client.get(path, query).status_code == 200


def put(writer: RecordWriter, steps: int) -> None:
    now = time.time()
    for number in range(steps):
        writer.operations(*step_of_ops(number, at=now - 2 * steps + 2 * number))
    writer.operations(op(at=now - 1, status="failed", error_type="ValueError", step=steps))
    writer.steps(steps)
    writer.turns(turn(at=now - 5))
    held = (OutstandingWork(RUN, "optim_step", 1, now - 3, ("request",)),)
    writer.workers(worker(WORKER, at=now, outstanding=held))


def test_it_reads_once_however_much_there_is(
    admin_client: Client, writer: RecordWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(writer, 3)
    take_snapshot()
    admin_client.get(PAGE)
    few = cost_of(Pages(admin_client), PAGE, monkeypatch)
    put(writer, 60)
    take_snapshot()
    assert cost_of(Pages(admin_client), PAGE, monkeypatch) == few
    # The session, the user, the run, and 14 more; its records, the workers, and the runs it is compared with.
    # While each part of the page read for itself, they were 27 and 15.
    assert few == (17, 5)
