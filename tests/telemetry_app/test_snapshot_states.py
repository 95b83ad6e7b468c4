"""What a snapshot says of a run: its state, its reason and since when."""

from __future__ import annotations

import pytest

from telemetry_app.models import Run
from tests.support.records import (
    RUN,
    START,
    op,
    step_of_ops,
    worker,
)
from tests.support.snapshots import snapshot
from workers_client.wire_worker import OutstandingWork

pytestmark = pytest.mark.django_db


# --- States ---------------------------------------------------------------------------------------------------
def state_after(seconds):
    snapshot(after_seconds=seconds)
    return Run.objects.get().state


def test_the_state_of_a_run_ages_with_time_alone(writer):
    writer.operations(*step_of_ops(0, at=START))
    writer.ledger(enqueued=2, popped=2, answered=2, delivered=2)
    assert [state_after(seconds) for seconds in (10, 300, 1_000)] == ["progressing", "waiting_for_client", "idle"]


def test_the_state_of_a_run_that_redis_forgot_ages_too(writer):
    writer.operations(*step_of_ops(0, at=START))
    writer.ledger(enqueued=2, popped=2, answered=2, delivered=2)
    assert state_after(10) == "progressing"
    writer.client.flushdb()
    assert [state_after(seconds) for seconds in (300, 1_000)] == ["waiting_for_client", "idle"]


def test_a_request_of_a_worker_that_died_turns_stuck_and_stays(writer):
    work = OutstandingWork(RUN, "forward_backward", 1, START)
    writer.workers(worker(at=START, outstanding=(work,), current=None))
    writer.ledger(enqueued=1, popped=1)
    writer.active(RUN, START)
    assert [state_after(seconds) for seconds in (5, 62, 90_000)] == ["progressing", "lost", "lost"]


def test_the_reason_and_the_begin_of_a_state_are_kept(writer):
    writer.operations(*(op(at=START + n, status="failed", error_type="ValueError") for n in range(3)))
    snapshot()
    first = Run.objects.get()
    snapshot(after_seconds=20)
    run = Run.objects.get()
    assert (run.state, run.state_since.timestamp()) == ("failing", START)
    assert "ValueError" in run.state_reason
    assert run.state_since == first.state_since


def test_a_settled_run_without_new_activity_is_not_read_again(writer):
    writer.operations(op(at=START))
    snapshot(after_seconds=2_000)
    assert snapshot(after_seconds=2_010).runs_count == 0


def test_a_settled_run_with_new_activity_is_read_again(writer):
    writer.operations(op(at=START))
    snapshot(after_seconds=2_000)
    writer.operations(op(at=START + 2_005))
    assert snapshot(after_seconds=2_010).rows_written == 1


def test_a_gap_of_ten_minutes_is_covered_by_the_next_snapshot(writer):
    writer.operations(op(at=START))
    snapshot()
    writer.operations(*(op(at=START + second) for second in range(20, 620)))
    assert snapshot(after_seconds=630).rows_written == 600
    assert Run.objects.get().operations_count == 601
