"""Open requests of one run and of all: who holds them, since when, and whether they are stuck and why."""

from __future__ import annotations

import pytest

from telemetry_app.instants import rfc3339
from telemetry_app.models import Worker
from telemetry_app.snapshots import take_snapshot
from tests.support.costs import cost_of
from tests.support.records import RUN, op, worker
from tests.telemetry_app.api.conftest import run_path
from workers_client import wire
from workers_client.wire_worker import OutstandingWork

pytestmark = pytest.mark.django_db
OF_RUN = run_path(RUN, "/requests")
BOTH = pytest.mark.parametrize("path", [OF_RUN, "/requests"])


def held(*ids, oldest_at, operation=wire.FORWARD_BACKWARD, run_id=RUN):
    return OutstandingWork(run_id, operation, len(ids), oldest_at, ids)


@pytest.fixture
def put(writer, now):
    """A run with three requests at its trainer, two of which a trainer held that is lost."""
    writer.operations(op(at=now - 20, elapsed_seconds=2.0), op(at=now - 20, run_id="run-b"))
    writer.ledger(enqueued=10, popped=10, answered=4, last_enqueued_at=now - 10)
    lost = (held("q1", "q2", oldest_at=now - 600),)
    alive = (held("q3", oldest_at=now - 100), held("q4", oldest_at=now - 9, operation=wire.OPTIM_STEP))
    accepted = (held("q4", "q5", "q6", oldest_at=now - 101, operation=wire.OPTIM_STEP),)
    writer.workers(
        worker("t-lost", at=now - 500, outstanding=lost),
        worker("t-alive", at=now, outstanding=alive),
        worker("api", role="api_server", at=now, outstanding=accepted),
    )
    return writer


def told(results):
    return [(r["worker"], r["operation"], r["count"], r["orphaned"], r["stuck"]) for r in results]


@BOTH
def test_open_requests_come_oldest_first_with_who_holds_them(api, put, now, path):
    answer = api.answer(path)
    assert told(answer["results"]) == [
        ("t-lost", "forward_backward", 2, True, True),
        ("api", "optim_step", 3, False, True),
        ("t-alive", "forward_backward", 1, False, True),
        ("t-alive", "optim_step", 1, False, False),
    ]
    assert (answer["count"], answer["total_matching"], answer["requests_count"]) == (4, 4, 6)


@BOTH
def test_an_entry_says_what_it_holds_and_why_it_is_stuck(api, put, now, path):
    entry = api.results(path)[2]
    assert (entry["run_id"], entry["role"], entry["health"]) == (RUN, "trainer", "alive")
    assert (entry["oldest_at"], entry["request_ids"], entry["also_held_by"]) == (rfc3339(now - 100), ["q3"], [])
    assert entry["oldest_age_seconds"] == pytest.approx(100, abs=30)
    assert "expected within 1 min" in entry["why"]
    assert entry["expectation"] == {
        "percentile_95_seconds": 2.0, "records_count": 1, "basis": "anywhere", "limit_seconds": 60.0,
    }  # fmt: skip


@BOTH
@pytest.mark.parametrize(("stuck", "workers"), [("true", ["t-lost", "api", "t-alive"]), ("false", ["t-alive"])])
def test_the_stuck_ones_can_be_asked_for(api, put, path, stuck, workers):
    answer = api.answer(path, stuck=stuck)
    assert [entry["worker"] for entry in answer["results"]] == workers
    assert answer["total_matching"] == len(workers)


@BOTH
def test_what_a_lost_worker_held_stays_though_redis_forgot_it(api, put, path):
    take_snapshot()
    put.client.delete(wire.worker_key("t-lost"))
    put.client.zrem(wire.WORKERS_KEY, "t-lost")
    answer = api.answer(path)
    assert told(answer["results"])[0] == ("t-lost", "forward_backward", 2, True, True)
    assert answer["coverage"]["source"] == "both"


@BOTH
def test_an_open_request_stays_whatever_its_age(api, writer, now, path):
    writer.operations(op(at=now - 90_000))
    take_snapshot()
    old = worker("t-1", at=now - 4e7, outstanding=(held("q1", oldest_at=now - 5e7),))
    writer.workers(old)
    take_snapshot()
    writer.client.delete(wire.worker_key("t-1"), wire.WORKERS_KEY)
    assert told(api.results(path)) == [("t-1", "forward_backward", 1, True, True)]


@BOTH
def test_a_new_worker_of_the_same_pod_inherits_nothing(api, put, now, path):
    put.workers(worker("t-new", at=now, pod="pod-7"))
    assert "t-new" not in [entry["worker"] for entry in api.results(path)]
    assert told(api.results(path))[0][0] == "t-lost"


@BOTH
def test_requests_that_nobody_lists_are_told_by_the_ledger(api, writer, now, path):
    writer.operations(op(at=now - 300))
    writer.ledger(enqueued=3, popped=3, answered=1)
    for _ in range(2):
        [entry] = api.results(path)
        assert (entry["worker"], entry["count"], entry["stuck"], entry["oldest_at"]) == (None, 2, True, None)
        take_snapshot()


@BOTH
def test_nothing_open_is_told_with_what_was_looked_at(api, writer, now, path):
    writer.operations(op(at=now))
    writer.ledger(enqueued=3, popped=3, answered=3)
    answer = api.answer(path)
    assert (answer["results"], answer["requests_count"]) == ([], 0)
    assert answer["coverage"]["live"] is True


@BOTH
@pytest.mark.parametrize("elapsed_seconds", [2.0, 40.0])
def test_the_runs_own_history_says_what_is_expected(api, writer, now, path, elapsed_seconds):
    writer.operations(*(op(at=now - 100 - n, elapsed_seconds=elapsed_seconds) for n in range(30)))
    writer.workers(worker("t-1", at=now, outstanding=(held("q1", oldest_at=now - 100),)))
    [entry] = api.results(path)
    assert (entry["stuck"], entry["expectation"]["basis"]) == (elapsed_seconds == 2.0, "run")


def test_the_runs_own_history_counts_where_redis_has_lost_it(api, writer, now):
    writer.operations(*(op(at=now - 100 - n, elapsed_seconds=40.0) for n in range(30)))
    take_snapshot()
    writer.client.flushdb()
    writer.operations(op(at=now - 101, elapsed_seconds=40.0))
    writer.workers(worker("t-1", at=now, outstanding=(held("q1", oldest_at=now - 100),)))
    [entry] = api.results(OF_RUN)
    assert (entry["stuck"], entry["expectation"]["records_count"]) == (False, 31)


@BOTH
@pytest.mark.parametrize("offset_seconds", [-86_400.0, 86_400.0, 1e300])
def test_ages_by_a_wrong_clock_can_be_told(api, writer, now, path, offset_seconds):
    writer.operations(op(at=now))
    last = 253_402_300_799.0
    writer.workers(
        worker("t-1", at=last, outstanding=(held("q1", oldest_at=last),), clock_offset_seconds=offset_seconds),
        worker("t-2", at=now, outstanding=(held("q2", oldest_at=1.0),), clock_offset_seconds=offset_seconds),
    )
    assert api.answer(path)["count"] == 2
    take_snapshot()
    writer.client.flushdb()
    writer.operations(op(at=now))
    assert api.answer(path)["count"] == 2


# --- Pages ----------------------------------------------------------------------------------------------------
@BOTH
def test_pages_show_each_entry_once_though_all_are_as_old(api, writer, now, path):
    writer.operations(op(at=now))
    writer.workers(*(worker(f"t-{n}", at=now, outstanding=(held(f"q{n}", oldest_at=now - 99),)) for n in range(7)))
    writer.workers(worker("t-9", at=now, outstanding=(OutstandingWork(RUN, "optim_step", 1),)))
    found = [entry["worker"] for entry in api.walk(path, page_size=3)]
    assert found == [f"t-{n}" for n in range(7)] + ["t-9"]


@BOTH
def test_a_cursor_of_another_filter_is_refused(api, put, path):
    cursor = api.answer(path, page_size=1)["next"]
    assert "other filters" in api.refusal(path, stuck="true", cursor=cursor)["detail"]


@BOTH
@pytest.mark.parametrize(("name", "value"), [("stuck", "yes"), ("operation", "sample"), ("cursor", "x")])
def test_a_bad_parameter_is_refused_by_name(api, put, path, name, value):
    assert api.refusal(path, **{name: value})["attr"] == name


# --- Outages --------------------------------------------------------------------------------------------------
@BOTH
def test_with_redis_out_history_tells_what_was_open_at_the_newest_snapshot(api, put, point_site_at, tmp_path, path):
    before = told(api.results(path))
    take_snapshot()
    Worker.objects.filter(worker="t-alive").update(last_heartbeat_at="2026-01-01T00:00Z")
    point_site_at(f"unix://{tmp_path}/nothing.sock?db=0")
    answer = api.answer(path)
    assert told(answer["results"]) == before
    assert answer["coverage"]["live"] is False
    assert answer["as_of"] == answer["coverage"]["last_snapshot_at"] is not None
    assert answer["coverage"]["source"] == "history"


@BOTH
def test_with_postgres_out_redis_answers(api, put, postgres_out, path):
    before = told(api.results(path))
    postgres_out()
    answer = api.answer(path)
    assert told(answer["results"]) == before
    assert (answer["coverage"]["live"], answer["coverage"]["history"]) == (True, False)


@BOTH
def test_with_both_out_nothing_can_be_said(api, put, postgres_out, redis_out, path):
    postgres_out()
    assert api.answer(path, 503)["errors"][0]["code"] == "sources_unavailable"


# --- Cost -----------------------------------------------------------------------------------------------------
def put_more(writer, now, numbers):
    for number in numbers:
        run_id = f"run-{number}" if number else RUN
        writer.operations(op(at=now - 100, run_id=run_id))
        writer.ledger(run_id, enqueued=9, answered=1)
        outstanding = (held("q1", oldest_at=now - 100), held("q2", oldest_at=now - 99, run_id=run_id))
        writer.workers(worker(f"t-{number}", at=now, outstanding=outstanding))
    take_snapshot()


@BOTH
@pytest.mark.parametrize("kept", ["both", "history"])
def test_an_answer_costs_as_much_for_many_holders_as_for_one(api, writer, now, monkeypatch, path, kept):
    costs = []
    for numbers in (range(1), range(1, 20)):
        put_more(writer, now, numbers)
        if kept == "history":
            writer.client.flushdb()
        costs.append(cost_of(api, path, monkeypatch))
    assert api.answer(path)["total_matching"] >= 20
    assert costs[0] == costs[1]
    assert costs[1][0] <= 10
    assert costs[1][1] <= 6
