"""Incidents over the API: filters, paging, and what an incident says of itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from telemetry_app.incidents import take_verdicts
from telemetry_app.instants import from_unix
from telemetry_app.models import Incident
from tests.support.records import RUN, op
from tests.telemetry_app.api.conftest import run_path

pytestmark = pytest.mark.django_db
AT = datetime(2026, 5, 20, 8, tzinfo=UTC)


def incident(code="failing", *, run_id=RUN, minutes=0, ended=None):
    at = AT + timedelta(minutes=minutes)
    ended_at = None if ended is None else AT + timedelta(minutes=ended)
    times = {"started_at": at, "last_held_at": ended_at or at, "ended_at": ended_at, "changed_at": at}
    return Incident.objects.create(run_id=run_id, code=code, cause=code, **times)


def test_what_a_pass_found_is_told(api, writer, now):
    writer.operations(*(op(at=now - 3 + n, status="failed", error_type="ValueError") for n in range(3)))
    take_verdicts()
    [found] = api.results("/incidents")
    assert (found["run_id"], found["code"], found["is_open"], found["ended_at"]) == (RUN, "failing", True, None)
    assert len(found["evidence"][0]["record_ids"]) == 3
    assert api.results(run_path(RUN, "/incidents")) == [found]


def test_filters_let_through_what_they_name(api, writer):
    incident(minutes=0, ended=5)
    incident("stuck", minutes=10)
    incident(run_id="run-b", minutes=20, ended=25)

    def codes(**parameters):
        return [(each["run_id"], each["code"]) for each in api.results("/incidents", **parameters)]

    assert codes() == [("run-b", "failing"), (RUN, "stuck"), (RUN, "failing")]
    assert codes(run=RUN) == [(RUN, "stuck"), (RUN, "failing")]
    assert codes(code="stuck") == codes(open="true") == [(RUN, "stuck")]
    assert codes(open="false", run=RUN) == [(RUN, "failing")]
    assert codes(since="2026-05-20T08:05:00Z") == codes()
    assert codes(since="2026-05-20T08:05:01Z") == [("run-b", "failing"), (RUN, "stuck")]


def test_incidents_that_began_at_one_instant_are_paged_once_each(api, writer):
    made = [incident(run_id=f"run-{n}", minutes=0).pk for n in range(7)]
    assert [each["id"] for each in api.walk("/incidents", page_size=2)] == sorted(made, reverse=True)


@pytest.mark.parametrize("parameters", [{"code": "late"}, {"open": "yes"}, {"since": "yesterday"}, {"state": "stuck"}])
def test_an_unknown_word_is_refused(api, writer, parameters):
    assert api.refusal("/incidents", **parameters)["attr"] == next(iter(parameters))


def test_a_run_without_incidents_has_an_empty_list_and_an_unknown_one_is_not_found(api, writer, now):
    writer.operations(op(at=now))
    assert api.results(run_path(RUN, "/incidents")) == []
    api.answer(run_path("nobody", "/incidents"), 404)


def test_a_list_costs_two_queries_more_than_nothing(api, writer, django_assert_max_num_queries):
    for number in range(20):
        incident(run_id=f"run-{number}", minutes=number)
    with django_assert_max_num_queries(8):
        assert len(api.results("/incidents")) == 20


def test_without_history_there_is_no_answer(api, writer, postgres_out):
    postgres_out()
    api.answer("/incidents", 503)


def test_how_long_an_open_one_has_lasted_is_told_by_the_newest_pass(api, writer, now):
    writer.operations(*(op(at=now - 3 + n, status="failed") for n in range(3)))
    take_verdicts(now=from_unix(now))
    take_verdicts(now=from_unix(now + 60))
    assert api.results("/incidents")[0]["for_seconds"] == pytest.approx(63, abs=1)
