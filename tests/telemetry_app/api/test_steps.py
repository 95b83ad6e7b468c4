"""`/runs/{id}/steps`: the same steps from Redis, from history and from both."""

from __future__ import annotations

import pytest

from telemetry_app.models import Run
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, foreign_op, op, step_of_ops
from tests.telemetry_app.api.conftest import run_path
from workers_client.wire import FORWARD_BACKWARD, OPTIM_STEP

pytestmark = pytest.mark.django_db
STEPS = run_path(RUN, "/steps")


def eventful_run(now, *, make=op, steps=8):
    """Return records with everything that steps are made of, and a save behind the newest `optim_step`."""
    records = []
    for step in range(steps):
        at = now - 100 + 10 * step
        stamp = {"step": step} if make is op else {}
        records += [
            make(at=at + 1, **stamp, enqueued_at=at, started_at=at + 0.5, elapsed_seconds=0.5, queue_seconds=0.5,
                 metrics={"loss:sum": 1.0 / (step + 1)}, batch="b1", request_id=f"f1-{step}"),
            make(at=at + 1, **stamp, elapsed_seconds=0.75, batch="b1", metrics={"loss:sum": 2.0},
                 request_id=f"f2-{step}"),
            make(at=at + 2, **stamp, status="failed", error_type="ValueError", request_id=f"f3-{step}"),
            make(OPTIM_STEP, at=at + 5, **stamp, elapsed_seconds=0.125, nonfinite={"grad_norm": "nan"},
                 metrics={"lr": 1e-5}, request_id=f"o-{step}"),
        ]  # fmt: skip
    tail = {"step": steps} if make is op else {}
    return [*records, make("save_weights", at=now - 100 + 10 * steps, **tail, request_id="save")]


def put(writer, records, *, steps):
    writer.operations(*records)
    if records[0].step is not None:
        writer.steps(steps)


# --- One truth from two sources -------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [op, foreign_op], ids=["ours", "openrls"])
@pytest.mark.parametrize(
    "query", [{}, {"last": 3}, {"before": 5}, {"before": 5, "last": 2}, {"before": 1}, {"before": 8}]
)
def test_live_history_and_both_give_the_same_steps(api, writer, now, make, query):
    put(writer, eventful_run(now, make=make), steps=8)
    live = api.answer(STEPS, **query)
    take_snapshot()
    both = api.answer(STEPS, **query)
    writer.client.flushdb()
    history = api.answer(STEPS, **query)
    assert live["results"]
    assert both["results"] == live["results"]
    assert history["results"] == live["results"]
    assert {answer["next_before"] for answer in (live, both, history)} == {live["next_before"]}
    assert [answer["steps_completed"] for answer in (live, both, history)] == [8, 8, 8]
    assert (live["coverage"]["source"], history["coverage"]["source"]) == ("live", "history")


@pytest.mark.parametrize("make", [op, foreign_op], ids=["ours", "openrls"])
@pytest.mark.parametrize("cut", [1, 6, 10, 17, 31])
def test_steps_of_which_redis_kept_the_newest_alone_are_completed_from_history(api, writer, now, make, cut):
    records = eventful_run(now, make=make)
    put(writer, records, steps=8)
    expected = api.results(STEPS)
    take_snapshot()
    writer.client.ltrim("open_rl:operations:run-a", cut, -1)
    answer = api.answer(STEPS)
    assert answer["results"] == expected
    assert answer["coverage"]["source"] == "both"


@pytest.mark.parametrize("make", [op, foreign_op], ids=["ours", "openrls"])
def test_steps_that_came_after_the_snapshot_stand_behind_those_of_history(api, writer, now, make):
    records = eventful_run(now, make=make)
    put(writer, records, steps=8)
    expected = api.results(STEPS)
    writer.client.flushdb()
    put(writer, records[:14], steps=3)
    take_snapshot()
    writer.client.flushdb()
    put(writer, records[14:], steps=8)
    if make is foreign_op:
        writer.client.delete("open_rl:steps:run-a")
    assert api.results(STEPS) == expected


def test_a_record_in_both_sources_counts_once(api, writer, now):
    put(writer, step_of_ops(0, at=now - 5), steps=1)
    take_snapshot()
    writer.operations(*step_of_ops(1, at=now))
    assert [step["operations"][FORWARD_BACKWARD]["count"] for step in api.results(STEPS)] == [1, 1]


# --- The answer -----------------------------------------------------------------------------------------------
def test_a_step_has_the_fields_of_the_contract(api, writer, now):
    put(writer, eventful_run(now), steps=8)
    step = api.results(STEPS, last=1)[0]
    assert list(step) == ["step", "completed", "started_at", "finished_at", "wall_seconds", "failures", "operations"]
    assert (step["step"], step["completed"], step["failures"], step["wall_seconds"]) == (
        7,
        True,
        1,
        pytest.approx(15.0),
    )
    assert list(step["operations"]) == [FORWARD_BACKWARD, OPTIM_STEP, "save_weights"]
    group = step["operations"][FORWARD_BACKWARD]
    assert (group["count"], group["failures"], group["seconds"], group["queue_seconds"]) == (3, 1, 0.75, 0.5)
    assert group["metrics"]["loss:sum"] == {
        "count": 2,
        "min": 0.125,
        "mean": 1.0625,
        "max": 2.0,
        "last": group["metrics"]["loss:sum"]["last"],
    }


def test_a_metric_that_was_not_finite_has_no_numbers(api, writer, now):
    put(writer, eventful_run(now), steps=8)
    group = api.results(STEPS, last=1)[0]["operations"][OPTIM_STEP]
    assert (group["metrics"]["grad_norm"], group["nonfinite"]) == ({"count": 0}, {"grad_norm": 1})


def test_the_newest_twenty_steps_come_newest_last(api, writer, now):
    for step in range(30):
        writer.operations(*step_of_ops(step, at=now - 300 + step))
    writer.steps(30)
    answer = api.answer(STEPS)
    assert [step["step"] for step in answer["results"]] == list(range(10, 30))
    assert (answer["count"], answer["steps_completed"], answer["next_before"]) == (20, 30, 10)


@pytest.mark.parametrize("stored", [False, True])
def test_pages_of_steps_show_each_step_once_and_as_the_whole_list_does(api, writer, now, stored):
    for step in range(23):
        writer.operations(*step_of_ops(step, at=now - 300 + step, enqueued_at=now - 301 + step))
    writer.steps(23)
    if stored:
        take_snapshot()
        writer.client.ltrim("open_rl:operations:run-a", 20, -1)
    seen, query = [], {}
    while True:
        answer = api.answer(STEPS, last=5, **query)
        seen = answer["results"] + seen
        if answer["next_before"] is None:
            break
        query = {"before": answer["next_before"]}
    assert seen == api.results(STEPS, last=2_000)
    assert [step["step"] for step in seen] == list(range(23))


def test_steps_far_apart_are_found_all_the_same(api, writer, now):
    for step in (3, 40, 900):
        writer.operations(*step_of_ops(step, at=now - 1_000 + step))
    writer.steps(901)
    assert [step["step"] for step in api.results(STEPS, last=3)] == [3, 40, 900]


def test_a_run_without_ops_has_no_steps(api, writer, now):
    writer.active(RUN, now)
    answer = api.answer(STEPS)
    assert (answer["results"], answer["count"], answer["next_before"], answer["steps_completed"]) == ([], 0, None, 0)


def test_records_that_no_store_holds_are_told(api, writer, now):
    put(writer, eventful_run(now), steps=8)
    writer.ledger(recorded=40)
    writer.raw_operations(RUN, "nonsense", active_at=now)
    coverage = api.answer(STEPS)["coverage"]
    assert (coverage["complete"], coverage["missing_records"], coverage["malformed"]) == (False, 6, 1)


def test_a_malformed_record_makes_an_answer_incomplete_and_is_not_missing(api, writer, now):
    put(writer, eventful_run(now), steps=8)
    writer.ledger(recorded=34)
    writer.raw_operations(RUN, "nonsense", active_at=now)
    coverage = api.answer(STEPS)["coverage"]
    assert (coverage["complete"], coverage["missing_records"], coverage["malformed"]) == (False, 0, 1)


def test_an_answer_without_a_gap_is_complete(api, writer, now):
    put(writer, eventful_run(now), steps=8)
    writer.ledger(recorded=33)
    coverage = api.answer(STEPS)["coverage"]
    assert (coverage["complete"], coverage["missing_records"], coverage["live"]) == (True, 0, True)


def test_fields_keep_what_they_name(api, writer, now):
    put(writer, eventful_run(now), steps=8)
    results = api.results(STEPS, last=2, fields="completed,operations.optim_step.metrics.lr.last")
    expected = {"completed": True, "operations": {"optim_step": {"metrics": {"lr": {"last": 1e-5}}}}}
    assert results == [{"step": 6, **expected}, {"step": 7, **expected}]


def test_an_unknown_field_is_refused_with_the_known_ones(api, writer, now):
    put(writer, eventful_run(now), steps=8)
    entry = api.refusal(STEPS, fields="operations.optim_step.metrics.loss")
    assert entry["attr"] == "fields"
    assert "operations.optim_step.metrics.lr" in entry["detail"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("last", "0"), ("last", "2001"), ("last", "-1"), ("last", "all"), ("before", "-1"), ("before", "x")],
)
def test_a_number_out_of_bounds_is_refused_by_value_and_rule(api, writer, now, name, value):
    writer.active(RUN, now)
    entry = api.refusal(STEPS, **{name: value})
    assert entry["attr"] == name
    assert value in entry["detail"]
    assert "must be" in entry["detail"]


def test_nothing_is_below_step_0(api, writer, now):
    put(writer, eventful_run(now), steps=8)
    answer = api.answer(STEPS, before=0)
    assert (answer["results"], answer["next_before"]) == ([], None)


def test_a_step_number_of_any_size_is_answered(api, writer, now):
    put(writer, [*step_of_ops(0, at=now - 9), *step_of_ops(2**53, at=now - 5)], steps=1)
    take_snapshot()
    assert [step["step"] for step in api.results(STEPS)] == [0, 2**53]
    assert [step["step"] for step in api.results(STEPS, before=2**53)] == [0]


def test_history_tells_its_age(api, writer, now, point_site_at, tmp_path):
    put(writer, eventful_run(now), steps=8)
    take_snapshot()
    expected = api.results(STEPS)
    point_site_at(f"unix://{tmp_path}/nothing.sock?db=0")
    answer = api.answer(STEPS)
    assert answer["results"] == expected
    assert answer["coverage"]["live"] is False
    assert answer["as_of"] == answer["coverage"]["last_snapshot_at"] is not None
    assert Run.objects.count() == 1
