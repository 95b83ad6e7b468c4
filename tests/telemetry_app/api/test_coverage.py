"""What an answer about a run says it could not see."""

from __future__ import annotations

import pytest

from telemetry_app.snapshots import take_snapshot
from telemetry_app.tasks import retention
from tests.support.records import RUN, op
from tests.telemetry_app.api.conftest import run_path
from workers_client import wire
from workers_client.wire import OPTIM_STEP

pytestmark = pytest.mark.django_db


def coverage(api, path="/steps"):
    return api.answer(run_path(RUN, path))["coverage"]


def test_records_that_left_redis_untaken_stand_in_every_answer(api, writer, now):
    writer.operations(op(at=now - 60, id="w:1"))
    writer.ledger(recorded=1)
    take_snapshot()
    writer.client.delete(wire.operations_key(RUN))
    writer.operations(op(at=now - 5, id="w:9"))
    writer.ledger(recorded=9)
    take_snapshot()
    for path in ("", "/steps", "/operations", "/failures"):
        told = coverage(api, path)
        assert (told["complete"], told["missing_records"]) == (False, 7)
        [gap] = told["gaps"]
        assert (gap["list"], gap["records_count"]) == (wire.operations_key(RUN), 7)
        assert gap["after_at"] < gap["before_at"] < gap["found_at"]


def test_a_record_told_twice_with_other_content_is_a_conflict(api, writer, now):
    writer.operations(op(at=now - 60, id="w:1", elapsed_seconds=1.0))
    take_snapshot()
    writer.operations(op(at=now - 60, id="w:1", elapsed_seconds=9.0))
    take_snapshot()
    assert coverage(api)["conflicts"] == 1


def test_the_lag_of_the_newest_snapshot_and_the_newest_retention_are_told(api, writer, now):
    writer.operations(op(at=now - 60), op(at=now - 50))
    take_snapshot()
    told = coverage(api)
    assert told["snapshot_lag_records"] == 2
    assert told["snapshot_lag_seconds"] >= 60
    assert told["last_retention_at"] is None
    retention()
    assert coverage(api)["last_retention_at"] is not None


def test_a_step_of_a_wrong_clock_has_no_years_of_wall_time(api, writer, now):
    writer.steps(2)
    writer.operations(
        op(OPTIM_STEP, at=now - 20, step=0, id="w:1"), op(OPTIM_STEP, at=now + 15 * 365 * 86_400, step=1, id="w:2")
    )
    writer.client.zadd(wire.RUNS_KEY, {RUN: now - 20})
    for _ in range(2):
        last = api.results(run_path(RUN, "/steps"))[-1]
        assert last["step"] == 1
        assert 15 < last["wall_seconds"] < 600
        take_snapshot()
