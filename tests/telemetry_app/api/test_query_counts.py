"""An answer takes as many queries for many rows as for one."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from telemetry_app import readers
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, op, sample_failure, step_of_ops, worker
from tests.telemetry_app.api.conftest import run_path

pytestmark = pytest.mark.django_db
PATHS = ["/runs", "/runs?state=failing", "/failures", "/workers", "/workers/w-0"] + [
    run_path(RUN, part) for part in ("", "/steps", "/operations", "/failures")
]


def put(writer, now, numbers, kept):
    """Put one more of everything for each number, and keep it where it is wanted."""
    for number in numbers:
        at = now - 100 + number
        writer.operations(*step_of_ops(number, at=at), op(at=at, step=number, status="failed"))
        writer.operations(*step_of_ops(0, at=at, run_id=f"run-{number}"))
        writer.samples(sample_failure(at=at))
        writer.workers(worker(f"w-{number}", at=at))
        writer.steps(number + 1)
    take_snapshot()
    if kept == "history":
        writer.client.flushdb()


def cost_of(api, path, monkeypatch):
    """Return how many queries and how many round trips to Redis an answer takes."""
    path, _, query = path.partition("?")
    parameters = dict([query.split("=")]) if query else {}
    trips = []
    original = readers._pipeline

    def counted(commands):
        trips.append(1)
        return original(commands)

    with monkeypatch.context() as patch, CaptureQueriesContext(connection) as queries:
        patch.setattr(readers, "_pipeline", counted)
        api.answer(path, **parameters)
    return len(queries), len(trips)


@pytest.mark.parametrize("kept", ["both", "history"])
def test_an_answer_costs_as_much_for_many_rows_as_for_one(api, writer, now, monkeypatch, kept):
    put(writer, now, range(1), kept)
    one = {path: cost_of(api, path, monkeypatch) for path in PATHS}
    put(writer, now, range(1, 20), kept)
    many = {path: cost_of(api, path, monkeypatch) for path in PATHS}
    assert many == one
    assert max(queries for queries, _ in many.values()) <= 10
    assert max(trips for _, trips in many.values()) <= 6
