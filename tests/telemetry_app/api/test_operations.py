"""`/runs/{id}/operations`: op records newest first, filtered before they are cut into pages."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from telemetry_app.instants import rfc3339
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, foreign_op, op
from tests.telemetry_app.api.conftest import run_path
from workers_client.wire import FORWARD_BACKWARD, OPTIM_STEP

pytestmark = pytest.mark.django_db
OPERATIONS = run_path(RUN, "/operations")


def ids(results):
    return [result["id"] for result in results]


@pytest.fixture(params=["live", "history", "both", "half"])
def source(request, writer):
    """A function that puts records where they are read from: Redis, history, both, or half of them in each."""

    def put(*records):
        half = len(records) // 2
        if request.param == "half":
            writer.operations(*records[:half])
            take_snapshot()
            writer.operations(*records[half:])
            return
        writer.operations(*records)
        if request.param != "live":
            take_snapshot()
        if request.param == "history":
            writer.client.flushdb()

    return put


def test_op_records_come_newest_first(api, source, now):
    source(*(op(at=now - 10 + n, id=f"w:{n}") for n in range(4)))
    answer = api.answer(OPERATIONS)
    assert ids(answer["results"]) == ["w:3", "w:2", "w:1", "w:0"]
    assert (answer["total_matching"], answer["is_total_capped"], answer["next"]) == (4, False, None)


def test_an_op_record_is_told_field_by_field_from_every_source(api, source, now):
    record = op(
        OPTIM_STEP, at=now, step=7, role="trainer", enqueued_at=now - 9, queue_seconds=2.5, started_at=now - 5,
        elapsed_seconds=5.0, metrics={"loss:sum": 1.5}, nonfinite={"grad_norm": "nan"}, tokens=100, datums=4,
        batch="b1", trace_id="t", span_id="s", status="failed", error_type="ValueError", error_category="user",
    )  # fmt: skip
    source(op(at=now - 50), record)
    shown = api.results(OPERATIONS)[0]
    instants = {name: rfc3339(getattr(record, name)) for name in ("at", "enqueued_at", "started_at")}
    left_out = {"pod", "pod_uid", "node", "runtime_id"}
    assert (
        shown
        == {name: getattr(record, name) for name in record.__dataclass_fields__ if name not in left_out} | instants
    )


@pytest.mark.parametrize("page_size", [1, 3, 7])
def test_pages_show_each_record_once_though_all_ended_at_once(api, source, now, page_size):
    # ids in which the order of letters, digits and signs differs between collations
    names = ["w:1", "w:10", "w:2", "W:3", "w-4", "a_5", "Ä:6", "a:7", "B:8", "🚀:9", "w:1a", "w:1A"]
    source(*(op(at=now - 10, id=name) for name in names))
    found = ids(api.walk(OPERATIONS, page_size=page_size))
    assert sorted(found) == sorted(names)
    assert found == ids(api.results(OPERATIONS))


def test_pages_hold_while_new_records_come(api, source, writer, now):
    source(*(op(at=now - 50 + n, id=f"w:{n}") for n in range(6)))
    first = api.answer(OPERATIONS, page_size=4)
    writer.operations(op(at=now, id="new"))
    second = api.answer(OPERATIONS, page_size=4, cursor=first["next"])
    assert ids(first["results"]) + ids(second["results"]) == ["w:5", "w:4", "w:3", "w:2", "w:1", "w:0"]


def test_pages_hold_while_a_snapshot_is_taken(api, writer, now):
    writer.operations(*(op(at=now - 50 + n, id=f"w:{n}") for n in range(6)))
    first = api.answer(OPERATIONS, page_size=2)
    take_snapshot()
    second = api.answer(OPERATIONS, page_size=2, cursor=first["next"])
    writer.client.flushdb()
    third = api.answer(OPERATIONS, page_size=2, cursor=second["next"])
    assert [ids(page["results"]) for page in (first, second, third)] == [["w:5", "w:4"], ["w:3", "w:2"], ["w:1", "w:0"]]


@pytest.fixture
def varied(source, now):
    source(
        op(FORWARD_BACKWARD, at=now - 40, id="w:1", step=0),
        op(FORWARD_BACKWARD, at=now - 30, id="w:2", step=0, status="failed"),
        op(OPTIM_STEP, at=now - 20, id="w:3", step=0),
        op(FORWARD_BACKWARD, at=now - 10, id="w:4", step=1, status="cancelled"),
    )


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"status": "failed"}, ["w:2"]),
        ({"status": "cancelled"}, ["w:4"]),
        ({"operation": OPTIM_STEP}, ["w:3"]),
        ({"operation": "nothing"}, []),
        ({"step": "0"}, ["w:3", "w:2", "w:1"]),
        ({"step": "9007199254740992"}, []),
        ({"step": "0", "status": "succeeded", "operation": FORWARD_BACKWARD}, ["w:1"]),
    ],
)
def test_filters_keep_what_they_say(api, varied, query, expected):
    answer = api.answer(OPERATIONS, **query)
    assert (ids(answer["results"]), answer["total_matching"]) == (expected, len(expected))


def test_a_span_of_time_holds_its_begin_and_not_its_end(api, source):
    start = 1_790_000_000.0
    source(*(op(at=start + n, id=f"w:{n}") for n in range(4)))
    span = {"since": rfc3339(start + 1), "until": rfc3339(start + 3)}
    assert ids(api.results(OPERATIONS, **span)) == ["w:2", "w:1"]


def test_records_of_openrl_itself_have_their_steps(api, source, now):
    names = [FORWARD_BACKWARD, OPTIM_STEP, FORWARD_BACKWARD, OPTIM_STEP]
    source(*(foreign_op(name, at=now - 10 + n) for n, name in enumerate(names)))
    assert [result["step"] for result in api.results(OPERATIONS)] == [1, 1, 0, 0]


def test_a_record_delivered_again_is_listed_once(api, source, now):
    record = op(at=now - 9, id="w:1")
    source(record, op(at=now - 8, id="w:2"), record)
    answer = api.answer(OPERATIONS)
    assert (ids(answer["results"]), answer["total_matching"]) == (["w:2", "w:1"], 2)


def test_a_cursor_of_another_run_is_refused(api, writer, now):
    writer.operations(*(op(at=now, run_id=run) for run in (RUN, "run-b") for _ in range(3)))
    cursor = api.answer(OPERATIONS, page_size=1)["next"]
    assert "other filters" in api.refusal(run_path("run-b", "/operations"), cursor=cursor)["detail"]


@pytest.mark.parametrize(
    ("name", "value"), [("status", "done"), ("step", "-1"), ("since", "now"), ("until", "2026-01-01"), ("sort", "at")]
)
def test_a_bad_parameter_is_refused_by_name(api, writer, now, name, value):
    writer.active(RUN, now)
    assert api.refusal(OPERATIONS, **{name: value})["attr"] == name


def test_more_matches_than_are_counted_are_told_as_capped(api, writer, now, monkeypatch):
    monkeypatch.setattr("telemetry_app.inspection.records.COUNT_LIMIT", 5)
    writer.operations(*(op(at=now - n) for n in range(8)))
    take_snapshot()
    answer = api.answer(OPERATIONS)
    assert (answer["total_matching"], answer["is_total_capped"]) == (5, True)


def test_a_run_nobody_knows_has_no_operations(api, writer):
    assert api.answer(run_path("nobody", "/operations"), 404)["errors"][0]["code"] == "not_found"


def test_history_is_ordered_as_live_records_are_whatever_the_databases_collation(api, writer, now):
    writer.operations(op(at=now))
    take_snapshot()
    with CaptureQueriesContext(connection) as queries:
        api.answer(OPERATIONS)
    [ordered] = [query["sql"] for query in queries if 'ORDER BY "telemetry_app_operation"."at" DESC' in query["sql"]]
    assert 'COLLATE "C" DESC' in ordered
