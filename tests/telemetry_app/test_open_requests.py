"""Which requests are open, who holds them, and which are overdue."""

from __future__ import annotations

import pytest

from telemetry_app.health import Health
from telemetry_app.open_requests import open_requests, order_of
from telemetry_app.plain_words import span_words
from telemetry_app.run_state import RunFacts, WorkerFact
from tests.support.records import RUN, START, op, worker
from workers_client.wire import FORWARD_BACKWARD, OPTIM_STEP
from workers_client.wire_worker import Ledger, OutstandingWork

NOW = START


def held(*ids, count=None, age_seconds=5.0, operation=FORWARD_BACKWARD, run_id=RUN):
    return OutstandingWork(run_id, operation, len(ids) if count is None else count, NOW - age_seconds, ids)


def fact(name, *outstanding, role="trainer", health=Health.ALIVE, heartbeat_age_seconds=1.0, **fields):
    record = worker(name, at=NOW - heartbeat_age_seconds, role=role, outstanding=outstanding, **fields)
    return WorkerFact(record, health)


def found(*workers, outstanding_count, **fields):
    defaults = {"run_id": RUN, "now": NOW, "last_activity_at": NOW - 5, "ledger": Ledger()}
    facts = RunFacts(**(defaults | fields), workers=workers)
    return open_requests(facts, outstanding_count=outstanding_count)


def told(entries):
    return [
        (entry.holder.record.worker if entry.holder else None, entry.count, entry.unshared_count) for entry in entries
    ]


# --- Who holds them, each counted once ------------------------------------------------------------------------
def test_what_a_trainer_popped_counts_once_though_the_api_server_holds_it_too():
    api = fact("api", held("q1", "q2", "q3", "q4", "q5"), role="api_server")
    entries = found(api, fact("t", held("q1", "q2", "q3")), outstanding_count=5)
    assert told(entries) == [("t", 3, 3), ("api", 5, 2)]
    assert entries[1].also_held_by == ("t",)


def test_beyond_the_ids_that_workers_tell_counts_are_compared():
    ids = [f"q{n}" for n in range(20)]
    api = fact("api", held(*ids, count=500), role="api_server")
    assert told(found(api, fact("t", held(*ids, count=400)), outstanding_count=500))[1] == ("api", 500, 100)


def test_an_api_server_that_lives_holds_no_open_request_where_all_are_answered():
    assert found(fact("api", held("q1"), role="api_server"), outstanding_count=0) == []


def test_answered_requests_of_an_api_server_are_not_open():
    api = fact("api", held("q1", "q2", "q3", age_seconds=900), role="api_server")
    [entry] = found(api, outstanding_count=1, ledger=Ledger(9, 8, 8, last_enqueued_at=NOW - 4))
    assert (entry.count, entry.unshared_count, entry.request_ids) == (1, 1, ("q3",))
    assert (entry.oldest_at, entry.stuck) == (NOW - 4, False)
    assert "2 more that it lists are answered" in entry.why


def test_what_a_trainer_runs_is_not_stuck_beside_an_answer_that_nobody_fetched():
    api = fact("api", held("never-fetched", "q1", age_seconds=3_600), role="api_server")
    entries = found(api, fact("t", held("q1")), outstanding_count=1, ledger=Ledger(9, 9, 8, last_enqueued_at=NOW - 6))
    assert told(entries) == [("t", 1, 1), ("api", 1, 0)]
    assert (entries[1].request_ids, entries[1].stuck, entries[1].also_held_by) == (("q1",), False, ("t",))


def test_the_ops_that_finished_say_which_requests_are_answered():
    api = fact("api", held("q1", "q2", "q3", "q4", age_seconds=900), role="api_server")
    operations = [op(at=NOW - 50, request_id="q1"), op(at=NOW - 40, request_id="q3", enqueued_at=NOW - 45)]
    [entry] = found(api, outstanding_count=2, operations=operations)
    assert (entry.count, entry.request_ids, entry.oldest_at, entry.stuck) == (2, ("q2", "q4"), NOW - 45, False)


def test_a_request_that_was_passed_by_stays_stuck_whatever_newer_ones_are_answered():
    api = fact("api", held("lost", "q2", age_seconds=900), role="api_server")
    answered = op(at=NOW - 50, request_id="q2", enqueued_at=NOW - 60)
    [entry] = found(api, fact("t"), outstanding_count=1, operations=[answered])
    assert (entry.request_ids, entry.oldest_at, entry.stuck) == (("lost",), NOW - 900, True)


def test_of_two_ops_the_one_that_was_asked_for_last_is_open():
    long_ago, now = held("q1", age_seconds=3_600), held("q2", operation=OPTIM_STEP)
    [entry] = found(fact("api", long_ago, now, role="api_server"), outstanding_count=1)
    assert (entry.operation, entry.stuck) == (OPTIM_STEP, False)


def test_an_api_server_that_is_gone_holds_what_no_living_one_does():
    gone = fact("old", held("q1", "q2", "q3"), role="api_server", health=Health.LOST, heartbeat_age_seconds=900)
    alive = fact("new", held("q7"), role="api_server")
    assert told(found(gone, alive, outstanding_count=1)) == [("new", 1, 1)]
    entries = found(gone, alive, outstanding_count=3)
    assert told(entries) == [("new", 1, 1), ("old", 3, 2)]
    assert (entries[1].orphaned, entries[1].stuck) == (True, True)


def test_sampling_requests_are_in_no_ledger():
    sampler = fact("s", held("s1", operation="sample"), role="sampler")
    api = fact("api", held("q1"), role="api_server")
    assert told(found(sampler, api, outstanding_count=1)) == [("s", 1, 1), ("api", 1, 1)]


def test_requests_of_other_runs_and_ops_are_kept_apart():
    trainer = fact("t", held("q1"), held("q2", operation=OPTIM_STEP), held("q3", run_id="run-b"))
    assert [(entry.operation, entry.count) for entry in found(trainer, outstanding_count=2)] == [
        (FORWARD_BACKWARD, 1),
        (OPTIM_STEP, 1),
    ]


def test_a_worker_that_tells_an_op_twice_is_told_once():
    assert told(found(fact("t", held("q1"), held("q2", "q3")), outstanding_count=1)) == [("t", 1, 1)]


# --- What nobody lists ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("quiet_seconds", "expected"), [(5.0, []), (30.0, [(2, False, False)]), (61.0, [(2, True, True)])]
)
def test_requests_that_nobody_lists_are_told_once_counts_are_not_that_far_apart(quiet_seconds, expected):
    entries = found(outstanding_count=2, last_activity_at=NOW - quiet_seconds)
    assert [(entry.count, entry.orphaned, entry.stuck) for entry in entries] == expected


def test_requests_that_a_trainer_holds_are_not_missing():
    assert told(found(fact("t", held("q1", "q2")), outstanding_count=2, last_activity_at=NOW - 900)) == [("t", 2, 2)]


# --- Which are stuck ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("age_seconds", "stuck"), [(59.0, False), (61.0, True), (86_400.0, True)])
def test_a_request_is_stuck_from_a_minute_on_where_nothing_is_known(age_seconds, stuck):
    [entry] = found(fact("t", held("q1", age_seconds=age_seconds)), outstanding_count=1)
    assert (entry.stuck, entry.orphaned) == (stuck, False)
    assert f"{span_words(age_seconds)} old, expected within 1 min" in entry.why


@pytest.mark.parametrize(("age_seconds", "stuck"), [(199.0, False), (201.0, True)])
def test_twenty_records_of_the_run_say_what_is_expected(age_seconds, stuck):
    operations = [op(at=NOW - n, elapsed_seconds=40.0) for n in range(20)]
    [entry] = found(fact("t", held("q1", age_seconds=age_seconds)), outstanding_count=1, operations=operations)
    assert entry.stuck == stuck
    assert (entry.expected.basis, entry.expected.records_count, entry.expected.limit_seconds) == ("run", 20, 200.0)
    assert "5 × 40 s, the 95th percentile of 20 records of this run" in entry.why


def test_with_fewer_records_of_the_run_those_of_others_say_what_is_expected():
    operations = [op(at=NOW - n, elapsed_seconds=1.0) for n in range(19)]
    anywhere = {"expected_seconds": {FORWARD_BACKWARD: 100.0}, "expected_from": {FORWARD_BACKWARD: 431}}
    [entry] = found(
        fact("t", held("q1", age_seconds=400)), outstanding_count=1, operations=operations, **anywhere
    )  # fmt: skip
    assert (entry.stuck, entry.expected.basis, entry.expected.records_count) == (False, "anywhere", 431)
    assert "431 records of the most recently active runs" in entry.why


@pytest.mark.parametrize("health", [Health.LOST, Health.EXITED])
def test_what_a_worker_held_that_is_gone_is_orphaned_under_its_name(health):
    gone = fact("t", held("q1", age_seconds=5e6), health=health, heartbeat_age_seconds=4e6)
    [entry] = found(gone, outstanding_count=0)
    assert (entry.orphaned, entry.stuck, entry.holder.record.worker) == (True, True, "t")
    assert f"t is {health.value}, last heard 46 d 7 h ago" in entry.why


def test_a_late_heartbeat_orphans_nothing():
    [entry] = found(fact("t", held("q1"), health=Health.LATE, heartbeat_age_seconds=30), outstanding_count=1)
    assert (entry.orphaned, entry.stuck) == (False, False)


def test_ages_are_told_on_the_clock_of_redis():
    [entry] = found(fact("t", held("q1", age_seconds=70), clock_offset_seconds=-20.0), outstanding_count=1)
    assert entry.oldest_at == NOW - 50
    assert entry.stuck is False


def test_a_request_of_unknown_age_is_not_stuck_and_comes_last():
    nameless = OutstandingWork(RUN, FORWARD_BACKWARD, 1, None, ())
    entries = found(fact("a", nameless), fact("b", held("q1")), outstanding_count=2)
    assert [entry.stuck for entry in entries] == [False, False]
    assert [entry.holder.record.worker for entry in sorted(entries, key=order_of)] == ["b", "a"]
