"""Failures of one run and of all: failed ops and failed sampling answers, newest first."""

from __future__ import annotations

import pytest

from telemetry_app.instants import rfc3339
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, op, sample_failure, sample_group
from tests.telemetry_app.api.conftest import run_path

pytestmark = pytest.mark.django_db
OF_RUN = run_path(RUN, "/failures")


@pytest.fixture(params=["live", "history", "both"])
def failures(request, writer, now):
    """Failures of two runs among records that did not fail."""
    writer.operations(
        op(at=now - 40, id="a:1", status="failed", error_type="ValueError", step=3),
        op(at=now - 39, id="a:2"),
        op(at=now - 38, id="a:3", status="cancelled"),
        op(at=now - 20, id="b:1", run_id="run-b", status="failed", error_type="KeyError", step=0),
    )
    writer.samples(
        sample_failure(at=now - 30, id="a:4", error_type="TimeoutError", source="deadline", accepted_at=now - 35),
        sample_group(at=now - 29, id="a:5", count=7),
    )
    if request.param != "live":
        take_snapshot()
    if request.param == "history":
        writer.client.flushdb()
    return writer


def ids(results):
    return [result["id"] for result in results]


def test_a_runs_failures_are_its_failed_ops_and_sampling_answers(api, failures):
    answer = api.answer(OF_RUN)
    assert (ids(answer["results"]), answer["total_matching"]) == (["a:4", "a:1"], 2)


def test_failures_of_all_runs_come_newest_first(api, failures):
    answer = api.answer("/failures")
    assert (ids(answer["results"]), answer["total_matching"]) == (["b:1", "a:4", "a:1"], 3)


def test_a_failed_op_and_a_failed_answer_have_the_same_fields(api, failures, now):
    sample, operation = api.results(OF_RUN)
    assert list(sample) == list(operation)
    assert (operation["kind"], operation["step"], operation["error_type"]) == ("operation", 3, "ValueError")
    assert (sample["kind"], sample["source"], sample["operation"]) == ("sample", "deadline", "sample")
    assert (sample["enqueued_at"], sample["elapsed_seconds"]) == (rfc3339(now - 35), pytest.approx(5.0))


@pytest.mark.parametrize("path", ["/failures", OF_RUN])
def test_pages_show_each_failure_once_though_all_ended_at_once(api, writer, now, path):
    writer.operations(*(op(at=now - 5, id=f"o:{n}", status="failed") for n in range(7)))
    writer.samples(*(sample_failure(at=now - 5, id=f"s:{n}") for n in range(7)))
    take_snapshot()
    writer.operations(*(op(at=now - 5, id=f"O:{n}", status="failed") for n in range(4)))
    found = ids(api.walk(path, page_size=3))
    assert len(found) == len(set(found)) == 18
    assert found == ids(api.results(path))


def test_failures_of_two_runs_under_one_id_are_two(api, writer, now):
    writer.operations(*(op(at=now - 5, id="w:1", status="failed", run_id=run) for run in (RUN, "run-b")))
    for _ in range(2):
        answer = api.answer("/failures")
        assert sorted(result["run_id"] for result in answer["results"]) == [RUN, "run-b"]
        assert answer["total_matching"] == 2
        take_snapshot()


def test_failures_of_two_runs_under_one_id_stand_on_two_pages(api, writer, now):
    writer.operations(*(op(at=now - 5, id="w:1", status="failed", run_id=run) for run in (RUN, "run-b", "run-c")))
    take_snapshot()
    writer.client.flushdb()
    assert sorted(result["run_id"] for result in api.walk("/failures", page_size=1)) == [RUN, "run-b", "run-c"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"error_type": "ValueError"}, ["a:1"]),
        ({"error_type": "TimeoutError"}, ["a:4"]),
        ({"error_type": "Nothing"}, []),
        ({"run": "run-b"}, ["b:1"]),
        ({"run": "run-c"}, []),
        ({"run": RUN, "error_type": "KeyError"}, []),
    ],
)
def test_filters_keep_what_they_say(api, failures, query, expected):
    answer = api.answer("/failures", **query)
    assert (ids(answer["results"]), answer["total_matching"]) == (expected, len(expected))


def test_failures_since_an_instant_are_those_at_or_behind_it(api, failures, now):
    assert ids(api.results("/failures", since=rfc3339(now - 30.5))) == ["b:1", "a:4"]


def test_a_failure_behind_the_snapshot_is_told(api, failures, now):
    failures.operations(op(at=now - 1, id="a:9", status="failed"))
    assert ids(api.results("/failures"))[0] == "a:9"
    assert ids(api.results(OF_RUN))[0] == "a:9"


@pytest.mark.parametrize(("name", "value"), [("since", "now"), ("status", "failed"), ("run", "a\x00"), ("cursor", "x")])
def test_a_bad_parameter_is_refused_by_name(api, writer, name, value):
    assert api.refusal("/failures", **{name: value})["attr"] == name


def test_a_cursor_of_another_filter_is_refused(api, failures):
    cursor = api.answer("/failures", page_size=1)["next"]
    assert "other filters" in api.refusal("/failures", run=RUN, cursor=cursor)["detail"]


def test_nothing_failed_is_told_with_what_was_looked_at(api, writer, now):
    writer.operations(op(at=now))
    answer = api.answer("/failures")
    assert (answer["results"], answer["coverage"]["live"], answer["coverage"]["last_snapshot_at"]) == ([], True, None)
    take_snapshot()
    assert api.answer("/failures")["coverage"]["last_snapshot_at"] is not None
