"""`/runs`: the list, its filters, orders and pages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from telemetry_app.instants import rfc3339
from telemetry_app.models import Run
from telemetry_app.snapshots import take_snapshot
from tests.support.records import op, step_of_ops, worker

pytestmark = pytest.mark.django_db


def ids(results):
    return [result["run_id"] for result in results]


@pytest.fixture
def three_runs(writer, now):
    """Runs whose activity, steps and failures order them differently."""
    for run_id, age, steps, failures in (("alpha", 300, 5, 1), ("beta", 100, 9, 0), ("gamma", 200, 7, 2)):
        for step in range(steps):
            writer.operations(*step_of_ops(step, at=now - age - 50 + step, run_id=run_id))
        for number in range(failures):
            writer.operations(op(at=now - age + number / 10, step=steps, run_id=run_id, status="failed"))
        writer.active(run_id, now - age)
        writer.steps(steps, run_id=run_id)
    return writer


@pytest.fixture(params=["live", "history", "both"])
def source(request, three_runs):
    """The list comes from Redis, from history, or from both."""
    if request.param != "live":
        take_snapshot()
    if request.param == "history":
        three_runs.client.flushdb()
    return request.param


def test_without_any_run_the_list_is_empty(api, writer):
    answer = api.answer("/runs")
    assert (answer["results"], answer["count"], answer["total_matching"], answer["next"]) == ([], 0, 0, None)
    assert answer["coverage"] == {"live": True, "history": True}


def test_runs_come_newest_activity_first(api, source):
    assert ids(api.results("/runs")) == ["beta", "gamma", "alpha"]


def test_a_run_in_both_sources_is_listed_once(api, three_runs, now):
    take_snapshot()
    three_runs.active("delta", now)
    answer = api.answer("/runs")
    assert ids(answer["results"]) == ["delta", "beta", "gamma", "alpha"]
    assert answer["total_matching"] == 4


def test_a_run_has_its_counts_from_every_source(api, source):
    [beta] = [run for run in api.results("/runs") if run["run_id"] == "beta"]
    assert (beta["steps_completed"], beta["failures_count"], beta["outstanding_count"]) == (9, 0, 0)
    assert beta["state"] in {"waiting_for_client", "progressing"}


def test_the_ledger_of_a_run_goes_on_behind_its_snapshot(api, writer, now):
    writer.active("alpha", now)
    writer.ledger("alpha", enqueued=10, answered=8)
    take_snapshot()
    writer.client.flushdb()
    writer.active("alpha", now)
    writer.ledger("alpha", enqueued=3, answered=2)
    [run] = api.results("/runs")
    assert (run["ledger"]["enqueued"], run["ledger"]["answered"], run["outstanding_count"]) == (13, 10, 3)


@pytest.mark.parametrize(
    ("ordering", "expected"),
    [
        ("run_id", ["alpha", "beta", "gamma"]),
        ("-run_id", ["gamma", "beta", "alpha"]),
        ("last_activity_at", ["alpha", "gamma", "beta"]),
        ("-steps_completed", ["beta", "gamma", "alpha"]),
        ("failures_count", ["beta", "alpha", "gamma"]),
    ],
)
def test_runs_come_in_the_order_asked_for(api, three_runs, ordering, expected):
    take_snapshot()
    assert ids(api.results("/runs", ordering=ordering)) == expected


@pytest.mark.parametrize(
    "ordering", ["run_id", "-run_id", "last_activity_at", "-last_activity_at", "-steps_completed", "steps_per_hour"]
)
@pytest.mark.parametrize("page_size", [1, 2, 5])
def test_pages_show_each_run_once_though_they_tie(api, writer, now, ordering, page_size):
    for number in range(7):
        writer.active(f"run-{number}", now - 5)
    take_snapshot()
    writer.active("run-7", now - 5)
    found = ids(api.walk("/runs", ordering=ordering, page_size=page_size))
    assert sorted(found) == [f"run-{number}" for number in range(8)]
    if page_size == 5:
        assert found == ids(api.results("/runs", ordering=ordering))


def test_filters_come_before_the_limit_and_the_total_is_told(api, writer, now):
    for number in range(9):
        writer.active(f"{'odd' if number % 2 else 'even'}-{number}", now - number)
    answer = api.answer("/runs", q="ODD", page_size=2)
    assert (ids(answer["results"]), answer["total_matching"]) == (["odd-1", "odd-3"], 4)
    assert ids(api.walk("/runs", q="odd", page_size=2)) == ["odd-1", "odd-3", "odd-5", "odd-7"]


def test_runs_active_since_an_instant_are_those_at_or_behind_it(api, source, now):
    assert ids(api.results("/runs", active_since=rfc3339(now - 250))) == ["beta", "gamma"]
    assert ids(api.results("/runs", active_since=rfc3339(now + 60))) == []


@pytest.mark.parametrize("value", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_an_instant_at_the_end_of_time_is_answered(api, three_runs, value):
    assert len(api.results("/runs", active_since=value)) in {0, 3}


@pytest.mark.parametrize("value", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_an_instant_beyond_the_years_is_refused(api, value):
    assert "RFC 3339" in api.refusal("/runs", active_since=value)["detail"]


def test_runs_in_a_state_are_those_that_are_in_it_now(api, three_runs, now):
    three_runs.operations(*(op(at=now - n, run_id="alpha", status="failed") for n in range(3)))
    take_snapshot()
    Run.objects.update(state="idle")
    assert ids(api.results("/runs", state="failing")) == ["alpha"]
    assert api.answer("/runs", state="stuck")["total_matching"] == 0


def test_runs_of_a_worker_are_those_it_names(api, three_runs, now):
    three_runs.workers(worker("w-1", at=now, runs=("alpha", "gamma")), worker("w-2", at=now, runs=("beta",)))
    assert ids(api.results("/runs", worker="w-1")) == ["gamma", "alpha"]
    assert ids(api.results("/runs", worker="nobody")) == []


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("state", "purple", "must be one of"),
        ("ordering", "state", "must be one of"),
        ("active_since", "yesterday", "RFC 3339"),
        ("page_size", "0", "whole number from 1 to 500"),
        ("page_size", "501", "whole number from 1 to 500"),
        ("cursor", "nonsense", "not one that this endpoint gave"),
        ("stat", "idle", "known ones are"),
        ("q", "a\x00", "no NUL"),
    ],
)
def test_a_bad_parameter_is_refused_by_name_value_and_rule(api, writer, name, value, rule):
    entry = api.refusal("/runs", **{name: value})
    assert (entry["attr"], entry["code"]) == (name, "invalid")
    assert rule in entry["detail"]


def test_a_cursor_of_another_filter_is_refused(api, three_runs):
    cursor = api.answer("/runs", page_size=1)["next"]
    assert "other filters" in api.refusal("/runs", page_size=1, q="a", cursor=cursor)["detail"]
    assert api.answer("/runs", page_size=2, cursor=cursor)["count"] == 2


def test_the_answer_tells_its_age(api, writer):
    as_of = datetime.fromisoformat(api.answer("/runs")["as_of"])
    assert abs((datetime.now(UTC) - as_of).total_seconds()) < 60


@pytest.mark.parametrize("score", [float("inf"), 1e300, -5.0])
def test_a_run_whose_activity_is_no_instant_is_listed(api, writer, score):
    writer.client.zadd("open_rl:runs", {"odd": score})
    [run] = api.results("/runs")
    assert (run["run_id"], run["last_activity_at"]) == ("odd", None)


@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        ({"tag": "ablation"}, 1),
        ({"tag": "abl"}, 0),
        ({"q": "baby"}, 1),
        ({"q": "WARM"}, 1),
        ({"q": "run-a"}, 1),
        ({"q": "no"}, 0),
    ],
)
def test_runs_are_found_by_a_tag_and_by_any_part_of_a_name_or_a_tag(api, writer, now, parameters, found):
    writer.operations(op(at=now - 5))
    writer.active("run-a", now - 5)
    take_snapshot()
    Run.objects.update(name="My Baby", tags=["ablation", "warm start"])
    results = api.results("/runs", **parameters)
    assert [(run["name"], run["tags"]) for run in results] == [("My Baby", ["ablation", "warm start"])] * found
