"""Devices: what each did, by run and by day, as JSON and as a table."""

from __future__ import annotations

import csv
import io

import pytest

from telemetry_app.inspection import devices
from telemetry_app.instants import from_unix, rfc3339
from telemetry_app.models import Turn
from telemetry_app.snapshots import take_snapshot
from tests.support.costs import cost_of
from tests.support.records import op, turn, worker
from tests.telemetry_app.api.conftest import BASE
from workers_client import wire
from workers_client.wire_worker import CurrentOp, CurrentTurn

pytestmark = pytest.mark.django_db
TIME = "/devices/n-1/time"


def held(at, first, last, run_id, **fields):
    ops = (wire.TurnOp("forward_backward", at + first, at + last, run_id=run_id),)
    return turn(at=at + last, started_at=at + first, ops=ops, workload=f"w-{run_id}", **fields)


@pytest.fixture(params=["live", "history", "both"])
def shared(request, writer, now):
    """One device that run-a holds for 60 s while run-b waits, which then holds it for 20 s; and another one."""
    at = now - 1_000
    writer.operations(op(at=now - 900))
    writer.turns(
        held(at, 0, 60, "run-a", node="n-1"),
        held(at, 65, 85, "run-b", requested_at=at + 10, node="n-1"),
        held(at, 0, 10, "run-c"),
    )
    if request.param != "live":
        take_snapshot()
    if request.param == "history":
        writer.client.flushdb()
    return {"since": rfc3339(at), "until": rfc3339(at + 100)}


def test_devices_come_by_name_with_what_they_did(api, shared):
    first, second = api.results("/devices", **shared)
    assert (first["device"], second["device"], second["turns_count"]) == ("n-1", "unnamed", 1)
    names = ("computing_seconds", "switching_seconds", "idle_while_waited_seconds", "idle_seconds")
    assert [first[name] for name in names] == pytest.approx([80, 0, 5, 15], abs=0.01)
    assert (first["workloads"], first["overlap_seconds"]) == (["w-run-a", "w-run-b"], 0)


def test_devices_come_in_pages(api, shared):
    assert [device["device"] for device in api.walk("/devices", page_size=1, **shared)] == ["n-1", "unnamed"]


def test_a_devices_time_is_told_by_run_and_adds_up(api, shared):
    rows = api.results(TIME, **shared)
    assert [(row["activity"], row["run_id"]) for row in rows] == [
        ("computing", "run-a"), ("computing", "run-b"), ("switching", None), ("idle_while_waited", None),
        ("idle", None),
    ]  # fmt: skip
    assert [row["seconds"] for row in rows] == pytest.approx([60, 20, 0, 5, 15], abs=0.01)
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)


def test_what_a_run_cost_its_neighbours_is_told(api, shared):
    first, second = api.results(TIME, **shared)[:2]
    assert first["neighbours_waited_seconds"] == pytest.approx(50, abs=0.01)
    assert second["neighbours_waited_seconds"] == 0


def test_a_devices_time_is_told_by_day(api, shared, now):
    rows = api.walk(TIME, by="day", since=rfc3339(now - 86_400), until=shared["until"], page_size=3)
    spans = {row["since"]: row["until"] for row in rows}
    assert len(spans) in (1, 2)  # midnight may lie in between
    assert sum(row["seconds"] for row in rows) == pytest.approx(86_400 - 900, abs=0.01)
    assert sum(row["seconds"] for row in rows if row["run_id"] == "run-a") == pytest.approx(60, abs=0.01)


def test_a_devices_time_comes_as_a_table(api, shared):
    headers = {"Authorization": f"Token {api.token}", "Accept": "text/csv"}
    response = api.client.get(f"{BASE}{TIME}", shared, headers=headers)
    [header, *rows] = csv.reader(io.StringIO(b"".join(response.streaming_content).decode()))
    assert header == ["since", "until", "activity", "run_id", "seconds", "share", "neighbours_waited_seconds"]
    assert [row[2:4] for row in rows][:2] == [["computing", "run-a"], ["computing", "run-b"]]


def test_a_turn_that_is_held_right_now_counts(api, writer, now):
    writer.workers(
        worker("t-1", at=now, node="n-9", turn=CurrentTurn("w", started_at=now - 50),
               current=CurrentOp("optim_step", "run-a", "q", now - 40)),
        worker("t-2", at=now, node="n-9", turn=CurrentTurn("v", requested_at=now - 30)),
    )  # fmt: skip
    [device] = api.results("/devices")
    assert (device["device"], device["computing_seconds"] >= 39) == ("n-9", True)
    computing = api.results("/devices/n-9/time")[0]
    assert (computing["run_id"], computing["neighbours_waited_seconds"] >= 29) == ("run-a", True)


def test_a_device_that_nobody_knows_is_not_found(api, shared):
    assert api.answer("/devices/n-7/time", 404)["errors"][0]["code"] == "not_found"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("by", {"by": "week"}),
        ("since", {"since": "now"}),
        ("until", {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}),
        ("until", {"since": "2020-01-01T00:00:00Z"}),
        ("run", {"run": "a"}),
    ],
)
def test_a_bad_parameter_is_refused_by_name(api, shared, name, given):
    assert api.refusal(TIME, **given)["attr"] == name


@pytest.mark.parametrize("shared", ["history", "both"], indirect=True)
def test_with_redis_out_history_answers(api, shared, redis_out):
    assert len(api.results("/devices", **shared)) == 2
    answer = api.answer("/devices", **shared)
    assert (answer["coverage"]["live"], answer["coverage"]["source"]) == (False, "history")


def test_with_both_out_nothing_is_told(api, redis_out, postgres_out):
    postgres_out()
    assert api.answer("/devices", 503)["type"] == "server_error"


def test_an_answer_costs_as_much_for_many_turns_as_for_one(api, writer, now, monkeypatch):
    costs = []
    for numbers in (range(1), range(1, 20)):
        writer.turns(*(held(now - 900 + n, 0, 1, "run-a", node=f"n-{n}") for n in numbers))
        take_snapshot()
        costs.append(cost_of(api, "/devices", monkeypatch))
    assert costs[0] == costs[1]


def test_a_device_that_computed_nothing_is_listed(api, writer, now):
    writer.turns(turn(at=now - 10, started_at=now - 20, workload="w", node="n-1"))  # a lease without an op
    [device] = api.results("/devices")
    assert (device["turns_count"], device["computing_seconds"]) == (1, 0.0)


# --- Long stretches ---------------------------------------------------------------------------------------------
@pytest.fixture
def week(writer, now):
    """A turn of 60 s each three hours for a week, all stored; and the stretch."""
    begin = now - 7 * 86_400
    writer.turns(*(held(begin + 10_800 * n, 300, 360, "run-a", node="n-1") for n in range(56)))
    take_snapshot()
    writer.client.flushdb()
    return {"since": rfc3339(begin), "until": rfc3339(now)}


def computed(api, week):
    [device] = api.results("/devices", **week)
    rows = api.results(TIME, **week)
    assert sum(row["seconds"] for row in rows) == pytest.approx(7 * 86_400)
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    by_day = api.walk(TIME, by="day", **week)
    assert sum(row["seconds"] for row in by_day if row["run_id"]) == pytest.approx(rows[0]["seconds"])
    return device["turns_count"], round(rows[0]["seconds"], 3)


def test_a_week_is_told_whole_and_the_same_again(api, week):
    assert [computed(api, week), computed(api, week)] == [(56, 3_360.0)] * 2


def test_a_turn_that_comes_late_is_seen(api, week, writer, now):
    computed(api, week)
    writer.turns(held(now - 4 * 86_400, 7_000, 7_100, "run-b", node="n-1"))
    live = api.results(TIME, **week)
    take_snapshot()
    assert api.results(TIME, **week) == live
    assert [row["run_id"] for row in live if row["activity"] == "computing"] == ["run-a", "run-b"]


def test_turns_that_went_are_no_longer_told(api, week, now):
    computed(api, week)
    Turn.objects.filter(at__lt=from_unix(now - 4 * 86_400)).delete()
    assert computed(api, week) == (32, 1_920.0)


def test_with_too_many_turns_the_stretch_begins_later_and_says_so(api, week, monkeypatch):
    monkeypatch.setattr(devices, "MOST_TURNS", 20)
    answer = api.answer("/devices", **week)
    assert answer["coverage"]["is_span_shortened"]
    assert week["since"] < answer["since"] < week["until"]
    [device] = answer["results"]
    assert 8 < device["turns_count"] <= 20


def test_a_week_costs_no_more_queries_where_parts_are_kept(api, week, monkeypatch):
    first, again = (cost_of(api, f"/devices?since={week['since']}", monkeypatch) for _ in range(2))
    assert (again[0] <= first[0], again[1]) == (True, first[1])


def test_turns_that_reach_beyond_the_end_count_up_to_it(api, writer, now):
    writer.turns(
        held(now - 5_000, 0, 600, "run-a", node="n-1"),
        held(now, -100, -50, "run-b", node="n-1", requested_at=now - 4_900),
    )
    take_snapshot()
    rows = api.results(TIME, since=rfc3339(now - 5_000), until=rfc3339(now - 4_800))
    assert [row["seconds"] for row in rows if row["run_id"]] == pytest.approx([200], abs=0.01)
    assert rows[0]["neighbours_waited_seconds"] == pytest.approx(100, abs=0.01)
