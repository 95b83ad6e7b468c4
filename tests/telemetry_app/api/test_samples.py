"""A run's sampling by window of time, and its failed answers."""

from __future__ import annotations

import pytest

from telemetry_app.instants import rfc3339
from telemetry_app.snapshots import take_snapshot
from tests.support.costs import cost_of
from tests.support.records import RUN, op, sample_failure, sample_group
from tests.telemetry_app.api.conftest import run_path

pytestmark = pytest.mark.django_db
PATH = run_path(RUN, "/samples")


@pytest.fixture
def minute(now):
    """The start of a whole minute that is over."""
    return now // 60 * 60 - 120


@pytest.fixture
def around(minute):
    """A query of four windows around that minute, all of them over."""
    return {"since": rfc3339(minute - 120), "until": rfc3339(minute + 120)}


@pytest.fixture(params=["live", "history", "both"])
def samples(request, writer, minute):
    """Sampling in two windows."""
    writer.operations(op(at=minute))
    four = {"count": 4, "seconds_sum": 8.0, "seconds_max": 5.0, "tokens_sum": 100, "busy_seconds": 6.0}
    one = {"count": 1, "seconds_sum": 2.0, "seconds_max": 2.0, "tokens_sum": 20, "busy_seconds": 2.0}
    writer.samples(
        sample_group(at=minute - 1, id="a:1", count=2),
        sample_group(at=minute, id="a:2", **four),
        sample_group(at=minute + 59, id="b:1", **one),
        sample_failure(at=minute + 30, id="a:3", error_type="TimeoutError", source="deadline"),
        sample_failure(at=minute - 1000, id="a:0"),
    )
    if request.param == "both":
        take_snapshot()
        writer.samples(sample_group(at=minute + 10, id="a:9", count=3, seconds_sum=4.0, seconds_max=3.0))
    else:
        writer.samples(sample_group(at=minute + 10, id="a:9", count=3, seconds_sum=4.0, seconds_max=3.0))
    if request.param == "history":
        take_snapshot()
        writer.client.flushdb()
    return writer


def test_each_window_says_what_was_answered_how_fast(api, samples, minute, around):
    answer = api.answer(PATH, **around)
    assert (answer["since"], answer["until"]) == (around["since"], around["until"])
    assert [window["answered"] for window in answer["windows"]] == [0, 2, 8, 0]
    full = answer["windows"][2]
    assert full == {
        "started_at": rfc3339(minute), "ended_at": rfc3339(minute + 60), "answered": 8, "failed": 1,
        "answers_per_second": pytest.approx(8 / 60), "tokens": 120, "tokens_per_second": pytest.approx(2.0),
        "mean_seconds": pytest.approx(14 / 8), "max_seconds": 5.0, "busy_seconds": 8.0,
    }  # fmt: skip


def test_what_is_not_known_is_null_and_not_zero(api, samples, around):
    _, untimed, _, empty = api.answer(PATH, **around)["windows"]
    assert [untimed[name] for name in ("mean_seconds", "max_seconds", "tokens", "busy_seconds")] == [None] * 4
    assert (empty["answered"], empty["failed"], empty["mean_seconds"]) == (0, 0, None)


def test_totals_are_those_of_the_windows(api, samples, around):
    totals = api.answer(PATH, **around)["totals"]
    assert (totals["answered"], totals["failed"], totals["tokens"], totals["max_seconds"]) == (10, 1, 120, 5.0)
    assert totals["mean_seconds"] == pytest.approx(14 / 8)


def test_failed_answers_come_newest_first_with_how_many_there_are(api, samples, minute, around):
    answer = api.answer(PATH)
    assert [result["id"] for result in answer["results"]] == ["a:3", "a:0"]
    assert answer["results"][0]["source"] == "deadline"
    assert answer["total_matching"] == 2
    within = api.answer(PATH, **around)
    assert ([result["id"] for result in within["results"]], within["total_matching"]) == (["a:3"], 1)


def test_failed_answers_come_in_pages(api, samples):
    assert [result["id"] for result in api.walk(PATH, page_size=1)] == ["a:3", "a:0"]


def test_windows_are_as_long_as_asked_for(api, samples, minute):
    answer = api.answer(PATH, window_seconds=1, since=rfc3339(minute - 1), until=rfc3339(minute + 1))
    assert [window["answered"] for window in answer["windows"]] == [2, 4]


def test_since_and_until_are_widened_to_whole_windows(api, samples, minute):
    answer = api.answer(PATH, since=rfc3339(minute + 20), until=rfc3339(minute + 21))
    assert (answer["since"], answer["until"]) == (rfc3339(minute), rfc3339(minute + 60))
    assert [window["answered"] for window in answer["windows"]] == [8]


def test_the_newest_sixty_windows_are_told_without_asking(api, samples):
    assert len(api.answer(PATH)["windows"]) == 60


def test_rates_of_the_window_that_goes_on_are_over_the_part_that_is_over(api, writer, now):
    writer.operations(op(at=now))
    writer.samples(sample_group(at=now - 0.001, count=5))
    answer = api.answer(PATH, window_seconds=86_400)
    assert answer["windows"][-1]["answers_per_second"] > 5 / 86_400


def test_a_record_told_again_counts_once(api, writer, minute, around):
    writer.operations(op(at=minute))
    writer.samples(*(sample_group(at=minute, id=f"a:{n}", count=1) for n in range(3)))
    take_snapshot()
    writer.samples(sample_group(at=minute, id="a:1", count=1), sample_group(at=minute, id="a:7", count=1))
    assert api.answer(PATH, **around)["totals"]["answered"] == 4
    writer.client.flushdb()
    writer.operations(op(at=minute))
    writer.samples(sample_group(at=minute, id="a:1", count=1), sample_group(at=minute, id="a:8", count=1))
    assert api.answer(PATH, **around)["totals"]["answered"] == 4


def test_sums_of_monstrous_durations_stay_finite(api, writer, minute, around):
    for _ in range(2):
        writer.operations(op(at=minute))
        monster = {"seconds_sum": 1.7e308, "seconds_max": 1.7e308, "busy_seconds": 1.7e308, "tokens_sum": 2**53}
        writer.samples(*(sample_group(at=minute, count=2**53, **monster) for _ in range(3)))
        assert api.answer(PATH, **around)["totals"]["max_seconds"] == 1.7e308
        take_snapshot()


@pytest.mark.parametrize(
    ("query", "attribute"),
    [
        ({"window_seconds": "0"}, "window_seconds"),
        ({"window_seconds": "86401"}, "window_seconds"),
        ({"window_seconds": "1", "since": "2026-01-01T00:00:00Z", "until": "2026-01-01T01:00:00Z"}, "window_seconds"),
        ({"since": "0001-01-01T00:00:00Z"}, "window_seconds"),
        ({"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, "until"),
        ({"until": "0001-01-01T00:00:00Z"}, "until"),
        ({"since": "9999-12-31T23:59:59Z"}, "until"),
        ({"window": "60"}, "window"),
        ({"cursor": "x"}, "cursor"),
    ],
)
def test_a_bad_parameter_is_refused_by_name(api, samples, query, attribute):
    assert api.refusal(PATH, **query)["attr"] == attribute


def test_the_last_instants_there_are_can_be_asked_for(api, samples):
    last = {"since": "9999-12-30T00:00:00Z", "until": "9999-12-31T23:59:59Z", "window_seconds": "86400"}
    assert [window["answered"] for window in api.answer(PATH, **last)["windows"]] == [0]


# --- Outages --------------------------------------------------------------------------------------------------
def test_with_redis_out_history_answers(api, samples, point_site_at, tmp_path, around):
    take_snapshot()
    before = api.answer(PATH, **around)
    point_site_at(f"unix://{tmp_path}/nothing.sock?db=0")
    answer = api.answer(PATH, **around)
    for name in ("windows", "totals", "results", "total_matching"):
        assert answer[name] == before[name]
    assert (answer["coverage"]["live"], answer["coverage"]["source"]) == (False, "history")
    assert answer["as_of"] == answer["coverage"]["last_snapshot_at"] is not None


def test_with_postgres_out_redis_answers(api, writer, minute, around, postgres_out):
    writer.operations(op(at=minute))
    writer.samples(sample_group(at=minute, count=4), sample_failure(at=minute))
    before = api.answer(PATH, **around)
    postgres_out()
    answer = api.answer(PATH, **around)
    assert (answer["windows"], answer["results"]) == (before["windows"], before["results"])
    assert (answer["coverage"]["live"], answer["coverage"]["history"]) == (True, False)


@pytest.mark.parametrize("kept", ["both", "history"])
def test_an_answer_costs_as_much_for_many_records_as_for_one(api, writer, now, monkeypatch, kept):
    costs = []
    for numbers in (range(1), range(1, 20)):
        writer.operations(op(at=now - 100))
        for n in numbers:
            writer.samples(sample_failure(at=now - n), sample_group(at=now - n, seconds_sum=1.0))
        take_snapshot()
        if kept == "history":
            writer.client.flushdb()
        costs.append(cost_of(api, PATH, monkeypatch))
    assert costs[0] == costs[1]
    assert costs[1][0] <= 10
    assert costs[1][1] <= 6
