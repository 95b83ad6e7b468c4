"""`/workers/{id}/events`: what happened to a worker, newest first."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from telemetry_app.instants import from_unix, rfc3339
from telemetry_app.models import Worker, WorkerEvent
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, worker
from workers_client.wire_worker import OutstandingWork

pytestmark = pytest.mark.django_db
EVENTS = "/workers/w/events"


@pytest.fixture
def lost(writer, now):
    """A worker that was lost with two requests in its hands, as a snapshot saw it."""
    held = (OutstandingWork(RUN, "optim_step", 2, now - 310),)
    writer.workers(worker("w", at=now - 300, started_at=now - 900, outstanding=held), worker("other", at=now))
    take_snapshot()
    return writer


def test_a_workers_events_come_newest_first(api, lost, now):
    answer = api.answer(EVENTS)
    assert (answer["worker"], answer["count"], answer["total_matching"], answer["next"]) == ("w", 3, 3, None)
    lost = f"2 requests outstanding of {RUN}, oldest 1 min 10 s old"
    assert answer["results"] == [
        {"event": "lost", "at": rfc3339(now - 240), "detail": lost},
        {"event": "late", "at": rfc3339(now - 285), "detail": None},
        {"event": "started", "at": rfc3339(now - 900), "detail": None},
    ]


def test_events_are_as_old_as_the_newest_snapshot(api, lost):
    answer = api.answer(EVENTS)
    assert answer["as_of"] == answer["coverage"]["last_snapshot_at"]
    assert answer["as_of"] is not None


def test_events_are_answered_with_redis_out(api, lost, redis_out):
    assert [event["event"] for event in api.results(EVENTS)] == ["lost", "late", "started"]


def test_events_outlive_their_workers_row(api, lost):
    lost.client.flushdb()
    Worker.objects.all().delete()
    assert len(api.results(EVENTS)) == 3


def test_a_worker_that_no_snapshot_saw_has_no_events_yet(api, writer, now):
    writer.workers(worker("w", at=now))
    answer = api.answer(EVENTS)
    assert (answer["results"], answer["total_matching"], answer["as_of"]) == ([], 0, None)


@pytest.mark.parametrize("name", ["nobody", "x" * 600, "nul\0"])
def test_a_worker_nobody_knows_is_not_found(api, lost, name):
    assert api.answer(f"/workers/{quote(name)}/events", 404)["errors"][0]["code"] == "not_found"


def test_a_worker_that_only_redis_could_know_is_unavailable(api, lost, redis_out):
    assert api.answer("/workers/nobody/events", 503)["errors"][0]["code"] == "sources_unavailable"


def test_without_history_nothing_can_be_said(api, lost, postgres_out):
    postgres_out()
    assert api.answer(EVENTS, 503)["errors"][0]["code"] == "sources_unavailable"


@pytest.mark.parametrize("page_size", [1, 2, 5])
def test_pages_show_each_event_once_though_they_tie(api, lost, now, page_size):
    WorkerEvent.objects.bulk_create(
        WorkerEvent(worker_id="w", event=event, at=from_unix(now - 100 - (n % 3)))
        for n in range(6)
        for event in (["late", "recovered"] if n < 3 else ["lost"])
    )
    found = [(event["at"], event["event"]) for event in api.walk(EVENTS, page_size=page_size)]
    assert len(found) == 12
    assert found == sorted(set(found), reverse=True)


def test_a_cursor_of_another_worker_is_refused(api, lost):
    cursor = api.answer(EVENTS, page_size=1)["next"]
    assert api.refusal("/workers/other/events", cursor=cursor)["attr"] == "cursor"


def test_an_unknown_parameter_is_refused(api, lost):
    assert api.refusal(EVENTS, event="late")["attr"] == "event"


def test_a_worker_whose_id_ends_like_the_endpoint_is_reached(api, writer, now):
    writer.workers(worker("pod/events", at=now))
    assert api.answer("/workers/pod%2Fevents")["worker"] == "pod/events"
    assert api.answer("/workers/pod%2Fevents/events")["worker"] == "pod/events"
