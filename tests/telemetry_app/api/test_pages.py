"""Pages of every list: none shows a record twice or leaves one out, whatever ties, comes in or goes meanwhile."""

from __future__ import annotations

import pytest

from telemetry_app.instants import from_unix
from telemetry_app.models import Operation, Sample, Worker, WorkerEvent
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, op, sample_failure, turn, worker
from tests.telemetry_app.api.conftest import run_path
from workers_client import wire

pytestmark = pytest.mark.django_db
COUNT = 12
LISTS = {
    run_path(RUN, "/operations"): "id",
    run_path(RUN, "/failures"): "id",
    run_path(RUN, "/samples"): "id",
    run_path(RUN, "/turns"): "id",
    "/failures": "id",
    "/workers": "worker",
    "/workers/w-x/events": "event",
}


@pytest.fixture
def ties(writer, now):
    """A list of each kind whose records all have one instant."""
    at = round(now - 100, 3)
    writer.operations(*(op(at=at, step=0, status="failed", id=f"o:{n}") for n in range(COUNT)))
    writer.samples(*(sample_failure(at=at, id=f"s:{n}") for n in range(COUNT)))
    operation = wire.TurnOp(name="optim_step", run_id=RUN, start=at - 0.5, end=at)
    writer.turns(*(turn(at=at, id=f"t:{n}", ops=(operation,)) for n in range(COUNT)))
    writer.workers(*(worker(f"w-{n:02}", at=at) for n in range(COUNT)))
    writer.active(RUN, now)
    Worker.objects.create(worker="w-x", role="trainer", last_heartbeat_at=from_unix(at), interval_seconds=5)
    WorkerEvent.objects.bulk_create(
        WorkerEvent(worker_id="w-x", event=event, at=from_unix(at)) for event in WorkerEvent.Event.values
    )
    return at


@pytest.fixture(params=["live", "history"])
def kept(request, ties, writer):
    """Where the records are."""
    if request.param == "history":
        take_snapshot()
        writer.client.flushdb()
    return request.param


def names(results, name):
    return [result[name] for result in results]


@pytest.mark.parametrize("path", LISTS)
def test_records_that_tie_are_each_shown_once(api, ties, kept, path):
    name = LISTS[path]
    whole = names(api.results(path), name)
    assert len(set(whole)) == len(whole) > 4
    for size in (1, 2, 5):
        assert names(api.walk(path, page_size=size), name) == whole


@pytest.mark.parametrize("path", LISTS)
def test_what_comes_and_goes_between_pages_moves_no_other_record(api, ties, kept, path, writer, now):
    name = LISTS[path]
    whole = names(api.results(path), name)
    first = api.answer(path, page_size=3)
    shown = names(first["results"], name)
    writer.operations(op(at=now, step=1, status="failed", id="o:new"))
    writer.samples(sample_failure(at=now, id="s:new"))
    writer.workers(worker("w-new", at=now))
    Operation.objects.filter(record_id__in=shown).delete()
    Sample.objects.filter(record_id__in=shown).delete()
    Worker.objects.filter(worker__in=shown).delete()
    WorkerEvent.objects.filter(event__in=shown).delete()
    rest, cursor = [], first["next"]
    while cursor:
        answer = api.answer(path, page_size=3, cursor=cursor)
        rest += names(answer["results"], name)
        cursor = answer["next"]
    assert shown + rest == whole


@pytest.mark.parametrize("path", LISTS)
def test_a_cursor_belongs_to_its_query(api, ties, path):
    cursor = api.answer(path, page_size=2)["next"]
    others = [other for other in LISTS if other != path]
    for other in others:
        assert (
            "other filters" in api.refusal(other, cursor=cursor)["detail"]
            or "not one" in api.refusal(other, cursor=cursor)["detail"]
        )
    assert api.answer(path, page_size=4, cursor=cursor)["count"] > 0  # the size of a page is no filter


EVERYTHING = [
    *LISTS, "/runs", run_path(RUN), run_path(RUN, "/steps"), run_path(RUN, "/requests"), run_path(RUN, "/metrics"),
    "/requests", "/workers/w-x", "/retention", "/api/schema", "/events", run_path(RUN, "/events"),
]  # fmt: skip


@pytest.mark.parametrize("path", EVERYTHING)
def test_an_unknown_parameter_is_refused_with_the_known_ones(api, ties, path):
    refusal = api.refusal(path, lmit="5")
    assert refusal["attr"] == "lmit"
    known = "page_size" if path in LISTS or path in ("/runs", "/requests") else ""
    assert known in refusal["detail"]
    assert "known ones are" in refusal["detail"] or "There are none." in refusal["detail"]
