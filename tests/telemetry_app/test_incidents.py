"""The pass over the active runs: incidents open, go on, close, come back, and stay."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.db import connection

from telemetry_app import incidents, locks
from telemetry_app.exceptions import LiveDataUnavailableError
from telemetry_app.incidents import take_verdicts
from telemetry_app.models import Incident, Run, VerdictPass
from tests.support.records import RUN, START, op, worker
from tests.support.snapshots import all_at_once
from workers_client.wire_worker import CurrentOp, CurrentTurn, OutstandingWork

pytestmark = pytest.mark.django_db


def verdicts(after_seconds=0.0):
    return take_verdicts(now=datetime.fromtimestamp(START + after_seconds, UTC))


def of_run(run_id=RUN):
    return [(each.code, each.ended_at is None) for each in Incident.objects.filter(run_id=run_id)]


def fail(writer, at, count=3):
    records = [op(at=at - n, status="failed", error_type="ValueError") for n in range(count)]
    writer.operations(*reversed(records))
    return records


def test_a_state_that_calls_for_someone_is_an_incident_with_its_cause_and_ids(writer):
    records = fail(writer, START - 1)
    assert verdicts().opened == 1
    [incident] = Incident.objects.all()
    assert (incident.run_id, incident.code, incident.ended_at) == (RUN, "failing", None)
    assert incident.started_at.timestamp() == START - 3
    assert incident.cause == "the newest 3 forward_backward failed: ValueError"
    assert set(incident.evidence[0]["record_ids"]) == {record.id for record in records}


def test_a_finding_is_an_incident_of_its_own_beside_a_healthy_state(writer):
    writer.operations(*(op(at=START - 9 + n, metrics={"loss:sum": 0.0}) for n in range(5)))
    verdicts()
    assert of_run() == [("loss_is_zero", True)]


def test_a_healthy_run_has_none(writer):
    writer.operations(*(op(at=START - 9 + n, metrics={"loss:sum": 1.0}) for n in range(5)))
    assert verdicts().runs_count == 1
    assert of_run() == []


def test_the_same_again_is_no_second_incident(writer):
    fail(writer, START - 1)
    summaries = [verdicts(after) for after in (0, 0, 5, 10)]
    assert [summary.opened for summary in summaries] == [1, 0, 0, 0]
    assert Incident.objects.get().last_held_at.timestamp() == START + 10


def test_what_no_longer_holds_closes_itself_and_stays(writer):
    fail(writer, START - 1)
    verdicts()
    writer.operations(op(at=START + 2))
    verdicts(5)
    assert of_run() == [("failing", True)]
    assert verdicts(20).closed == 1
    [incident] = Incident.objects.all()
    assert incident.ended_at.timestamp() == START


def test_a_flapping_one_is_one_incident(writer):
    fail(writer, START - 1)
    verdicts()
    for after in (20, 60, 100):
        writer.operations(op(at=START + after))
        verdicts(after + 1)
        verdicts(after + 18)
        fail(writer, START + after + 20)
        verdicts(after + 21)
    [incident] = Incident.objects.all()
    assert (incident.reopened_count, incident.ended_at) == (3, None)
    assert incident.started_at.timestamp() == START - 3


def test_what_comes_back_after_long_is_another_incident(writer):
    fail(writer, START - 1)
    verdicts()
    writer.operations(op(at=START + 2))
    verdicts(20)
    fail(writer, START + 400)
    verdicts(401)
    assert of_run() == [("failing", True), ("failing", False)]


def test_a_wait_for_a_neighbour_is_an_incident_once_it_lasts(writer):
    def held(run_id, request_id):
        return (OutstandingWork(run_id, "forward_backward", 1, START - 10, (request_id,)),)

    writer.operations(op(at=START - 200, run_id="run-b", elapsed_seconds=100.0), op(at=START - 10))
    writer.ledger(enqueued=2, popped=2, answered=1, delivered=1)
    for after in (0, 80):
        writer.workers(
            worker("t-1", at=START + after, outstanding=held(RUN, "q-1"), turn=CurrentTurn("a", START - 10)),
            worker(
                "t-2", at=START + after, runs=("run-b",), turn=CurrentTurn("b", START - 20, START - 20),
                current=CurrentOp("forward_backward", "run-b", "q-2", START - 20),
            ),
        )  # fmt: skip
        verdicts(after)
        assert of_run() == ([("waiting_for_gpu", True)] if after else [])
    assert "forward_backward of run-b" in Incident.objects.get().cause


def test_a_pass_is_one_at_a_time(writer, monkeypatch):
    fail(writer, START - 1)
    monkeypatch.setattr(locks, "take_until_commit", lambda name: False)
    assert verdicts().was_skipped
    assert of_run() == []


@pytest.mark.django_db(transaction=True)
def test_passes_at_once_open_one_incident(writer):
    fail(writer, START - 1)
    assert all_at_once(4, verdicts) == []
    assert of_run() == [("failing", True)]


def test_an_outage_of_redis_changes_nothing_and_is_remembered(writer, redis_out_later):
    fail(writer, START - 1)
    verdicts()
    redis_out_later()
    with pytest.raises(LiveDataUnavailableError):
        verdicts(60)
    assert of_run() == [("failing", True)]
    assert VerdictPass.objects.get().live_failed_at.timestamp() == START + 60


@pytest.fixture
def redis_out_later(point_site_at, tmp_path):
    return lambda: point_site_at(f"unix://{tmp_path}/nothing.sock?db=0")


def test_nobody_is_lost_just_after_redis_was_out(writer):
    held = (OutstandingWork(RUN, "forward_backward", 1, START - 100, ("q-1",)),)
    writer.workers(worker("t-1", at=START - 95, outstanding=held))
    writer.ledger(enqueued=1, popped=1)
    writer.active(RUN, START - 100)
    VerdictPass.objects.create(live_failed_at=datetime.fromtimestamp(START - 5, UTC))
    verdicts()
    assert of_run() == []
    verdicts(31)
    assert of_run() == [("lost", True)]


def test_nobody_is_lost_just_after_an_outage_that_no_pass_saw(writer):
    held = (OutstandingWork(RUN, "forward_backward", 1, START - 5, ("q-1",)),)
    writer.workers(worker("t-1", at=START, outstanding=held))
    writer.ledger(enqueued=1, popped=1)
    writer.active(RUN, START - 5)
    verdicts()
    for after in (300, 310, 325):  # tasks come through Redis: none came while it was out
        verdicts(after)
        assert of_run() == []
    verdicts(335)
    assert of_run() == [("lost", True)]


def test_a_run_with_an_open_incident_is_judged_though_redis_forgot_it(writer):
    fail(writer, START - 1)
    verdicts()
    writer.client.flushdb()
    at = datetime.fromtimestamp(START, UTC)
    Run.objects.create(run_id=RUN, first_seen_at=at, last_activity_at=at)
    verdicts(20)
    assert of_run() == [("failing", False)]


def test_runs_at_rest_are_left_alone(writer):
    writer.operations(op(at=START - 5_000))
    at = datetime.fromtimestamp(START - 5_000, UTC)
    Run.objects.create(run_id=RUN, first_seen_at=at, last_activity_at=at, state="idle")
    assert verdicts().runs_count == 0


def test_many_runs_cost_as_many_queries_as_one(writer, django_assert_max_num_queries):
    for number in range(30):
        writer.operations(*(op(at=START - 5 + n, run_id=f"run-{number}", status="failed") for n in range(3)))
    with django_assert_max_num_queries(14) as first:
        verdicts()
    with django_assert_max_num_queries(len(first.captured_queries)):
        verdicts(5)
    assert Incident.objects.count() == 30


def test_the_lock_is_the_databases_own(writer):
    """A pass that is killed leaves no lock behind: it is the transaction's."""
    verdicts()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()")
        assert cursor.fetchone()[0] == 0
    assert incidents.LOCK == "verdicts"
