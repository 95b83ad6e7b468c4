"""The pages of GPUs: bars and tables that add up, any time in the address, CSV, empty, stale and hostile."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.http import urlencode

from telemetry_app.admin.device_tables import SHOWN_RUNS, by_day, by_run
from telemetry_app.admin.gpu_bar import bar_parts, percents, shown_runs
from telemetry_app.device_share import COMPUTING, DAY_SECONDS, IDLE, IDLE_WHILE_WAITED, SWITCHING, DeviceRow
from telemetry_app.inspection import devices
from telemetry_app.instants import rfc3339
from telemetry_app.models import Run
from telemetry_app.snapshots import take_snapshot
from tests.support.records import START, RecordWriter, op, turn
from workers_client import wire

LIST, PAGE, CSV = (f"/admin/telemetry_app/run/{name}" for name in ("gpus/", "gpu/", "gpu.csv"))
database = pytest.mark.django_db


def text_of(client: Client, path: str, **query: str) -> str:
    answer = client.get(path, query)
    assert answer.status_code == 200
    return answer.content.decode()


def held(begin: float, first: float, last: float, run_id: str, **fields: Any) -> wire.TurnRecord:
    """Return a turn of a run from `first` to `last` seconds after `begin`, all of it one op."""
    ops = (wire.TurnOp("forward_backward", begin + first, begin + last, run_id=run_id),)
    return turn(at=begin + last, started_at=begin + first, ops=ops, workload=f"w-{run_id}", **fields)


@pytest.fixture
def since(writer: RecordWriter) -> float:
    """An instant 1,000 s ago: run-a then holds n-1 for 60 s while run-b waits, which holds it for 20 s."""
    begin = time.time() - 1_000
    writer.operations(op(at=begin, run_id="run-a"), op(at=begin, run_id="run-b"))
    writer.turns(
        held(begin, 0, 60, "run-a", node="n-1"),
        held(begin, 65, 85, "run-b", requested_at=begin + 10, node="n-1"),
        held(begin, 0, 10, "run-c"),
    )
    return begin


def span(since: float, seconds: float) -> dict[str, str]:
    return {"since": str(rfc3339(since)), "until": str(rfc3339(since + seconds))}


def row(activity: str, seconds: float, run_id: str | None = None, *, day: int = 0, waited: float = 0.0) -> DeviceRow:
    start = START - START % DAY_SECONDS + day * DAY_SECONDS
    return DeviceRow(start, start + DAY_SECONDS, activity, run_id, seconds, seconds / DAY_SECONDS, waited)


# --- What adds up -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("parts", [(1, 1, 1), (1, 1, 1, 1, 1, 1, 0), (99_999, 1), (0.1, 0.2, 0.7), (5,)])
def test_percents_add_up_to_a_hundred(parts: tuple[float, ...]) -> None:
    found = percents(parts)
    assert round(sum(found), 6) == 100
    assert all(abs(percent - 100 * part / sum(parts)) < 0.1 for part, percent in zip(parts, found, strict=True))


def test_percents_of_nothing_are_nothing() -> None:
    assert percents((0.0, 0.0)) == [0.0, 0.0]


def test_runs_keep_their_colour_when_another_computes_more() -> None:
    assert shown_runs({"b": 2.0, "a": 1.0}) == shown_runs({"b": 1.0, "a": 2.0})


def test_runs_without_a_colour_are_one_part() -> None:
    by = {f"run-{number}": float(number) for number in range(9)}
    parts = bar_parts(by, {SWITCHING: 1.0, IDLE_WHILE_WAITED: 0.0, IDLE: 63.0}, shown_runs(by), 100.0)
    assert sum(part.seconds for part in parts) == pytest.approx(100.0)
    assert [part.seconds for part in parts if part.label == "other runs"] == [3.0]


def test_a_device_with_very_many_runs_has_a_bounded_table_that_adds_up() -> None:
    runs = [row(COMPUTING, 1.0, f"run-{number}", waited=2.0) for number in range(SHOWN_RUNS + 50)]
    found = by_run([*runs, row(IDLE, 750.0)], ["run-1"])
    assert len(found.rows) == SHOWN_RUNS + 4
    assert sum(each.seconds for each in found.rows) == found.seconds == 1_000.0
    assert round(sum(each.percent for each in found.rows), 6) == 100
    assert sum(each.neighbours_waited_seconds for each in found.rows) == found.neighbours_waited_seconds == 500.0


def test_days_come_newest_first_each_with_its_own_bar() -> None:
    rows = [row(COMPUTING, 100.0, "a"), row(IDLE, 300.0), row(COMPUTING, 300.0, "a", day=1), row(IDLE, 100.0, day=1)]
    found = by_day(rows, lambda own: bar_parts({"a": 0.0}, {}, [], 0.0) or [])
    assert [each.start - rows[0].start for each in found.rows] == [DAY_SECONDS, 0.0]


# --- The pages --------------------------------------------------------------------------------------------------
@database
def test_the_list_has_each_device_with_its_bar(admin_client: Client, since: float) -> None:
    shown = text_of(admin_client, LIST, **span(since, 100))
    assert "All 2 devices" in shown
    assert shown.index("n-1") < shown.index("unnamed")
    assert f"{PAGE}?device=n-1" in shown


@database
@pytest.mark.parametrize("is_stored", [False, True])
def test_a_devices_table_says_what_a_run_cost_its_neighbours(
    admin_client: Client, since: float, is_stored: bool
) -> None:
    if is_stored:
        take_snapshot()
        Run.objects.filter(pk="run-a").update(name="The <b>first</b>")
    shown = text_of(admin_client, PAGE, device="n-1", **span(since, 100))
    [table] = re.findall(r"<table.*</table>", shown, re.DOTALL)
    rows = [re.sub(r"<[^>]*>", " ", each).split() for each in table.split("<tr")]
    [own] = [each for each in rows if ("&lt;b&gt;first&lt;/b&gt;" if is_stored else "run-a") in each]
    assert own[-7:] == ["60.0", "%", "1", "min", "60.0", "50.0", "s"]  # the last: what run-b waited for it


@database
def test_days_are_shown_and_lead_to_their_own_time(admin_client: Client, since: float) -> None:
    shown = text_of(admin_client, PAGE, device="n-1", by="day", span="week")
    assert "Days are those of UTC" in shown
    [link, *_] = re.findall(r'href="([^"]*gpu/\?device=n-1&amp;since=[^"]*)"', shown)
    assert "By run" in text_of(admin_client, link.replace("&amp;", "&"))


@database
def test_the_csv_is_of_the_time_shown(admin_client: Client, since: float) -> None:
    shown = text_of(admin_client, PAGE, device="n-1", **span(since, 100))
    [link] = re.findall(r'href="([^"]*gpu\.csv[^"]*)"', shown)
    answer = admin_client.get(link.replace("&amp;", "&"))
    lines = b"".join(answer).decode().splitlines()
    assert answer["Content-Disposition"].startswith("attachment")
    assert lines[0].split(",")[2:5] == ["activity", "run_id", "seconds"]
    assert sum(float(line.split(",")[4]) for line in lines[1:]) == pytest.approx(100, abs=0.01)


@database
def test_a_time_begins_with_the_first_of_all_turns(admin_client: Client, since: float) -> None:
    take_snapshot()
    shown = text_of(admin_client, PAGE, device="n-1", span="month")
    assert "No turn was recorded before" in shown
    assert "30 d" not in shown.partition("tfoot")[2]


@database
def test_a_form_without_an_offset_means_utc(admin_client: Client, since: float) -> None:
    begin = str(rfc3339(since))[:16]
    shown = text_of(admin_client, PAGE, device="n-1", since=begin, until="")
    assert 'id="span-fault"' not in shown
    assert 'id="gpu-whole"' in shown


@database
@pytest.mark.parametrize(
    "query",
    [
        {"since": "yesterday"}, {"until": "2026-99-01T00:00:00Z"},
        {"since": "2026-05-21T00:00:00Z", "until": "2026-05-20T00:00:00Z"}, {"since": "0001-01-01T00:00"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", [LIST, PAGE])
def test_a_time_that_is_none_is_told(admin_client: Client, path: str, query: dict[str, str]) -> None:
    assert 'role="alert"' in text_of(admin_client, path, **query)


@database
@pytest.mark.parametrize("query", [{"span": "century"}, {"page": "9"}, {"page": "x"}, {"by": "week"}])
def test_an_unknown_word_means_the_usual(admin_client: Client, since: float, query: dict[str, str]) -> None:
    assert "n-1" in text_of(admin_client, LIST, **query)
    assert "n-1" in text_of(admin_client, PAGE, device="n-1", **query)


@database
@pytest.mark.parametrize("device", ["", "no-such", "a/b?c=d&e", "<script>alert(1)</script>", "🦙" * 300])
def test_a_device_without_turns_is_told(admin_client: Client, since: float, device: str) -> None:
    shown = text_of(admin_client, f"{PAGE}?{urlencode({'device': device})}")
    assert "No turn of this device was recorded" in shown
    assert "<script>alert" not in shown


@database
def test_without_turns_the_list_says_how_they_are_recorded(admin_client: Client, writer: RecordWriter) -> None:
    assert "gpu_turn" in text_of(admin_client, LIST)


@database
def test_without_redis_it_says_what_is_missing(
    admin_client: Client, since: float, request: pytest.FixtureRequest
) -> None:
    take_snapshot()
    request.getfixturevalue("redis_out")
    for shown in (text_of(admin_client, LIST), text_of(admin_client, PAGE, device="n-1")):
        assert "Redis can" in shown
        assert "missing" in shown
        assert "n-1" in shown


@database
def test_many_devices_take_as_many_queries_as_one(admin_client: Client, since: float, writer: RecordWriter) -> None:
    def queries(path: str, **query: str) -> int:
        devices.forget()
        with CaptureQueriesContext(connection) as captured:
            text_of(admin_client, path, **query)
        return len(captured)

    take_snapshot()
    before = [queries(LIST), queries(PAGE, device="n-1"), queries(PAGE, device="n-1", by="day")]
    for number in range(120):
        writer.turns(held(since, 100 + number, 101 + number, f"run-{number}", node=f"m-{number:03}"))
    take_snapshot()
    assert [queries(LIST), queries(PAGE, device="n-1"), queries(PAGE, device="n-1", by="day")] == before
    shown = text_of(admin_client, LIST)
    assert ("All 122 devices" in shown, shown.count('<h3 class="t-heading">')) == (True, 50)
    assert "m-119" in text_of(admin_client, LIST, page="3")


@database
@pytest.mark.parametrize("path", [LIST, PAGE, CSV])
def test_who_may_not_see_runs_sees_no_gpus(client: Client, path: str) -> None:
    client.force_login(get_user_model().objects.create_user("guest", password="x", is_staff=True))
    assert client.get(path, {"device": "n-1"}).status_code == 403


@database
def test_the_fleet_and_the_navigation_lead_there(admin_client: Client, since: float) -> None:
    shown = text_of(admin_client, "/admin/")
    assert f'href="{LIST}?span=hour"' in shown
    assert f'href="{LIST}"' in shown
