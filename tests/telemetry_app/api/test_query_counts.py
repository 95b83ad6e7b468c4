"""An answer takes as many queries for many rows as for one."""

from __future__ import annotations

import pytest

from telemetry_app.snapshots import take_snapshot
from tests.support.costs import cost_of
from tests.support.records import RUN, op, sample_failure, step_of_ops, worker
from tests.telemetry_app.api.conftest import run_path

pytestmark = pytest.mark.django_db
PATHS = ["/runs", "/runs?state=failing", "/failures", "/workers", "/workers/w-0", "/requests"] + [
    run_path(RUN, part) for part in ("", "/steps", "/operations", "/failures", "/requests")
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


@pytest.mark.parametrize("kept", ["both", "history"])
def test_an_answer_costs_as_much_for_many_rows_as_for_one(api, writer, now, monkeypatch, kept):
    put(writer, now, range(1), kept)
    one = {path: cost_of(api, path, monkeypatch) for path in PATHS}
    put(writer, now, range(1, 20), kept)
    many = {path: cost_of(api, path, monkeypatch) for path in PATHS}
    assert many == one
    assert max(queries for queries, _ in many.values()) <= 10
    assert max(trips for _, trips in many.values()) <= 6
