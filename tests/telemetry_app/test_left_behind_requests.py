"""Requests that the run went on without: answers that nobody fetched, and what a worker that is gone left behind."""

from __future__ import annotations

import pytest

from telemetry_app.health import Health
from telemetry_app.incident_changes import troubles_of
from telemetry_app.run_state import RunFacts, WorkerFact, run_state
from tests.support.records import RUN, START, op, worker
from workers_client.wire import FORWARD_BACKWARD, SAMPLE
from workers_client.wire_worker import CurrentOp, Ledger, OutstandingWork

NOW = START
LONG_AGO = NOW - 3_600


def fact(name, *, health=Health.ALIVE, heard_at=NOW - 1, **fields):
    return WorkerFact(worker(name, at=heard_at, **fields), health)


def work(*request_ids, since, operation=FORWARD_BACKWARD):
    return OutstandingWork(RUN, operation, len(request_ids), since, request_ids)


def server(*held):
    return fact("api-1", role="api_server", outstanding=held)


def finished_ops(until=NOW - 60, by="trainer-1"):
    """Return an op a minute of the last hour, each enqueued two seconds before it ended."""
    ends = [until - 60 * number for number in range(58)]
    return [
        op(at=at, enqueued_at=at - 2, started_at=at - 1, elapsed_seconds=1.0, worker=by, role="trainer") for at in ends
    ]


def told(ledger, workers, **fields):
    """Return the run's state, since when, and what would be an incident."""
    facts = RunFacts(RUN, NOW, NOW - 5, ledger, workers=workers, **({"operations": finished_ops()} | fields))
    state = run_state(facts)
    return state.state, state.since, {held.code for held in troubles_of(facts, state)} - {"answered_not_delivered"}


def ledger(enqueued, popped, answered, delivered, **fields):
    return Ledger(enqueued, popped, answered, delivered, **fields)


def test_an_answer_that_was_never_fetched_does_not_make_the_next_op_overdue():
    trainer = fact(
        "trainer-1",
        outstanding=(work("new", since=NOW - 10),),
        current=CurrentOp(FORWARD_BACKWARD, RUN, "new", NOW - 9),
    )
    held = work("never-fetched", "new", since=LONG_AGO)
    assert told(ledger(61, 61, 60, 59), [server(held), trainer]) == ("progressing", None, set())


def test_a_request_of_a_trainer_that_is_gone_is_not_stuck_once_the_client_went_on():
    running = fact(
        "trainer-2",
        outstanding=(work("new", since=NOW - 10),),
        current=CurrentOp(FORWARD_BACKWARD, RUN, "new", NOW - 9),
    )
    held = work("orphan", "new", since=LONG_AGO)
    operations = finished_ops(by="trainer-2")
    found = told(ledger(62, 62, 60, 60), [server(held), running], operations=operations)
    assert found == ("progressing", None, set())


def test_a_request_that_later_ones_overtook_is_stuck_while_the_client_waits_for_it():
    operations = [
        op(at=NOW - 290 + number, enqueued_at=NOW - 298, elapsed_seconds=1.0) for number in range(3)
    ]  # sent together with the one that is missing
    held = work("lost-in-the-queue", since=NOW - 300)
    trainer = fact("trainer-1")
    state, _, incidents = told(ledger(4, 4, 3, 3), [server(held), trainer], operations=operations)
    assert (state, incidents) == ("stuck", {"stuck"})


@pytest.mark.parametrize(
    "held", [work("never-fetched", "new", since=LONG_AGO), work("s", since=NOW - 50, operation=SAMPLE)]
)
def test_what_is_enqueued_a_moment_ago_is_no_queue_whatever_else_the_server_lists(held):
    idle = fact("trainer-1", phase="idle", phase_since=NOW - 80, last_progress_at=NOW - 80)
    counts = ledger(61, 60, 60, 59, last_enqueued_at=NOW - 2, last_answered_at=NOW - 80)
    state, _, incidents = told(counts, [server(held), idle], operations=finished_ops(NOW - 80))
    assert (state in ("queued", "stuck"), incidents & {"queued", "enqueued_beside_idle_worker"}) == (False, set())


def test_a_request_in_the_queue_behind_one_that_runs_waits_since_it_was_enqueued():
    running = fact(
        "trainer-1",
        outstanding=(work("running", since=NOW - 50),),
        current=CurrentOp(FORWARD_BACKWARD, RUN, "running", NOW - 50),
    )
    held = work("running", "queued", since=NOW - 50)
    counts = ledger(62, 61, 60, 60, last_enqueued_at=NOW - 20)
    assert told(counts, [server(held), running])[:2] == ("queued", NOW - 20)


def test_what_an_exited_worker_left_is_not_stuck_once_another_went_on():
    gone = fact("trainer-1", health=Health.EXITED, heard_at=LONG_AGO, outstanding=(work("x", since=LONG_AGO - 5),))
    operations = finished_ops(NOW - 110, by="trainer-2")
    workers = [gone, fact("trainer-2")]
    facts = RunFacts(RUN, NOW, NOW - 110, ledger(62, 62, 61, 61), workers=workers, operations=operations)
    assert run_state(facts).also == ("waiting_for_client",)


def test_what_nobody_remembers_is_not_stuck_while_the_server_lists_nothing():
    counts = ledger(62, 62, 61, 61, last_enqueued_at=NOW - 112, last_answered_at=NOW - 110)
    workers = [server(), fact("trainer-2")]
    facts = RunFacts(RUN, NOW, NOW - 110, counts, workers=workers, operations=finished_ops(NOW - 110))
    assert run_state(facts).also == ("waiting_for_client",)
    unanswered = ledger(62, 62, 61, 61, last_enqueued_at=NOW - 110, last_answered_at=NOW - 170)
    facts = RunFacts(RUN, NOW, NOW - 110, unanswered, workers=workers, operations=finished_ops(NOW - 170))
    assert run_state(facts).state == "stuck"
