"""`/runs/{id}`: all about one run."""

from __future__ import annotations

import json

import pytest

from telemetry_app.instants import rfc3339
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, op, sample_failure, sample_group, step_of_ops, worker
from tests.telemetry_app.api.conftest import run_path
from workers_client import wire
from workers_client.wire_worker import OutstandingWork

pytestmark = pytest.mark.django_db
DETAIL = run_path(RUN)


def test_a_run_nobody_knows_is_not_found(api, writer):
    answer = api.answer(run_path("nobody"), 404)
    assert answer["type"] == "client_error"
    assert answer["errors"][0]["code"] == "not_found"
    assert "nobody" in answer["errors"][0]["detail"]


def test_a_run_is_told_with_its_ledger_and_queue(api, writer, now):
    writer.active(RUN, now)
    writer.ledger(enqueued=9, popped=8, answered=7, delivered=6, failed=1, last_answered_at=now - 3)
    writer.client.rpush(wire.queue_key(RUN), "a", "b")
    answer = api.answer(DETAIL)
    counts = {name: answer["ledger"][name] for name in ("enqueued", "popped", "answered", "delivered", "failed")}
    assert counts == {"enqueued": 9, "popped": 8, "answered": 7, "delivered": 6, "failed": 1}
    assert answer["ledger"]["last_answered_at"] == rfc3339(now - 3)
    assert (answer["outstanding_count"], answer["queue_depth"]) == (2, 2)


def test_counts_of_processes_apart_are_nothing_outstanding(api, writer, now):
    writer.active(RUN, now)
    writer.ledger(enqueued=5, answered=7)
    assert api.answer(DETAIL)["outstanding_count"] == 0


@pytest.mark.parametrize("snapshots", [0, 1, 2])
def test_sums_are_the_same_before_and_behind_a_snapshot(api, writer, now, snapshots):
    writer.operations(*step_of_ops(0, at=now - 5), op(at=now - 3, step=1, status="failed"))
    writer.samples(sample_group(at=now - 4, count=7), sample_failure(at=now - 4))
    writer.steps(1)
    for _ in range(snapshots):
        take_snapshot()
    answer = api.answer(DETAIL)
    assert (answer["failures_count"], answer["samples"]) == (2, {"answered": 7, "failed": 1})
    assert answer["steps_completed"] == 1


def test_sums_go_on_behind_a_snapshot(api, writer, now):
    writer.samples(sample_group(at=now - 4, count=7))
    take_snapshot()
    writer.samples(sample_group(at=now - 3, count=5), sample_failure(at=now - 3))
    assert api.answer(DETAIL)["samples"] == {"answered": 12, "failed": 1}


def test_sums_of_a_redis_that_came_back_empty_go_on(api, writer, now):
    writer.samples(sample_group(at=now - 4, count=7))
    writer.ledger(enqueued=7)
    take_snapshot()
    writer.client.flushdb()
    writer.samples(sample_group(at=now - 3, count=5))
    writer.ledger(enqueued=5)
    answer = api.answer(DETAIL)
    assert (answer["samples"]["answered"], answer["ledger"]["enqueued"]) == (12, 12)


def test_rates_are_told_with_their_window(api, writer, now):
    before_the_window = op(at=now - 400, tokens=300)
    writer.operations(before_the_window, *(op(at=now - n, tokens=300) for n in range(10)))
    writer.steps(3, finished_at=(now - 120, now - 60, now))
    rates = api.answer(DETAIL)["rates"]
    assert rates["steps_per_hour"] == pytest.approx(60.0)
    assert rates["operations_per_second"] == pytest.approx(10 / 300)
    assert rates["tokens_per_second"] == pytest.approx(10.0)
    assert rates["window_seconds"] == 300


def test_rates_that_are_unknown_are_null_and_not_0(api, writer, now):
    writer.active(RUN, now)
    assert set(api.answer(DETAIL)["rates"].values()) == {None, 300.0}


def test_a_runs_workers_and_what_they_hold_are_told(api, writer, now):
    work = OutstandingWork(RUN, "forward_backward", 3, now - 20, ("q1", "q2"))
    other = OutstandingWork("run-b", "optim_step", 1, now - 20)
    writer.active(RUN, now)
    writer.workers(worker("w-1", at=now, outstanding=(work, other)), worker("w-2", at=now, runs=("run-b",)))
    answer = api.answer(DETAIL)
    assert [entry["worker"] for entry in answer["workers"]] == ["w-1"]
    assert answer["outstanding"] == [
        {
            "worker": "w-1",
            "health": "alive",
            "run_id": RUN,
            "operation": "forward_backward",
            "count": 3,
            "oldest_at": rfc3339(now - 20),
            "request_ids": ["q1", "q2"],
        }
    ]


def test_the_state_is_told_with_its_evidence(api, writer, now):
    writer.operations(*(op(at=now - n, status="failed", error_type="ValueError") for n in range(3)))
    answer = api.answer(DETAIL)
    assert answer["state"] == "failing"
    assert answer["state_since"] == rfc3339(now - 2)
    assert "ValueError" in answer["evidence"][0]
    assert "progressing" in answer["also"]


def test_coverage_tells_what_workers_dropped(api, writer, now):
    dropped = {"operation": {"queue_full": 3, "exit": 1}, "sample": {"queue_full": 2}}
    writer.active(RUN, now)
    writer.workers(worker("w-1", at=now, buffer={"dropped": dropped, "redelivered": 5}))
    writer.workers(worker("w-2", at=now, buffer={"dropped": "nonsense", "redelivered": "x"}))
    coverage = api.answer(DETAIL)["coverage"]
    assert (coverage["dropped"], coverage["redelivered"]) == ({"operation": 4, "sample": 2}, 5)
    assert coverage["complete"] is False


def test_coverage_names_the_source_and_the_newest_of_each(api, writer, now):
    writer.operations(op(at=now - 5))
    live = api.answer(DETAIL)["coverage"]
    take_snapshot()
    both = api.answer(DETAIL)["coverage"]
    writer.client.flushdb()
    history = api.answer(DETAIL)["coverage"]
    assert [coverage["source"] for coverage in (live, both, history)] == ["live", "both", "history"]
    assert live["last_ingest_at"] == rfc3339(now - 5)
    assert (live["last_snapshot_at"], history["last_ingest_at"]) == (None, None)
    assert both["last_snapshot_at"] is not None


def test_a_run_that_redis_forgot_is_told_from_history(api, writer, now):
    writer.operations(op(at=now - 5, status="failed"))
    writer.ledger(enqueued=3, answered=3)
    take_snapshot()
    writer.client.flushdb()
    answer = api.answer(DETAIL)
    assert (answer["failures_count"], answer["ledger"]["enqueued"]) == (1, 3)
    assert answer["last_activity_at"] == rfc3339(now - 5)


def test_one_run_takes_no_parameters(api, writer, now):
    writer.active(RUN, now)
    assert "There are none." in api.refusal(DETAIL, last=5)["detail"]


def test_what_a_worker_wrote_is_answered_whatever_it_is(api, writer, now):
    writer.active(RUN, now)
    works = [{"run_id": RUN, "operation": "o", "count": 2**63 - 1, "oldest_at": 1e300, "request_ids": [7, "q"]}] * 3
    fields = {
        "role": "trainer", "at": now, "runs": [RUN], "outstanding": works, "settings": {"A": 10**40, "B": {"C": []}},
        "buffer": {"dropped": {"operation": {"exit": 2**63}}}, "interval_seconds": 1e300, "phase": "p" * 500, "pid": -1,
        "current": {"operation": "o", "started_at": "x"}, "turn": {"workload": "w"}, "clock_offset_seconds": 1e308,
    }  # fmt: skip
    writer.client.set(wire.worker_key("w-1"), json.dumps(fields))
    writer.client.zadd(wire.WORKERS_KEY, {"w-1": 1e300})
    assert api.answer(DETAIL)["workers"][0]["worker"] == "w-1"
    assert api.answer("/workers/w-1")["settings"] == {"B": {}}
    assert api.answer("/workers")["count"] == 1
