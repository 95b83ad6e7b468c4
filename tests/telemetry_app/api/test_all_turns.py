"""The GPU turns of all workloads: who had a device when, whichever run it was for."""

from __future__ import annotations

import csv
import io

import pytest

from telemetry_app.api.tables import RISKY
from telemetry_app.instants import rfc3339
from telemetry_app.models import Turn
from telemetry_app.snapshots import take_snapshot
from tests.support.costs import cost_of
from tests.support.records import RUN, turn
from tests.telemetry_app.api.conftest import BASE
from workers_client import wire

pytestmark = pytest.mark.django_db
PATH = "/turns"


@pytest.fixture(params=["live", "history", "both"])
def turns(request, writer, now):
    """A turn of a run, one that switches for nobody, and one of another node and run."""
    ran = wire.TurnOp("optim_step", now - 32, now - 30, run_id=RUN, count=2, status="succeeded", request_id="q-1")
    writer.turns(
        turn(at=now - 30, id="a:1", worker="t-1", workload="a", node="n-1", requested_at=now - 42,
             started_at=now - 35, ops=(wire.TurnOp("wake_up", now - 35, now - 32), ran)),
        turn(at=now - 20, id="a:2", worker="t-1", workload="a", node="n-1",
             ops=(wire.TurnOp("sleep", now - 21, now - 20),)),
    )  # fmt: skip
    if request.param == "both":
        take_snapshot()
    other = wire.TurnOp("forward", now - 12, now - 10, run_id="run-b")
    writer.turns(turn(at=now - 10, id="b:1", worker="t-2", workload="b", node="n-2", ops=(other,)))
    if request.param == "history":
        take_snapshot()
        writer.client.flushdb()
    return writer


def ids(answer):
    return [result["id"] for result in answer["results"]]


def test_all_turns_come_newest_first_whatever_ran_in_them(api, turns):
    answer = api.answer(PATH)
    assert (ids(answer), answer["count"], answer["total_matching"]) == (["b:1", "a:2", "a:1"], 3, 3)
    assert [result["run_ids"] for result in answer["results"]] == [["run-b"], [], [RUN]]


def test_a_turn_says_what_ran_in_it_for_whom(api, turns, now):
    told = api.results(PATH)[-1]
    assert (told["workload"], told["worker"], told["node"]) == ("a", "t-1", "n-1")
    assert (told["wait_seconds"], told["hold_seconds"], told["switch_seconds"]) == pytest.approx((7.0, 5.0, 3.0))
    woken, ran = told["operations"]
    assert (woken["operation"], woken["run_id"]) == ("wake_up", None)
    assert (ran["operation"], ran["run_id"], ran["count"], ran["request_id"]) == ("optim_step", RUN, 2, "q-1")
    assert (ran["started_at"], ran["ended_at"]) == (rfc3339(now - 32), rfc3339(now - 30))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"workload": "a"}, ["a:2", "a:1"]),
        ({"node": "n-2"}, ["b:1"]),
        ({"worker": "t-1"}, ["a:2", "a:1"]),
        ({"workload": "a", "node": "n-2"}, []),
    ],
)
def test_filters_come_before_the_page_is_cut(api, turns, given, expected):
    answer = api.answer(PATH, **given, page_size=500)
    assert (ids(answer), answer["total_matching"]) == (expected, len(expected))


def test_turns_are_asked_for_by_when_they_ended(api, turns, now):
    assert ids(api.answer(PATH, since=rfc3339(now - 31), until=rfc3339(now - 15))) == ["a:2", "a:1"]
    assert ids(api.answer(PATH, since=rfc3339(now - 25))) == ["b:1", "a:2"]
    assert ids(api.answer(PATH, until=rfc3339(now - 25))) == ["a:1"]


def test_pages_have_each_turn_once(api, turns):
    assert [result["id"] for result in api.walk(PATH, page_size=1)] == ["b:1", "a:2", "a:1"]
    cursor = api.answer(PATH, page_size=1)["next"]
    assert api.refusal(PATH, page_size=1, cursor=cursor, workload="a")["attr"] == "cursor"


def test_turns_that_end_at_one_instant_have_an_order(api, writer, now):
    writer.turns(*(turn(at=now - 30, id="same:1", workload=name) for name in "abc"))
    expected = [result["workload"] for result in api.walk(PATH, page_size=1)]
    take_snapshot()
    assert [result["workload"] for result in api.walk(PATH, page_size=1)] == expected == ["c", "b", "a"]


@pytest.mark.parametrize("turns", ["history"], indirect=True)
def test_coverage_says_where_turns_come_from(api, turns):
    coverage = api.answer(PATH)["coverage"]
    assert (coverage["source"], coverage["live"], coverage["history"]) == ("history", True, True)
    assert coverage["last_snapshot_at"] is not None


@pytest.mark.parametrize("turns", ["both"], indirect=True)
def test_with_redis_out_history_answers(api, turns, redis_out):
    take = api.answer(PATH)
    assert (ids(take), take["coverage"]["live"], take["as_of"]) == (
        ["a:2", "a:1"], False, take["coverage"]["last_snapshot_at"],
    )  # fmt: skip


@pytest.mark.parametrize("turns", ["both"], indirect=True)
def test_a_table_has_all_turns(api, turns):
    headers = {"Authorization": f"Token {api.token}", "Accept": "text/csv"}
    response = api.client.get(f"{BASE}{PATH}", {"page_size": 1}, headers=headers)
    rows = list(csv.DictReader(io.StringIO(b"".join(response.streaming_content).decode())))
    assert [row["id"] for row in rows] == ["b:1", "a:2", "a:1"]
    assert '"run_id":"run-b"' in rows[0]["operations"]
    assert not [cell for row in rows for cell in row.values() if cell.startswith(RISKY)]


@pytest.mark.parametrize("name", ["run", "devices", "sincee"])
def test_an_unknown_parameter_is_refused_by_name(api, db, name):
    assert api.refusal(PATH, **{name: "x"})["attr"] == name


def test_an_answer_costs_as_much_for_many_turns_as_for_one(api, writer, now, monkeypatch):
    writer.turns(turn(at=now - 100))
    take_snapshot()
    one = cost_of(api, PATH, monkeypatch)
    writer.turns(*(turn(at=now - 90 + number) for number in range(40)))
    take_snapshot()
    assert cost_of(api, PATH, monkeypatch) == one
    assert Turn.objects.count() == 41
