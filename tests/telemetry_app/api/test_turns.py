"""A run's GPU turns: waits and holds, what ran inside, who held the device, and what goes on now."""

from __future__ import annotations

import pytest

from telemetry_app.instants import rfc3339
from telemetry_app.snapshots import take_snapshot
from tests.support.costs import cost_of
from tests.support.records import RUN, op, turn, worker
from tests.telemetry_app.api.conftest import run_path
from workers_client import wire
from workers_client.wire_worker import CurrentOp, CurrentTurn, OutstandingWork

pytestmark = pytest.mark.django_db
PATH = run_path(RUN, "/turns")


def ran(name, start, end, *, run_id=RUN, **fields):
    return wire.TurnOp(name, start, end, run_id=run_id, **fields)


def own_turn(at, **fields):
    return turn(at=at, worker="t-1", ops=(ran("optim_step", at - 1, at),), **fields)


@pytest.fixture(params=["live", "history", "both"])
def turns(request, writer, now):
    """Two turns of a run, and one of another run that it waited for."""
    writer.operations(op(at=now - 60), op(at=now - 60, run_id="run-b"))
    inside = (
        ran("wake_up", now - 30, now - 28, run_id=None),
        ran("forward_backward", now - 28, now - 25, count=4, status="succeeded"),
        ran("optim_step", now - 25, now - 24, run_id="run-b", count=2),
        ran("sleep", now - 24, now - 23, run_id=None),
    )
    writer.turns(
        turn(at=now - 50, id="a:1", worker="t-1", started_at=now - 52, ops=(ran("optim_step", now - 52, now - 50),)),
        turn(at=now - 30, id="b:1", worker="t-2", workload="workload-2", started_at=now - 40,
             ops=(ran("forward_backward", now - 40, now - 30, run_id="run-b"),)),
        turn(at=now - 23, id="a:2", worker="t-1", requested_at=now - 38, started_at=now - 30, node="n-1", ops=inside),
    )  # fmt: skip
    if request.param != "live":
        take_snapshot()
    if request.param == "history":
        writer.client.flushdb()
    return writer


def ids(answer):
    return [result["id"] for result in answer["results"]]


def test_turns_of_the_run_come_newest_first(api, turns):
    answer = api.answer(PATH)
    assert (ids(answer), answer["count"], answer["total_matching"]) == (["a:2", "a:1"], 2, 2)
    assert answer["next"] is None


def test_a_turn_says_how_long_it_waited_and_held_and_what_ran_in_it(api, turns, now):
    newest = api.results(PATH)[0]
    assert (newest["workload"], newest["worker"], newest["node"]) == ("workload-1", "t-1", "n-1")
    assert newest["requested_at"] == rfc3339(now - 38)
    assert (newest["started_at"], newest["ended_at"]) == (rfc3339(now - 30), rfc3339(now - 23))
    assert newest["wait_seconds"] == pytest.approx(8.0, abs=0.001)
    assert newest["hold_seconds"] == pytest.approx(7.0, abs=0.001)
    assert newest["switch_seconds"] == pytest.approx(3.0, abs=0.001)
    [operation] = newest["operations"]
    assert (operation["operation"], operation["count"], operation["status"]) == ("forward_backward", 4, "succeeded")
    assert operation["seconds"] == pytest.approx(3.0, abs=0.001)
    assert newest["other_operations_count"] == 2


@pytest.mark.parametrize("kept", ["live", "history"])
def test_a_turn_names_the_device_where_its_worker_says_which(api, writer, now, kept):
    writer.operations(op(at=now))
    ops = (wire.TurnOp("forward_backward", now - 8, now - 7, run_id=RUN),)
    for number, settings in enumerate(({"CUDA_VISIBLE_DEVICES": "3"}, {"CUDA_VISIBLE_DEVICES": 3}, {})):
        writer.workers(worker(f"t-{number}", at=now, settings=settings))
        writer.turns(turn(at=now - number, worker=f"t-{number}", ops=ops))
    writer.turns(turn(at=now - 9, worker=None, ops=ops))
    if kept == "history":
        take_snapshot()
        writer.client.delete(wire.WORKERS_KEY)
    assert [each["device"] for each in api.results(PATH)] == ["3", None, None, None]


def test_a_wait_names_who_held_the_device(api, turns):
    newest, oldest = api.results(PATH)
    [holder] = newest["waited_for"]
    assert holder["seconds"] == pytest.approx(8.0, abs=0.001)
    del holder["seconds"]
    assert holder == {
        "workload": "workload-2", "worker": "t-2", "run_ids": ["run-b"], "operations": ["forward_backward"],
    }  # fmt: skip
    assert (oldest["wait_seconds"], oldest["waited_for"]) == (None, [])


def test_turns_can_be_asked_for_by_when_they_ended(api, turns, now):
    assert ids(api.answer(PATH, since=rfc3339(now - 40))) == ["a:2"]
    answer = api.answer(PATH, until=rfc3339(now - 40))
    assert (ids(answer), answer["total_matching"]) == (["a:1"], 1)


def test_turns_of_both_sources_show_once(api, writer, now):
    writer.operations(op(at=now - 60))
    writer.turns(*(own_turn(now - 50 + n, id=f"a:{n}") for n in range(3)))
    take_snapshot()
    writer.turns(own_turn(now - 10, id="a:9"), own_turn(now - 48, id="a:2"))
    answer = api.answer(PATH)
    assert (ids(answer), answer["total_matching"]) == (["a:9", "a:2", "a:1", "a:0"], 4)
    assert answer["coverage"]["source"] == "both"


def test_many_turns_behind_the_snapshot_are_all_told(api, writer, now):
    writer.operations(op(at=now - 900))
    writer.turns(own_turn(now - 800, id="a:first"))
    take_snapshot()
    writer.turns(*(own_turn(now - 700 + n, id=f"a:{n:03}") for n in range(200)))
    assert api.answer(PATH)["total_matching"] == 201
    assert len(api.walk(PATH, page_size=70)) == 201


def test_turns_stay_though_redis_came_back_empty(api, writer, now):
    writer.operations(op(at=now - 60))
    writer.turns(own_turn(now - 50, id="a:1"), own_turn(now - 49, id="a:2"))
    take_snapshot()
    writer.client.flushdb()
    writer.operations(op(at=now - 10))
    writer.turns(own_turn(now - 50, id="a:1"), own_turn(now - 9, id="a:3"))
    answer = api.answer(PATH)
    assert (ids(answer), answer["total_matching"]) == (["a:3", "a:2", "a:1"], 3)


def test_pages_show_each_turn_once_though_all_ended_at_once(api, writer, now):
    writer.operations(op(at=now))
    writer.turns(*(own_turn(now - 5, id=f"a:{n}", workload=f"w-{n % 2}") for n in range(7)))
    take_snapshot()
    writer.turns(*(own_turn(now - 5, id=f"b:{n}", workload="w-0") for n in range(4)))
    found = [result["id"] for result in api.walk(PATH, page_size=3)]
    assert len(found) == len(set(found)) == 11
    assert found == ids(api.answer(PATH))


# --- Now ------------------------------------------------------------------------------------------------------
def test_a_wait_that_goes_on_names_who_holds_the_device(api, writer, now):
    held = (OutstandingWork(RUN, "optim_step", 1, now - 30, ("q1",)),)
    writer.operations(op(at=now - 60))
    writer.workers(
        worker("t-1", at=now, turn=CurrentTurn("workload-1", requested_at=now - 20), outstanding=held),
        worker("t-2", at=now, runs=("run-b",), turn=CurrentTurn("workload-2", now - 40, now - 30),
               current=CurrentOp("forward_backward", "run-b", "q7", now - 30)),
        worker("t-3", at=now, runs=("run-c",), turn=CurrentTurn("workload-3", now - 40)),
    )  # fmt: skip
    [waiting] = api.answer(PATH)["current"]
    assert (waiting["worker"], waiting["workload"], waiting["started_at"]) == ("t-1", "workload-1", None)
    assert waiting["wait_seconds"] == pytest.approx(20, abs=20)
    assert waiting["hold_seconds"] is None
    assert waiting["held_by"] == [
        {"workload": "workload-2", "worker": "t-2", "started_at": rfc3339(now - 30), "run_id": "run-b",
         "operation": "forward_backward"}
    ]  # fmt: skip


def test_a_turn_that_is_held_is_told_as_held(api, writer, now):
    writer.operations(op(at=now - 60))
    turn_now = CurrentTurn("workload-1", now - 20, now - 15)
    writer.workers(worker("t-1", at=now, turn=turn_now, current=CurrentOp("optim_step", RUN)))
    [holding] = api.answer(PATH)["current"]
    assert (holding["wait_seconds"], holding["held_by"]) == (pytest.approx(5.0), [])
    assert holding["hold_seconds"] >= 14


def test_a_lost_worker_holds_no_device(api, writer, now):
    writer.operations(op(at=now - 60))
    turn_then = CurrentTurn("workload-1", now - 900, now - 890)
    writer.workers(worker("t-1", at=now - 800, turn=turn_then, current=CurrentOp("optim_step", RUN)))
    assert api.answer(PATH)["current"] == []


# --- Refusals and outages -------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "value"), [("since", "now"), ("workload", "a"), ("cursor", "x"), ("page_size", "0")])
def test_a_bad_parameter_is_refused_by_name(api, turns, name, value):
    assert api.refusal(PATH, **{name: value})["attr"] == name


def test_a_cursor_of_another_filter_is_refused(api, turns, now):
    cursor = api.answer(PATH, page_size=1)["next"]
    assert "other filters" in api.refusal(PATH, since=rfc3339(now - 99), cursor=cursor)["detail"]


def test_with_redis_out_history_answers(api, turns, point_site_at, tmp_path):
    take_snapshot()
    before = api.results(PATH)
    point_site_at(f"unix://{tmp_path}/nothing.sock?db=0")
    answer = api.answer(PATH)
    assert answer["results"] == before
    assert (answer["coverage"]["live"], answer["coverage"]["source"]) == (False, "history")
    assert answer["as_of"] == answer["coverage"]["last_snapshot_at"] is not None


def test_with_postgres_out_redis_answers(api, writer, now, postgres_out):
    writer.operations(op(at=now - 60))
    writer.turns(*(own_turn(now - 500 + n, id=f"a:{n:03}") for n in range(100)))
    before = api.results(PATH)
    postgres_out()
    answer = api.answer(PATH)
    assert (answer["results"], answer["total_matching"]) == (before, 100)
    assert (answer["coverage"]["live"], answer["coverage"]["history"]) == (True, False)


def test_a_list_of_another_type_is_told_as_malformed(api, turns):
    turns.client.delete(wire.turns_key("workload-1"))
    turns.client.set(wire.turns_key("workload-1"), "x")
    turns.client.zadd(wire.WORKLOADS_KEY, {"workload-1": 1})
    turns.operations(op(at=1_779_264_000.0))
    assert api.answer(PATH)["coverage"]["malformed_turns"] == 1


@pytest.mark.parametrize("kept", ["both", "history"])
def test_an_answer_costs_as_much_for_many_turns_as_for_one(api, writer, now, monkeypatch, kept):
    costs = []
    for numbers in (range(1), range(1, 20)):
        writer.operations(op(at=now - 100))
        writer.turns(*(own_turn(now - 90 + n, workload=f"w-{n}", requested_at=now - 95 + n) for n in numbers))
        take_snapshot()
        if kept == "history":
            writer.client.flushdb()
        costs.append(cost_of(api, PATH, monkeypatch))
    assert api.answer(PATH)["total_matching"] == 20
    assert costs[0] == costs[1]
    assert costs[1][0] <= 10
    assert costs[1][1] <= 6
